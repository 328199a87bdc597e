"""The front door: gathers every package's sub-commands and maps errors to exit codes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

HELP_OPTIONS = ["-h", "--help"]


def _refuse_strangers() -> None:
    """The package names are generic: say so when another ``stats`` was found before ours."""
    from importlib.util import find_spec

    home = Path(__file__).resolve().parent
    for name in ("tracer", "replay", "stats", "tui"):
        spec = find_spec(name)
        origin = Path(spec.origin).resolve().parent.parent if spec is not None and spec.origin else None
        if origin != home:
            sys.exit(
                f"cachetrace: another package named {name!r} was found first ({origin}); install cachetrace "
                "in an environment of its own, for instance with `uv tool install` or `pipx install`."
            )


def build_app(called: str | None = None) -> object:
    """The Typer application with every sub-command, or those of the package that has the one ``called``.

    When help itself is called, commands are there only to be listed.
    """
    import typer

    import replay.commands
    import stats.commands
    import tracer.commands
    import tui.commands

    app = typer.Typer(
        name="cachetrace",
        help=(
            "Record an agent's episode from a real engine, run it again under other cache states, "
            "and step to the first token that flipped.\n\nStart with: cachetrace demo"
        ),
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": HELP_OPTIONS},
    )
    packages = (tracer.commands, replay.commands, stats.commands, tui.commands)
    for package in [each for each in packages if called in each.NAMES] or packages:
        package.register(app)
    if called in HELP_OPTIONS:
        _leave_out_options(app)
    return app


def _leave_out_options(app: typer.Typer) -> None:
    """Leave every command its name and help: to evaluate the options of all takes a fifth of the time."""

    def listed_only() -> None:
        raise AssertionError("a command that is only listed was called")

    for command in app.registered_commands:
        assert command.callback is not None, "every command has a function"
        command.help = command.help or command.callback.__doc__
        command.callback = listed_only
    for group in app.registered_groups:
        assert group.typer_instance is not None, "every group is a Typer application"
        _leave_out_options(group.typer_instance)


def main() -> None:
    """Run the command line. The only place where errors become exit codes."""
    _refuse_strangers()
    from tracer.errors import CachetraceError

    try:
        build_app(next(iter(sys.argv[1:]), None))()  # type: ignore[operator]  # Typer objects are callable; the type is kept lazy
    except CachetraceError as error:
        from tracer.clean_text import clean

        # Messages repeat names of files and answers of servers, and those are anybody's text.
        print(f"cachetrace: {clean(str(error))}", file=sys.stderr)  # noqa: T201  # the one place that speaks to the user
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("cachetrace: interrupted; what was written is kept.", file=sys.stderr)  # noqa: T201
        sys.exit(130)


if __name__ == "__main__":
    main()
