"""Numbers as people and models write them, read as exact fractions. Doubtful ones are not guessed.

Read: a sign, a currency before the digits, thousands commas in groups of three, decimals, ``1e3``,
``a/b``, mixed ``2 1/2``, a percent sign (the bare number; the kind is kept). Units are ignored, but
``thousand``, ``dozen`` and ``k`` are no units: such a number is doubtful.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

LONGEST_NUMBER = 120
"""Characters. A longer run of digits is no answer to a word problem, and costs time to read."""
LARGEST_EXPONENT = 60


class Kind(StrEnum):
    """What stood behind the number."""

    NUMBER = "number"
    PERCENT = "percent"


class Doubt(StrEnum):
    """Why a number is not read: two readings are possible, or none."""

    COMMA = "a comma that groups no thousands"
    COLON = "a time or ratio"
    SPACES = "digits in groups with spaces"
    GROUPS = "digits with marks that are neither thousands commas nor a point"
    POWER = "a power"
    SCALE = "a number beside a word that multiplies it"
    SLASHES = "a date or a chain of divisions"
    RANGE = "a range or an unfinished difference"
    NOT_BUT = "one number denied beside another"
    WORDS = "a number word"
    TOO_LONG = "too long for a number"
    ZERO = "division by zero"


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a text: its value, or why it was not read."""

    value: Fraction | None
    kind: Kind
    start: int
    end: int
    doubt: Doubt | None = None


_DIGITS = r"\d+(?:,\d+)*(?:\.\d+)?|\.\d+"
_CURRENCY = r"[$€£¥₹]"
_GROUP_SPACE = "[ \u00a0\u2009\u202f]"
_SCALE = "hundred|thousand|million|billion|trillion|dozen"
_NUMBER = re.compile(
    rf"""
    (?<!\w)(?<!\d[.,:/])
    (?P<money>{_CURRENCY}\s?)?
    (?P<sign>[-+\u2212\u2013](?=\s?{_CURRENCY}|\d|\.\d)|)
    (?P<signed_money>\s?{_CURRENCY}\s?)?
    (?P<first>(?>{_DIGITS}))(?!(?:st|nd|rd|th)\b)
    (?P<exponent>[eE][-+]?\d+(?!\w))?
    (?P<more>
        (?P<groups>(?:[.,'\u2019_]\d+)+|\s?[\u00bc-\u00be\u2150-\u215e])
      | (?P<power>(?:\s?(?:(?:[x\u00d7*]|\\times|\\cdot)\s?10\s?)?(?:\^|\*\*)\s?\{{?[-+]?\d+\}}?)+)
      | (?P<spaces>(?:{_GROUP_SPACE}\d{{3}}(?![\d/]))+)
      | (?P<mixed>\s\d+\s?/\s?\d+)
      | (?P<colon>(?::\d+)+)
      | (?P<slashes>(?:\s?/\s?{_CURRENCY}?\d[\d,]*(?:\.\d+)?)+)
      | (?P<range>\s?[-\u2013]\s?{_CURRENCY}?\d+)
    )?
    (?P<percent>\s?%|\s?percent\b)?
    (?P<scale>
        [\s-]{{0,3}}(?i:{_SCALE})s?\b
      | [kK]\b
      | \s{{1,3}}and\s{{1,3}}(?:a|one)[\s-](?i:half|third|quarter)\b
      | (?P<scale_of_money>(?i:[mb]n?)\b)
    )?
    """,
    re.VERBOSE,
)
"""A letter such as the m of ``5m`` is a unit, and multiplies only behind a currency."""
_AFTER_SCALE = re.compile(rf"\b(?:{_SCALE})s?[\s-]+(?:and\s+)?$", re.IGNORECASE)
_LONGEST_SCALE = 30
"""Characters before a number in which a word such as ``thousand and`` ends."""
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_DENIED = re.compile(rf"\bnot\s+{_CURRENCY}?\d", re.IGNORECASE)
_WORDS = re.compile(
    r"\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|"
    r"sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|"
    rf"{_SCALE}|half|third|quarter)\b",
    re.IGNORECASE,
)


def numbers_in(text: str) -> list[Number]:
    """Every number of one line or sentence, in order; doubtful ones are there, without a value."""
    found = [_read(match) for match in _NUMBER.finditer(text)]
    if found and _DENIED.search(text):
        return [Number(None, each.kind, each.start, each.end, Doubt.NOT_BUT) for each in found]
    return found


def has_number_word(text: str) -> bool:
    """Whether a number is written out in words."""
    return _WORDS.search(text) is not None


def same_value(a: Fraction, b: Fraction) -> bool:
    """Equal within 1e-6 of the larger one, computed exactly."""
    return abs(a - b) <= max(abs(a), abs(b)) / 1_000_000


_DOUBTFUL_FORMS = (
    ("groups", Doubt.GROUPS),
    ("power", Doubt.POWER),
    ("spaces", Doubt.SPACES),
    ("colon", Doubt.COLON),
    ("range", Doubt.RANGE),
)


def _is_scaled(match: re.Match[str]) -> bool:
    """Whether a word multiplies the number (``3 thousand``) or is its first part (``thousand and 5``)."""
    if match["scale"] and not match["scale_of_money"]:
        return True
    if match["scale_of_money"] and (match["money"] or match["signed_money"]):
        return True
    before = match.string[max(0, match.start() - _LONGEST_SCALE) : match.start()]
    return _AFTER_SCALE.search(before) is not None


def _read(match: re.Match[str]) -> Number:
    kind = Kind.PERCENT if match["percent"] else Kind.NUMBER
    value, doubt = _value(match)
    if value is not None and match["sign"] in ("-", "\u2212", "\u2013"):
        value = -value
    return Number(value, kind, match.start(), match.end(), doubt)


def _value(match: re.Match[str]) -> tuple[Fraction | None, Doubt | None]:
    if len(match[0]) > LONGEST_NUMBER or abs(int((match["exponent"] or "e0")[1:])) > LARGEST_EXPONENT:
        return None, Doubt.TOO_LONG
    for group, why in _DOUBTFUL_FORMS:
        if match[group]:
            return None, why
    if _is_scaled(match):
        return None, Doubt.SCALE
    first = _plain(match["first"])
    if first is None:
        return None, Doubt.COMMA
    if match["exponent"]:
        first *= Fraction(10) ** int(match["exponent"][1:])
    if match["mixed"]:
        part, doubt = _quotient(match["mixed"].strip())
        return (None, doubt) if part is None else (first + part, None)
    if match["slashes"]:
        parts = match["slashes"].split("/")[1:]
        divisor = _plain(parts[0].strip(" $€£¥₹")) if len(parts) == 1 else None
        if divisor is None:
            return None, Doubt.SLASHES
        return (None, Doubt.ZERO) if divisor == 0 else (first / divisor, None)
    return first, None


def _quotient(text: str) -> tuple[Fraction | None, Doubt | None]:
    above, below = (int(part) for part in text.split("/"))
    return (None, Doubt.ZERO) if below == 0 else (Fraction(above, below), None)


def _plain(digits: str) -> Fraction | None:
    """Digits with or without thousands commas; None when the commas group no thousands."""
    digits = digits.strip()
    if "," in digits and not _THOUSANDS.fullmatch(digits):
        return None
    return Fraction(digits.replace(",", ""))
