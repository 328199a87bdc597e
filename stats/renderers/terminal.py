"""The report on a terminal: aligned columns, wide cells wrapped, long tables cut with a count."""

from __future__ import annotations

from collections.abc import Sequence

from stats.renderers.arrange import arrange
from stats.renderers.cells import heading, is_numeric
from stats.tables.table import Report, Table
from tracer.clean_text import NOT_OBSERVED, cells, clean, fit

GAP = "  "
NARROWEST = 6
LONGEST_WORD = 20
DEFAULT_WIDTH = 120


def render_terminal(report: Report, width: int = DEFAULT_WIDTH) -> str:
    """Plain text without escape sequences; ends with a newline."""
    parts = [clean(report.title), *(_wrapped(sentence, width) for sentence in report.summary)]
    blocks = ["\n".join(parts)]
    blocks += [table_text(table, width) for table in report.tables]
    if report.disclosure is not None:
        blocks.append(table_text(report.disclosure, width))
    if report.command:
        blocks.append(f"Made by: {clean(report.command)}")
    return "\n\n".join(blocks) + "\n"


def table_text(table: Table, width: int = DEFAULT_WIDTH) -> str:
    """One table with its title, basis and notes."""
    arranged = arrange(table)
    head = [clean(heading(column)) for column in arranged.columns]
    right = [is_numeric(column) for column in arranged.columns]
    foldable = [column.kind == "text" for column in arranged.columns]
    rows = [[clean(cell) for cell in row] for row in arranged.rows]
    widths = _column_widths(head, rows, foldable, width)
    lines = [clean(table.title), *([_wrapped(arranged.shared, width)] if arranged.shared else [])]
    fits = sum(widths) + len(GAP) * (len(widths) - 1) <= width
    if fits:
        lines += [*_row_lines(head, widths, right), GAP.join("─" * w for w in widths)]
    for row, sentences in zip(rows, arranged.sentences, strict=True):
        lines += _row_lines(row, widths, right) if fits else _stacked(head, row, width)
        lines += [_wrapped(f"    {sentence}", width, indent="    ") for sentence in sentences]
    if not rows:
        lines.append("(none)")
    if arranged.left_out:
        more = f"… and {arranged.left_out} more rows; `--format csv` or `json` has all of them."
        lines.append(_wrapped(more, width))
    lines.append(_wrapped(table.basis, width))
    lines += [_wrapped(note, width) for note in table.notes]
    return "\n".join(lines)


def _column_widths(
    head: Sequence[str], body: Sequence[Sequence[str]], foldable: Sequence[bool], width: int
) -> list[int]:
    """Natural widths, the widest columns narrowed to their longest word until the table fits.

    Only text and headings are folded; numbers and intervals stay whole.
    """
    widths, least = [], []
    for i, title in enumerate(head):
        column = [row[i] for row in body]
        widths.append(max(map(cells, [title, *column])))
        folded = [title, *column] if foldable[i] else [title]
        longest = min(max(cells(word) for text in folded for word in text.split(" ")), LONGEST_WORD)
        whole = 0 if foldable[i] else max(map(cells, column), default=0)
        least.append(min(widths[-1], max(longest, whole, NARROWEST)))
    surplus = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while surplus > 0:
        slack = [w - few for w, few in zip(widths, least, strict=True)]
        if not any(slack):
            break
        at = max(range(len(widths)), key=lambda i: (slack[i] > 0, widths[i]))
        widths[at] -= 1
        surplus -= 1
    return widths


def _stacked(head: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """A row of a table that is wider than the terminal: its first cell, then "title: value" below."""
    known = [(title, text) for title, text in zip(head[1:], row[1:], strict=True) if text != NOT_OBSERVED]
    facts = "; ".join(f"{title}: {text}" for title, text in known)
    return [_wrapped(f"{head[0]}: {row[0]}", width), _wrapped(f"  {facts}", width, indent="  ")]


def _row_lines(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    pieces = [_folded(text, width) for text, width in zip(row, widths, strict=True)]
    lines = []
    for i in range(max(len(piece) for piece in pieces)):
        parts = [
            fit(piece[i] if i < len(piece) else "", width, pad=True, right=to_right)
            for piece, width, to_right in zip(pieces, widths, right, strict=True)
        ]
        lines.append(GAP.join(parts).rstrip())
    return lines


def _wrapped(sentence: str, width: int, indent: str = "") -> str:
    """Lines of at most ``width`` cells; later lines begin with ``indent``."""
    text = clean(sentence)
    start = text[: len(text) - len(text.lstrip(" "))]
    first, *rest = _folded(text.strip(" "), width - max(len(indent), len(start)))
    return "\n".join([start + first, *(indent + line for line in rest)])


def _folded(text: str, width: int) -> list[str]:
    """Words in lines of at most ``width`` terminal cells; longer words are cut.

    ``textwrap`` counts characters, and a wide character takes two cells.
    """
    if cells(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cells(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        while cells(word) > width:
            head = fit(word, width + 1).removesuffix("…") or word[:1]
            lines[-1] = head
            word = word[len(head) :]
            lines.append("")
        lines[-1] = word
    return lines
