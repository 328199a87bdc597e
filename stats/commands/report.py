"""``cachetrace report``: every table over one trace or a folder of traces, and gates over its rates."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

FEW_FILES = 400
"""From two up to this many traces the mechanism is worked out without being asked for."""
MANY_FILES = 20
"""Above this many traces the top-k lists are read only where a flip needs them, and tables hold the drift
of the chosen token, under its own name."""


class Format(StrEnum):
    """What the report is written as."""

    TABLE = "table"
    MARKDOWN = "md"
    CSV = "csv"
    JSON = "json"
    LATEX = "latex"
    HTML = "html"


HELP = """Verdicts, flips and rates with intervals over one trace or a folder of traces.

Rates come only from arms whose cache state was verified and that were each run twice; everything else
is listed with its reason. Gates make the command end with 1 when a rate is out of bounds, and with 2
when it cannot be computed.

\b
Examples:
  cachetrace report episode.msgpack
  cachetrace report runs/ --format html -o report.html --figures figures/
  cachetrace report runs/ --gate 'within-arm==0' --gate 'cross-arm.upper<=0.05' --junit gates.xml
  cachetrace report episode.msgpack --issue | gh issue create --title "Cache changes answers" --body-file -
"""


def register(app: typer.Typer) -> None:
    """Add ``report`` to the front door."""
    app.command("report", help=HELP)(report)


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Trace files, or folders of them.", show_default=False),
    ],
    output_format: Annotated[
        Format, typer.Option("--format", "-f", help="How to write the report.")
    ] = Format.TABLE,
    output: Annotated[
        Optional[Path],  # noqa: UP045  # Typer reads the annotation at run time
        typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of stdout."),
    ] = None,
    figures: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--figures", metavar="DIR", help="Also draw the figures into this folder, SVG and PNG."),
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Also draw the figures as text, below the tables.")
    ] = False,
    gate: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--gate",
            metavar="GATE",
            help="Exit 1 unless PAIR[.requests][.upper] OP NUMBER holds, e.g. 'cross-arm.upper<=0.05'.",
        ),
    ] = None,
    junit: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--junit", metavar="FILE", help="Write the gates as JUnit XML to this file."),
    ] = None,
    baseline: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--baseline", metavar="ARM", help="Arm to compare with, by label or index, e.g. cold or warm#1."
        ),
    ] = None,
    against: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--against",
            metavar="PATH",
            help="Also compare with the cold arms of these traces, episode by episode.",
        ),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare arms although a guard does not hold; it is still named.")
    ] = False,
    near_tie: Annotated[
        float,
        typer.Option(
            "--near-tie", min=0.0, help="Margin in natural-log units below which a token is a near tie."
        ),
    ] = 0.1,
    mechanism: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option(
            help="Margins against disturbance; by itself for 2 to 400 traces, since it reads all top-k."
        ),
    ] = None,
    issue: Annotated[
        bool, typer.Option("--issue", help="Print a bug report in Markdown, ready to paste.")
    ] = False,
) -> None:
    """Wire files to collection, tables, gates and a renderer."""
    import sys

    from replay.divergence.request_verdict import Detail
    from stats.commands.written import command_line, terminal_width, write_text
    from stats.gates import conclude, parse_gate
    from stats.report.build import build_report, with_gates
    from stats.report.collect import CollectOptions, collect
    from stats.report.sources import trace_files

    gates = [parse_gate(text) for text in gate or []]
    files = trace_files(paths)
    options = CollectOptions(
        baseline=baseline,
        anyway=anyway,
        near_tie=near_tie,
        mechanism=1 < len(files) <= FEW_FILES if mechanism is None else mechanism,
        detail=Detail.PATH if len(files) > MANY_FILES else Detail.ALTERNATIVES,
        state_pairs=tuple(g.states for g in gates if g.states is not None),
    )
    built = build_report(collect(files, options), command=command_line(sys.argv))
    if against is not None:
        from stats.report.build import against_folder

        built = against_folder(built, collect(trace_files([against]), options), options)
    built, results = with_gates(built, gates)
    if figures is not None:
        from stats.figures.all import all_figures
        from stats.renderers.figure_files import draw_files

        draw_files(all_figures(built), figures)
    if issue:
        from stats.report.issue import render_issue

        text = render_issue(built, command_line(sys.argv))
    else:
        from stats.renderers.choose import render

        text = render(built, output_format.value, terminal_width(), draw=draw)
    write_text(text, output)
    if junit is not None:
        from stats.renderers.junit import render_junit

        write_text(render_junit(gates, results), junit)
    conclude(gates, results)
