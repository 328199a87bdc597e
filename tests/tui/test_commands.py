"""The commands tui, demo and doctor, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cachetrace import build_app
from tracer.engines.choice import EngineChoice
from tracer.engines.http.recognise import Recognised
from tracer.episode import Capabilities, EngineInfo
from tracer.errors import UsageError
from tracer.tracefile import TraceReader
from tui.doctor import examine

FAKE = EngineChoice(engine="fake")


def run(*arguments: str):
    return CliRunner().invoke(build_app(), list(arguments))


def test_demo_records_replays_and_reports(tmp_path: Path) -> None:
    path = tmp_path / "demo.msgpack"
    done = run("demo", "--engine", "fake", "--turns", "1", "-q", "-o", str(path))
    assert done.exit_code == 0, done.output
    assert "Episodes that differ" in done.output
    with TraceReader.open(path) as trace:
        labels = [arm.label for arm in trace.arms]
        size = path.stat().st_size
    assert labels[0] == "recording"
    assert {"cold", "cold#1", "warm", "warm#1", "snapshot", "no-prompt-cache"} <= set(labels)
    # Another engine is named: it would be missed if it were opened.
    again = run(
        "demo",
        "--engine",
        "llama",
        "--model",
        str(tmp_path / "missing.gguf"),
        "--turns",
        "1",
        "-q",
        "-o",
        str(path),
    )
    assert again.exit_code == 0, again.output
    assert path.stat().st_size == size, "what the file has is not run again"


@pytest.mark.parametrize("option", [("-o", "mine.msgpack"), ("--turns", "3")])
def test_a_recorded_demo_takes_no_file_and_no_turns(option: tuple[str, str]) -> None:
    refused = run("demo", "--recorded", "--no-screen", *option)
    assert isinstance(refused.exception, UsageError)
    assert str(refused.exception).endswith("leave out -o and --turns.")


def test_a_recorded_demo_is_copied_not_opened_in_place(tmp_path, monkeypatch, flipped) -> None:
    import tui.demo as demo

    home = tmp_path / "installed" / "tui"
    shipped = tmp_path / "installed" / "fixtures"
    home.mkdir(parents=True)
    shipped.mkdir()
    monkeypatch.setattr(demo, "__file__", str(home / "demo.py"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with pytest.raises(UsageError, match="no recorded demo"):
        demo.recorded_copy()
    (shipped / "demo-office.msgpack").write_bytes(flipped.read_bytes())
    copy = demo.recorded_copy()
    assert shipped not in copy.parents
    assert copy.read_bytes() == flipped.read_bytes()
    copy.write_bytes(flipped.read_bytes() + b"more")
    assert demo.recorded_copy().read_bytes().endswith(b"more"), "what the user added stays"


def test_doctor_of_an_engine() -> None:
    sections = {finding.name: finding.lines for finding in examine(None, FAKE)}
    assert any("cached tokens" in line for line in sections["observe"])
    assert "cold" in sections["states"][0]
    assert any("prompt cache" in line for line in sections["cache layers"])
    assert any(line.startswith("batch:") for line in sections["keep the same"])
    assert any("--threads" in line for line in sections["not comparable"])
    done = run("doctor", "--engine", "fake", "--json")
    assert done.exit_code == 0, done.output
    assert {"name": "states", "lines": list(sections["states"])} in json.loads(done.output)
    assert "environment" in run("doctor", "--engine", "fake").output


def test_doctor_of_a_url_asks_and_repeats_what_is_hostile_cleaned(monkeypatch) -> None:
    answer = Recognised(
        url="http://127.0.0.1:8080",
        engine="llama-server",
        version="b1\x1b[31m",
        info=EngineInfo(engine="llama-server", model_name="[bold]m"),
        capabilities=Capabilities(),
        flags_to_add=("--slots: so that…",),
        warnings=("4 slots",),
    )
    monkeypatch.setattr("tracer.engines.http.recognise.recognise", lambda url: answer)
    done = run("doctor", "http://127.0.0.1:8080", "--engine", "fake")
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.output
    assert "llama-server b1\\x1b[31m at http://127.0.0.1:8080" in done.output
    assert "flags to add" in done.output
    assert "--slots" in done.output
    assert "cachetrace record --engine llama-server --url http://127.0.0.1:8080" in done.output


def test_doctor_of_something_else(tmp_path) -> None:
    with pytest.raises(UsageError, match="neither a model file nor a URL"):
        examine(str(tmp_path / "missing.gguf"), FAKE)


def test_tui_without_a_terminal(flipped) -> None:
    done = run("tui", str(flipped), "--engine", "fake")
    assert isinstance(done.exception, UsageError)
    assert "needs a terminal" in str(done.exception)


def test_tui_of_a_missing_file(tmp_path) -> None:
    done = run("tui", str(tmp_path / "missing.msgpack"), "--engine", "fake")
    assert isinstance(done.exception, UsageError)
