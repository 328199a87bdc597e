"""From typing the command to its end: ``cachetrace --help``, and the help of one command.

python -m benchmarks.startup [--pairs 30]
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.children import CACHETRACE, compiled, spent
from benchmarks.command import Given, run
from benchmarks.rows import Row, against
from benchmarks.turns import Effort, in_turns

HELP_MS = 100


def rows(_: Given, effort: Effort) -> Iterator[Row]:
    with compiled() as environment:
        commands = {
            "help": [CACHETRACE, "--help"],
            "report": [CACHETRACE, "report", "--help"],
            "pass": ["-c", "pass"],
            "typer": ["-c", "import typer"],
        }
        found = in_turns(
            effort,
            {
                name: (lambda command=command: spent(command, environment).wall_s)
                for name, command in commands.items()
            },
        )
    target = f"under {HELP_MS} ms"
    bare, typer = "python -c pass", "no limit: python -c 'import typer', which the help needs"
    yield against(
        "cachetrace --help",
        "ms",
        found["help"],
        bare,
        found["pass"],
        scale=1000,
        target=target,
        at_most=HELP_MS,
    )
    yield against("cachetrace --help", "ms", found["help"], typer, found["typer"], scale=1000)
    yield against("cachetrace report --help", "ms", found["report"], typer, found["typer"], scale=1000)


if __name__ == "__main__":
    run(rows, "start-up", __doc__)
