"""``cachetrace study``: run, list and watch a study of many cells."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from tracer.commands.shared_options import Quiet

_FILE = Annotated[
    str, typer.Argument(metavar="FILE|PRESET", help="A study.toml, or smoke, bfcl-cpu8, paper, isolation.")
]
_FOLDER = Annotated[
    Optional[Path],  # noqa: UP045  # Typer reads the annotation at run time
    typer.Option("-o", "--output", metavar="DIR", help="The study's folder; default: its name."),
]
_MODEL = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--model", metavar="FILE", help="In place of the file's models; can be repeated."),
]
_EPISODES = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--episodes", metavar="RANGE", help="In place of the file's episodes, e.g. 0-1 or 0-3,7."),
]
_JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_RUN_HELP = """Run a study; run the same command again to take up what was stopped.

\b
Examples:
  cachetrace study run smoke                       # four weight formats of the small model, 3 min
  cachetrace study run paper --model qwen.gguf -o paper
  cachetrace study list my.toml | parallel -j1 cachetrace study run my.toml --cell {}
"""


def register(app: typer.Typer) -> None:
    """Add ``study``."""
    group = typer.Typer(help="Whole studies: models × formats × engines × arms.", no_args_is_help=True)
    group.callback()(study)
    group.command("run", help=_RUN_HELP)(run)
    group.command("list")(list_cells)
    group.command("status")(status)
    app.add_typer(group, name="study")


def study() -> None:
    """Whole studies from one file: models × weight formats × engines × arms × episodes.

    Example: cachetrace study run smoke -o smoke
    """


def run(
    file: _FILE,
    output: _FOLDER = None,
    model: _MODEL = None,
    episodes: _EPISODES = None,
    cell: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--cell", metavar="ID", help="Only this cell (see `study list`); can be repeated."),
    ] = None,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Print the report when everything is done.")
    ] = True,
    quiet: Quiet = False,
) -> None:
    """Run a study; run the same command again to take up what was stopped."""
    from replay.study.cells import cell_named, cells_of
    from replay.study.child_process import print_report
    from replay.study.study_file import load_study
    from replay.study.study_run import StudyRun
    from tracer.progress import progress_for
    from tracer.recording import this_command

    loaded = load_study(file, tuple(model or ()), episodes)
    cells = cells_of(loaded)
    chosen = tuple(cell_named(cells, name) for name in cell) if cell else cells
    folder = output or Path(loaded.name)
    whole = StudyRun(loaded, cells, folder, progress_for(quiet=quiet))
    whole.run(chosen, quiet=quiet, command=this_command())
    if report and not cell:
        raise typer.Exit(print_report(folder))


def list_cells(
    file: _FILE,
    output: _FOLDER = None,
    model: _MODEL = None,
    episodes: _EPISODES = None,
    pending: Annotated[bool, typer.Option("--pending", help="Only those that are not done.")] = False,
) -> None:
    """Print the ids of the cells, one a line."""
    from replay.study.cell_record import CellStatus
    from replay.study.cells import cells_of
    from replay.study.study_file import load_study
    from replay.study.study_run import StudyRun
    from tracer.progress import Silent

    loaded = load_study(file, tuple(model or ()), episodes)
    cells = cells_of(loaded)
    if not pending:
        for cell in cells:
            typer.echo(cell.cell_id)
        return
    for state in StudyRun(loaded, cells, output or Path(loaded.name), Silent()).states():
        if state.status is not CellStatus.DONE:
            typer.echo(state.cell_id)


def status(
    file: _FILE,
    output: _FOLDER = None,
    model: _MODEL = None,
    episodes: _EPISODES = None,
    as_json: _JSON = False,
) -> None:
    """Print how far every cell is."""
    import msgspec

    from replay.study.cells import cells_of
    from replay.study.status_lines import status_lines
    from replay.study.study_file import load_study
    from replay.study.study_run import StudyRun
    from tracer.progress import Silent

    loaded = load_study(file, tuple(model or ()), episodes)
    states = StudyRun(loaded, cells_of(loaded), output or Path(loaded.name), Silent()).states()
    if as_json:
        typer.echo(msgspec.json.encode(states).decode())
        return
    for line in status_lines(states):
        typer.echo(line)
