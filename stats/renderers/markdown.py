"""The report as Markdown with pipe tables."""

from __future__ import annotations

from stats.renderers.cells import cell_text, heading, is_numeric
from stats.tables.table import Report, Table
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
    shown = table.rows if table.shown_rows is None else table.rows[: table.shown_rows]
    lines = [
        f"{'#' * level} {markdown(table.title)}",
        "",
        "| " + " | ".join(markdown(heading(column)) for column in table.columns) + " |",
        "|" + "|".join("---:" if is_numeric(column) else "---" for column in table.columns) + "|",
    ]
    lines += [
        "| "
        + " | ".join(
            markdown(cell_text(cell, column)) for cell, column in zip(row, table.columns, strict=True)
        )
        + " |"
        for row in shown
    ]
    if len(shown) < len(table.rows):
        lines += ["", f"… and {len(table.rows) - len(shown)} more rows."]
    lines += ["", markdown(table.basis)]
    lines += [line for note in table.notes for line in ("", markdown(note))]
    return "\n".join(lines)
