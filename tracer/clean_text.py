r"""The formatting boundary: text of models, tokens, tools and file names on its way to an eye.

Such text is hostile. A terminal obeys escape sequences, a spreadsheet runs formulas, a Markdown
viewer loads pictures, LaTeX reads files, bidirectional controls reorder what a reviewer sees and
invisible characters hide what is there. So nothing of it is printed or rendered anywhere without
one of these functions; and no other module knows how to escape.

``clean`` makes text safe for a terminal: what has no glyph of its own becomes a visible escape
(``\x1b``, ``\u202e``), so nothing is dropped silently. The functions named after a format clean
first and then escape for that format. Widths are terminal cells, never ``len()``.
"""

from __future__ import annotations

import html as html_module
import json
import math
import re
import unicodedata
from bisect import bisect_right
from functools import lru_cache
from typing import Any

import msgspec

NOT_OBSERVED = "–"
ELLIPSIS = "…"
NEWLINE_SIGN = "↵"
TAB_SIGN = "⇥"
SPACE_SIGN = "·"
_MOST_MARKS = 3
"""Combining marks kept on one character; more would climb over neighbouring lines."""

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
"""Characters with other categories that show nothing."""


def clean(text: str, *, visible: bool = False, lines: bool = False) -> str:
    r"""Text for one line of a terminal, or for several with ``lines``.

    ``visible`` shows spaces as ``·``. Newlines are kept only with ``lines``, else they and tabs
    are shown as signs. Controls, bidirectional and invisible characters, lone surrogates and
    unassigned characters are shown as escapes.
    """
    if text.isascii() and text.isprintable():
        return text.replace(" ", SPACE_SIGN) if visible else text
    shown: list[str] = []
    marks = _MOST_MARKS  # a mark at the start has nothing of this text to stand on
    for character in text:
        category = unicodedata.category(character)
        if category in ("Mn", "Me", "Mc"):
            marks += 1
            if marks <= _MOST_MARKS and not _is_invisible(character):
                shown.append(character)
            else:
                shown.append(_escape(character))
            continue
        plain = _plain(character, category, visible, lines)
        marks = 0 if len(plain) == 1 and plain != "\n" else _MOST_MARKS
        shown.append(plain)
    return "".join(shown)


def _plain(character: str, category: str, visible: bool, lines: bool) -> str:
    if character == " ":
        return SPACE_SIGN if visible else " "
    if character == "\n":
        return "\n" if lines else NEWLINE_SIGN
    if character == "\t":
        return "    " if lines else TAB_SIGN
    if category == "Zs":
        return _escape(character) if visible else " "
    if category in _HIDDEN_CATEGORIES or _is_invisible(character):
        return _escape(character)
    return character


def _is_invisible(character: str) -> bool:
    code = ord(character)
    variation = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF or 0x180B <= code <= 0x180F
    return variation or character in _BLANK_LETTERS


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clean_bytes(piece: bytes, *, visible: bool = False, lines: bool = False) -> str:
    r"""Bytes as text; those that are no UTF-8 are shown as ``\xNN``."""
    text = piece.decode("utf-8", "surrogateescape")
    if text.isascii():
        return clean(text, visible=visible, lines=lines)
    shown: list[str] = []
    run: list[str] = []
    for character in text:
        if 0xDC80 <= ord(character) <= 0xDCFF:
            shown.append(clean("".join(run), visible=visible, lines=lines))
            shown.append(f"\\x{ord(character) - 0xDC00:02x}")
            run = []
        else:
            run.append(character)
    shown.append(clean("".join(run), visible=visible, lines=lines))
    return "".join(shown)


def token(token_id: int | None, piece: bytes | None, *, visible: bool = True) -> str:
    """One token: its text, ``‹id›`` where its bytes are not known or empty, – where there is none."""
    if piece:
        return clean_bytes(piece, visible=visible)
    return NOT_OBSERVED if token_id is None else f"‹{token_id}›"


@lru_cache(maxsize=4096)
def cells(text: str) -> int:
    """Width in terminal cells; of cleaned text, as Textual counts them."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fit(text: str, width: int, *, pad: bool = False, right: bool = False) -> str:
    """Cleaned text cut to ``width`` cells, with … where it was cut; ``pad`` fills up with spaces."""
    if width <= 0:
        return ""
    if len(text) > 8 * width or cells(text) > width:
        text = _prefix(text, width - 1) + ELLIPSIS
    if not pad:
        return text
    filling = " " * (width - cells(text))
    return filling + text if right else text + filling


def _prefix(text: str, width: int) -> str:
    """The longest prefix that is at most ``width`` cells wide."""
    # Kept marks are few on each character, so a longer prefix cannot be needed.
    text = text[: (_MOST_MARKS + 2) * width]
    end = bisect_right(range(len(text) + 1), width, key=lambda n: cells(text[:n])) - 1
    return text[:end]


_MARKDOWN_ACTIVE = re.compile(
    r"[\\`*_\[\]|~$]"  # code, emphasis, links, cells, formulas
    r"|:(?=\S)|(?<=www)\."  # what would become a link or an emoji by itself
    r"|^[-+#]",  # a list, a rule or a heading
    re.IGNORECASE,
)
_MARKDOWN_REFERRING = re.compile(r"@|#(?=\d)|\bGH-(?=\d)", re.IGNORECASE)
_MARKDOWN_NUMBERED = re.compile(r"^(\d{1,9})([.)])(?=\s|$)")


def markdown(text: str) -> str:
    """Text inside a paragraph or a table cell: no markup, link, picture, mention or HTML of its own.

    Only characters that could be active where they stand are escaped, so that the source stays readable.
    Mentions and issue numbers are looked for in the rendered text, where a backslash no longer stands: a
    space without width parts them.
    """
    escaped = _MARKDOWN_ACTIVE.sub(r"\\\g<0>", clean(text).strip())
    whole = html_module.escape(_MARKDOWN_NUMBERED.sub(r"\1\\\2", escaped), quote=False)
    return _MARKDOWN_REFERRING.sub(r"\g<0>&#8203;", whole)


def markdown_code(text: str) -> str:
    """Text as a code span that cannot be left; also inside a table cell."""
    shown = clean(text, visible=False) or " "
    longest = run = 0
    for character in shown:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    fence = "`" * (longest + 1)
    padded = f" {shown} " if shown[0] in "` " or shown[-1] in "` " else shown
    # A table ends a cell at | even inside code, unless a backslash stands before it.
    return fence + padded.replace("|", "\\|") + fence


def html(text: str) -> str:
    """Text inside an element or a quoted attribute."""
    return html_module.escape(clean(text, lines=True), quote=True)


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": r"{-}",
    "[": r"{[}",
    "]": r"{]}",
    "–": r"\textendash{}",
    "…": r"\ldots{}",
    "×": r"\ensuremath{\times}",
    "−": r"\ensuremath{-}",
    "≤": r"\ensuremath{\le}",
    "≥": r"\ensuremath{\ge}",
    "Δ": r"\ensuremath{\Delta}",
    NEWLINE_SIGN: r"\ensuremath{\hookleftarrow}",
    TAB_SIGN: r"\ensuremath{\mapsto}",
    SPACE_SIGN: r"\textperiodcentered{}",
    "‹": r"\guilsinglleft{}",
    "›": r"\guilsinglright{}",
}


def latex(text: str) -> str:
    """Text in LaTeX's text mode: no command, no ligature, no argument of its own."""
    return "".join(_LATEX.get(character, character) for character in clean(text))


_FORMULA_STARTS = frozenset("=+-@＝＋－＠|%")


def csv_cell(value: str | float | None) -> str | float:
    """A cell for the csv module. Text that a spreadsheet would run gets an apostrophe before it.

    Numbers are numbers; None is an empty cell, since – would make a column of text of it.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, str):
        return value
    shown = clean(value)
    first = shown.lstrip(f" {TAB_SIGN}{NEWLINE_SIGN}'\"")[:1]
    starts_badly = first in _FORMULA_STARTS if first else False
    return f"'{shown}" if starts_badly or value[:1] in ("\t", "\r", "\n") else shown


def xml(text: str) -> str:
    """Text for XML 1.0 (JUnit), in elements and attributes; forbidden characters are escapes."""
    return html_module.escape(clean(text, lines=True), quote=True).replace("\n", "&#10;")


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Structs, dicts and lists as JSON in ASCII: a terminal that shows it obeys nothing in it.

    Numbers that JSON does not have (NaN, infinities) become null; bytes become Base64.
    """
    plain = msgspec.json.decode(msgspec.json.encode(value))
    return json.dumps(plain, indent=indent, ensure_ascii=True).replace("\x7f", "\\u007f")


def number(value: float | None, digits: int = 3) -> str:
    """A number with ``digits`` significant digits; – where it was not observed or does not exist."""
    if value is None or math.isnan(value):
        return NOT_OBSERVED
    if isinstance(value, int):
        return str(value)
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{digits}g}"


def percent(fraction: float | None, decimals: int = 1) -> str:
    """A fraction as per cent; – where there is none."""
    if fraction is None or math.isnan(fraction):
        return NOT_OBSERVED
    return f"{100 * fraction:.{decimals}f} %"


def ratio(part: int | None, whole: int | None) -> str:
    """Two counts as ``part/whole``; – for each that was not observed."""
    return f"{number(part)}/{number(whole)}"
