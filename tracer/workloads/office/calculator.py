"""The tool ``calc``: + - * / and parentheses over decimal numbers, parsed by hand and exact."""

from __future__ import annotations

import re
from fractions import Fraction

_TOKEN = re.compile(r"\s*(?:(\d{1,15}(?:\.\d{1,15})?)|([-+*/()]))")
_MOST_CHARACTERS = 200
_DEEPEST = 20
_DECIMALS = 6


def calculate(expression: str) -> str:
    """The value as decimal text, at most 6 decimals. Raises ``ValueError`` with what is wrong."""
    if len(expression) > _MOST_CHARACTERS:
        raise ValueError(f"the expression is longer than {_MOST_CHARACTERS} characters")
    parser = _Parser(_tokens(expression))
    value = parser.sum(0)
    if parser.rest:
        raise ValueError(f"unexpected {parser.rest[0]!r}")
    return _decimal(value)


def _tokens(expression: str) -> list[str]:
    tokens = []
    at, text = 0, expression.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(
                f"only numbers, + - * / and parentheses are allowed, not {text[at:].strip()[:1]!r}"
            )
        tokens.append(match.group(1) or match.group(2))
        at = match.end()
    return tokens


class _Parser:
    """Recursive descent over the tokens; ``rest`` is what is not read yet."""

    def __init__(self, tokens: list[str]) -> None:
        self.rest = tokens

    def sum(self, depth: int) -> Fraction:
        value = self._product(depth)
        while self.rest and self.rest[0] in "+-":
            sign = 1 if self.rest.pop(0) == "+" else -1
            value += sign * self._product(depth)
        return value

    def _product(self, depth: int) -> Fraction:
        value = self._factor(depth)
        while self.rest and self.rest[0] in "*/":
            operator, right = self.rest.pop(0), self._factor(depth)
            if operator == "/" and right == 0:
                raise ValueError("division by zero")
            value = value * right if operator == "*" else value / right
        return value

    def _factor(self, depth: int) -> Fraction:
        if depth > _DEEPEST:
            raise ValueError("the expression is nested too deeply")
        if not self.rest:
            raise ValueError("the expression ends too early")
        token = self.rest.pop(0)
        if token == "-":
            return -self._factor(depth + 1)
        if token == "(":
            value = self.sum(depth + 1)
            if not self.rest or self.rest.pop(0) != ")":
                raise ValueError("a closing parenthesis is missing")
            return value
        if not token[0].isdigit():
            raise ValueError(f"unexpected {token!r}")
        return Fraction(token)


def _decimal(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    scaled = round(value * 10**_DECIMALS)
    sign, digits = "-" if scaled < 0 else "", str(abs(scaled)).rjust(_DECIMALS + 1, "0")
    return f"{sign}{digits[:-_DECIMALS]}.{digits[-_DECIMALS:]}".rstrip("0").rstrip(".")
