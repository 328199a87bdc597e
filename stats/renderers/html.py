"""The report as one HTML file: style and figures inline, nothing is loaded from anywhere."""

from __future__ import annotations

from collections.abc import Sequence

from stats.renderers.arrange import arrange
from stats.renderers.cells import heading, is_numeric
from stats.tables.table import Report, Table
from tracer.clean_text import html

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem;
  color: #1b1b1b; background: #fff }
h1 { font-size: 1.5rem }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem }
table { border-collapse: collapse; font-size: .86rem; display: block; overflow-x: auto }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top;
  white-space: pre-wrap }
th { border-bottom: 2px solid #555 }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
td.s { color: #555; padding-left: 1.6rem; white-space: normal }
p.basis, p.note { color: #555; font-size: .86rem; margin: .4rem 0 }
figure { margin: 1.5rem 0; background: #fff; color: #1b1b1b }
figure svg { max-width: 100%; height: auto }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #161616 }
  th, td { border-color: #444 }
  p.basis, p.note { color: #aaa }
}
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""No script and no network, even if text of a trace should get past the escaping."""


def render_html(report: Report, figures: Sequence[tuple[str, str]] = ()) -> str:
    """``figures``: (caption, inline SVG of our own making)."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{html(report.title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{html(report.title)}</h1>",
        "<ul>" + "".join(f"<li>{html(s)}</li>" for s in report.summary) + "</ul>",
    ]
    parts += [f"<figure>{svg}<figcaption>{html(caption)}</figcaption></figure>" for caption, svg in figures]
    parts += [table_html(table) for table in report.tables]
    if report.disclosure is not None:
        parts.append(table_html(report.disclosure))
    if report.command:
        parts.append(f"<p class=note>Made by <code>{html(report.command)}</code></p>")
    parts.append("</body></html>")
    return "\n".join(parts) + "\n"


def table_html(table: Table) -> str:
    """One table with its title, basis and notes; all rows that a page shows, sentences below their row."""
    arranged = arrange(table)
    numeric = [' class="n"' if is_numeric(column) else "" for column in arranged.columns]
    head = "".join(
        f"<th{style}>{html(heading(column))}</th>"
        for style, column in zip(numeric, arranged.columns, strict=True)
    )
    lines = [f"<h2>{html(table.title)}</h2>"]
    if arranged.shared:
        lines.append(f"<p class=basis>{html(arranged.shared)}</p>")
    lines.append(f"<table><thead><tr>{head}</tr></thead><tbody>")
    for row, sentences in zip(arranged.rows, arranged.sentences, strict=True):
        cells = "".join(f"<td{style}>{html(cell)}</td>" for style, cell in zip(numeric, row, strict=True))
        lines.append(f"<tr>{cells}</tr>")
        span = f'<tr><td class="s" colspan="{len(numeric)}">'
        lines += [f"{span}{html(sentence)}</td></tr>" for sentence in sentences]
    lines.append("</tbody></table>")
    if arranged.left_out:
        lines.append(f"<p class=note>… and {arranged.left_out} more rows.</p>")
    lines.append(f"<p class=basis>{html(table.basis)}</p>")
    lines += [f"<p class=note>{html(note)}</p>" for note in table.notes]
    return "\n".join(lines)
