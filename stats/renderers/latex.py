r"""The report's tables as LaTeX with booktabs, to be ``\input`` or compiled alone."""

from __future__ import annotations

from stats.renderers.arrange import arrange
from stats.renderers.cells import heading, is_numeric
from stats.tables.table import Column, Report, Table
from tracer.clean_text import latex

_HEAD = r"""% Needs the packages booktabs, longtable, array and textcomp.
\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{textcomp}
\usepackage{array}
\usepackage{booktabs}
\usepackage{longtable}
\usepackage[landscape,margin=15mm]{geometry}
\begin{document}
\footnotesize
"""
TEXT_COLUMN_MM = 32
SENTENCE_MM = 230


def render_latex(report: Report) -> str:
    """A whole document: one longtable a table, all text of traces escaped."""
    parts = [_HEAD, rf"\section*{{{_text(report.title)}}}"]
    if report.summary:
        items = "\n".join(rf"\item {_text(sentence)}" for sentence in report.summary)
        parts.append(r"\begin{itemize}" + f"\n{items}\n" + r"\end{itemize}")
    parts += [table_latex(table) for table in report.tables]
    if report.disclosure is not None:
        parts.append(table_latex(report.disclosure))
    if report.command:
        parts.append(rf"Made by \texttt{{{_text(report.command)}}}.")
    parts.append(r"\end{document}")
    return "\n\n".join(parts) + "\n"


def table_latex(table: Table) -> str:
    """One longtable with caption, basis and notes; sentences run over the whole width below their row."""
    arranged = arrange(table)
    head = " & ".join(_text(heading(column)) for column in arranged.columns) + r" \\"
    body = []
    for row, sentences in zip(arranged.rows, arranged.sentences, strict=True):
        body.append(" & ".join(map(_text, row)) + r" \\")
        body += [_sentence(sentence, len(arranged.columns)) for sentence in sentences]
    notes = [*([f"{arranged.shared}."] if arranged.shared else []), table.basis, *table.notes]
    if arranged.left_out:
        notes.insert(0, f"{arranged.left_out} more rows are not shown.")
    specification = "".join(_alignment(column) for column in arranged.columns)
    return "\n".join(
        [
            rf"\begin{{longtable}}{{@{{}}{specification}@{{}}}}",
            rf"\caption{{{_text(table.title)}. {_text(' '.join(notes))}}}\\",
            r"\toprule",
            head,
            r"\midrule",
            r"\endhead",
            *body,
            r"\bottomrule",
            r"\end{longtable}",
        ]
    )


def _sentence(sentence: str, columns: int) -> str:
    """A line over all columns."""
    return rf"\multicolumn{{{columns}}}{{@{{}}p{{{SENTENCE_MM}mm}}@{{}}}}{{{_text(sentence)}}} \\"


def _alignment(column: Column) -> str:
    if is_numeric(column):
        return "r"
    if column.kind in ("interval", "share_interval", "flag"):
        return "l"
    return rf">{{\raggedright\arraybackslash}}p{{{TEXT_COLUMN_MM}mm}}"


def _text(text: str) -> str:
    """Escaped, and readable by an engine that knows no more than T1: other characters by their number."""
    return "".join(_known(character) for character in latex(text))


_OWN_SIGNS = {"“": "``", "”": "''", "→": r"\ensuremath{\rightarrow}"}
"""Signs that the report's own sentences use and T1 does not hold."""


def _known(character: str) -> str:
    if ord(character) < 0x80 or character in "äöüÄÖÜßéèàçñ·":
        return character
    if character in _OWN_SIGNS:
        return _OWN_SIGNS[character]
    return rf"\texttt{{U+{ord(character):04X}}}"
