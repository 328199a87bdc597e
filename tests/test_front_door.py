"""The front door: every sub-command is there, whichever package is asked for alone."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

import replay.commands
import stats.commands
import tracer.commands
import tui.commands
from cachetrace import build_app

PACKAGES = (tracer.commands, replay.commands, stats.commands, tui.commands)


def commands(called: str | None) -> set[str]:
    return set(typer.main.get_command(build_app(called)).commands)  # type: ignore[arg-type, attr-defined]


def test_names_are_those_that_are_registered() -> None:
    assert commands(None) == {name for package in PACKAGES for name in package.NAMES}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_called_command_brings_its_own_package_only(package) -> None:
    for name in package.NAMES:
        assert commands(name) == set(package.NAMES)


def test_an_unknown_word_gets_the_whole_list() -> None:
    assert commands("repot") == commands(None)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_reads_no_options_and_says_what_the_whole_application_says(option: str) -> None:
    listed, whole = build_app(option), build_app(None)
    shown = [CliRunner().invoke(app, [option]) for app in (listed, whole)]  # type: ignore[arg-type]
    assert shown[0].exit_code == 0
    assert shown[0].output == shown[1].output
    assert all(len(c.params) <= 1 for c in typer.main.get_command(listed).commands.values())  # type: ignore[arg-type, attr-defined]


def every_command(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from every_command(command, (*path, name))


def test_examples_are_shown_line_by_line_as_they_can_be_copied() -> None:
    app = build_app(None)
    examples = 0
    for path, command in every_command(typer.main.get_command(app)):
        written = [line for line in (command.help or "").splitlines() if "  cachetrace " in line]
        shown = CliRunner().invoke(app, [*path, "--help"]).output.splitlines()
        assert [line.strip() for line in shown if line.strip().startswith("cachetrace ")] == [
            line.strip() for line in written
        ]
        assert not any("\\b" in line or "\b" in line for line in shown)
        examples += len(written)
    assert examples > 30
