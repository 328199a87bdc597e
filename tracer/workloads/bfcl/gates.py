"""The two gates between a model's text and the benchmark's own ``eval``.

The official decoder evaluates operator expressions, and the official executor evaluates the call.
So text is judged twice, each time by parsing and never by running:

* before decoding, the text must parse to calls whose arguments are literals;
* after decoding, every string that will be executed must be one call of an offered function with
  keyword arguments that are plain scalars, lists, or flat dicts with plain string keys. The first
  gate alone is not enough: the decoder writes dict keys into the call as code.

Only the standard library is used; the gates run inside the worker, because even ``ast.parse`` of
hostile text may end the process.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass

LONGEST_TEXT = 200_000
"""Characters. A longer answer is not given to any parser."""

_SCALARS = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Judged:
    """One call of the text, and why it may not go on (None = it may)."""

    source: str
    name: str
    blocked: str | None


def as_decoder_reads(text: str) -> str:
    """The text with the brackets that the official prompting decoder adds before it parses."""
    text = text.strip("`\n ")
    if not text.startswith("["):
        text = "[" + text
    if not text.endswith("]"):
        text += "]"
    return text.strip().strip("'")


def before_decoding(text: str) -> list[Judged] | None:
    """Judge every call of a model's text; None when the text is no list of calls at all.

    None is what ends a turn in the benchmark: the decoder would fail on it, and nothing of it is
    evaluated here or there.
    """
    if len(text) > LONGEST_TEXT:
        return None
    wrapped = as_decoder_reads(text)
    try:
        body = ast.parse(wrapped, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    # "[f()][0]" also starts and ends with brackets; the decoder fails on it, as on any other shape.
    if not isinstance(body, ast.List) or not all(isinstance(item, ast.Call) for item in body.elts):
        return None
    return [_judge(item, wrapped) for item in body.elts if isinstance(item, ast.Call)]


def after_decoding(call: str, offered: Collection[str]) -> str | None:
    """Why this decoded string may not be executed; None when it may."""
    try:
        node = ast.parse(call, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "what the decoder made of it does not parse"
    if not isinstance(node, ast.Call):
        return "what the decoder made of it is not one call"
    if not isinstance(node.func, ast.Name):
        return "the function is not a plain name"
    if node.func.id not in offered:
        return f"the episode offers no function {node.func.id!r}"
    if node.args:
        return "positional arguments are not executed"
    for keyword in node.keywords:
        if keyword.arg is None:
            return "** arguments are not executed"
        if not _is_executable(keyword.value):
            return f"argument {keyword.arg!r} is not a plain scalar, list or flat dict"
    return None


def _judge(node: ast.Call, text: str) -> Judged:
    source = ast.get_source_segment(text, node) or ""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    return Judged(source=source, name=name or source[:80], blocked=_why_not_literal(node))


def _why_not_literal(node: ast.Call) -> str | None:
    if not isinstance(node.func, ast.Name):
        return "the function is not a plain name"
    for argument in node.args:
        if not _is_literal(argument):
            return "a positional argument is not a literal"
    for keyword in node.keywords:
        if keyword.arg is None:
            return "** arguments are not allowed"
        if not _is_literal(keyword.value):
            return f"argument {keyword.arg!r} is not a literal"
    return None


def _is_literal(node: ast.expr) -> bool:
    """Whether the node is a literal all the way down: no operator, name, call or attribute."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(_is_literal(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        return all(key is not None and _is_scalar(key) for key in node.keys) and all(
            _is_literal(value) for value in node.values
        )
    return _is_scalar(node)


def _is_executable(node: ast.expr) -> bool:
    if isinstance(node, ast.List):
        return all(_is_executable(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        return all(_is_plain_string(key) for key in node.keys) and all(
            _is_scalar(value)
            or (isinstance(value, ast.List) and all(_is_scalar(item) for item in value.elts))
            for value in node.values
        )
    return _is_scalar(node)


def _is_plain_string(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is str


def _is_scalar(node: ast.expr) -> bool:
    """A string, number, truth value or None; a minus before a number belongs to the number."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = node.operand
        return isinstance(operand, ast.Constant) and type(operand.value) in (int, float)
    return isinstance(node, ast.Constant) and type(node.value) in _SCALARS
