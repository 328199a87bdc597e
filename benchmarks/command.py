"""What every benchmark's own command has in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.rows import NotMeasured, Row, missing, render, write
from benchmarks.turns import Effort

Given = argparse.Namespace


def add_effort(parser: argparse.ArgumentParser) -> None:
    """The options that the one command hands on."""
    parser.add_argument("--pairs", type=int, default=Effort.pairs, help="interleaved pairs (default 30)")
    parser.add_argument(
        "--budget",
        type=float,
        default=Effort.budget_s,
        metavar="SECONDS",
        help="a measurement longer than this ends early, never below 6 pairs (default 60)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes and few pairs: does it work at all?"
    )


def effort_of(given: Given) -> Effort:
    return Effort(min(given.pairs, 3) if given.quick else given.pairs, given.budget, given.quick)


def run(
    rows: Callable[[Given, Effort], Iterable[Row]],
    what: str,
    about: str | None,
    options: Callable[[argparse.ArgumentParser], None] | None = None,
) -> None:
    """Measure and print a table, or write the rows with ``--json``; exit 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_effort(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    if options is not None:
        options(parser)
    given = parser.parse_args()
    found: list[Row] = []
    try:
        found.extend(rows(given, effort_of(given)))
    except NotMeasured as reason:
        found.append(missing(what, str(reason)))
    print(render(found))
    if given.json is not None:
        write(given.json, found)
    sys.exit(any(row.missed for row in found))
