"""The report as Markdown with pipe tables."""

from __future__ import annotations

from stats.renderers.arrange import arrange
from stats.renderers.cells import heading, is_numeric
from stats.tables.table import Column, Report, Table
from tracer.clean_text import markdown, markdown_code


def render_markdown(report: Report) -> str:
    """GitHub-flavoured Markdown; all text of traces is escaped."""
    blocks = [f"# {markdown(report.title)}", "\n".join(f"- {markdown(s)}" for s in report.summary)]
    blocks += [table_markdown(table) for table in report.tables]
    if report.disclosure is not None:
        blocks.append(table_markdown(report.disclosure))
    if report.command:
        blocks.append(f"Made by {markdown_code(report.command)}")
    return "\n\n".join(blocks) + "\n"


def table_markdown(table: Table, level: int = 2) -> str:
    """One table with its basis and notes; long tables are cut with a count."""
    arranged = arrange(table)
    columns = arranged.columns
    lines = [f"{'#' * level} {markdown(table.title)}", ""]
    if arranged.shared:
        lines += [markdown(arranged.shared), ""]
    lines += [
        "| " + " | ".join(markdown(heading(column)) for column in columns) + " |",
        "|" + "|".join("---:" if is_numeric(column) else "---" for column in columns) + "|",
    ]
    lines += [
        "| " + " | ".join(_cell(cell, column) for cell, column in zip(row, columns, strict=True)) + " |"
        for row in arranged.rows
    ]
    if arranged.left_out:
        lines += ["", f"… and {arranged.left_out} more rows."]
    sentences = [sentence for row in arranged.sentences for sentence in row]
    if sentences:
        lines += ["", *(f"- {markdown(sentence)}" for sentence in sentences)]
    lines += ["", markdown(table.basis)]
    lines += [line for note in table.notes for line in ("", markdown(note))]
    return "\n".join(lines)


def _cell(text: str, column: Column) -> str:
    """Numbers are of our own making and stay readable in the source; all else is escaped."""
    return markdown(text) if column.kind == "text" else text
