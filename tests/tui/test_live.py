"""Replaying from the screen, in a real child process with the scripted engine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cachetrace import build_app
from tests.synthetic import ArmSpec, write_trace
from tracer.engines.choice import EngineChoice
from tracer.episode import CacheState, EngineInfo
from tracer.tracefile import TraceReader
from tui.app import TraceApp
from tui.screens.choose import ChooseScreen
from tui.screens.trace import TraceScreen

FAKE = EngineChoice(engine="fake")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "episode.msgpack"
    arguments = [
        "record",
        "--engine",
        "fake",
        "--turns",
        "2",
        "--max-new-tokens",
        "16",
        "-q",
        "-o",
        str(path),
    ]
    done = CliRunner().invoke(build_app(), arguments)
    assert done.exit_code == 0, done.output
    return path


async def until(condition, seconds: float = 120.0) -> None:
    for _ in range(int(seconds / 0.05)):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen in time")


def script(tmp_path: Path, **fields: object) -> EngineChoice:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    return EngineChoice(engine="fake", fake_script=str(path))


async def opened_on(pilot, app: TraceApp) -> TraceScreen:
    await pilot.pause()
    while not isinstance(app.screen, TraceScreen):
        await pilot.press("enter")
        await pilot.pause()
    return app.screen


async def test_r_replays_up_to_the_request_and_the_screen_follows(recorded: Path) -> None:
    app = TraceApp(recorded, choice=FAKE)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened_on(pilot, app)
        await pilot.press("right_square_bracket", "r")
        assert app.live.running
        await until(lambda: not app.live.running)
        assert len(screen.model.arms) == 2
        assert len(screen.model.requests(1)) == 2
        assert screen.cursor.arm == 1
        assert screen.cursor.request == 1
    with TraceReader.open(recorded) as trace:
        assert not trace.losses


async def test_capital_r_asks_for_a_state(recorded: Path) -> None:
    app = TraceApp(recorded, choice=FAKE)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened_on(pilot, app)
        await pilot.press("R")
        assert isinstance(app.screen, ChooseScreen)
        await pilot.press("escape", "R", "enter")
        await until(lambda: not app.live.running)
        assert [arm.state for arm in screen.model.arms] == [CacheState.WARM, CacheState.COLD]
        assert screen.model.trace.end(1).completed


async def test_escape_stops_it_and_the_trace_stays_good(recorded: Path, tmp_path: Path) -> None:
    slow = script(tmp_path, token_seconds=0.2)
    app = TraceApp(recorded, choice=slow)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened_on(pilot, app)
        await pilot.press("G", "r")
        await until(lambda: bool(app.screen.activity) and "starting" not in app.screen.activity)
        await pilot.press("r")
        await pilot.pause()
        said = [str(toast.message) for toast in app._notifications]
        assert any("running already" in text for text in said)
        await pilot.press("escape")
        await until(lambda: not app.live.running)
    with TraceReader.open(recorded) as trace:
        assert len(trace.requests(0)) > 0
        assert not [loss for loss in trace.losses if loss.arm == 0]


async def test_a_child_that_dies_is_named(recorded: Path, tmp_path: Path) -> None:
    app = TraceApp(recorded, choice=script(tmp_path, faults=[{"kind": "dies", "request": 0}]))
    async with app.run_test(size=(100, 30)) as pilot:
        await opened_on(pilot, app)
        await pilot.press("r")
        await until(lambda: not app.live.running)
        await pilot.pause()
        said = " ".join(str(toast.message) for toast in app._notifications)
        assert "failed" in said or "died" in said


async def test_without_a_choice_nothing_is_started(recorded: Path) -> None:
    app = TraceApp(recorded)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened_on(pilot, app)
        await pilot.press("r")
        await pilot.pause()
        assert not app.live.running
        assert "--engine" in " ".join(str(toast.message) for toast in app._notifications)


async def test_what_a_trace_names_is_never_started_or_contacted(tmp_path: Path, monkeypatch) -> None:
    """A trace with a binary, a model and a URL of its own: keys, export and replay touch none of them."""
    marker = tmp_path / "started"
    binary = tmp_path / "engine.sh"
    binary.write_text(f"#!/bin/sh\ntouch {marker}\n", encoding="utf-8")
    binary.chmod(0o755)
    flags = {"server_bin": str(binary), "url": "http://127.0.0.1:9/", "--model": str(binary)}
    engine = {"engine": "llama-server", "model_name": str(binary), "flags": flags, "build": f"`{binary}`"}
    path = tmp_path / "hostile.msgpack"
    write_trace(
        path,
        requests=3,
        tokens=12,
        arms=[ArmSpec(), ArmSpec(state="warm", drift=1e-2, flips={1: 4})],
        engine=engine,
    )
    assert set(engine) <= set(EngineInfo.__struct_fields__)
    started: list[object] = []
    monkeypatch.setattr("subprocess.Popen.__init__", lambda self, *a, **k: started.append(a) or exit_early())
    contacted: list[object] = []
    monkeypatch.setattr("socket.socket.connect", lambda self, address: contacted.append(address))
    app = TraceApp(path, choice=None, out=tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("n", "p", "escape", "e", "s", "y", "r", "R", "escape")
        await pilot.pause()
    assert not started
    assert not contacted
    assert not marker.exists()


def exit_early() -> None:
    raise AssertionError("a process was started")


async def test_a_killed_child_is_named_and_the_file_reads(recorded: Path, tmp_path: Path) -> None:
    app = TraceApp(recorded, choice=script(tmp_path, token_seconds=0.2))
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened_on(pilot, app)
        await pilot.press("G", "r")
        await until(lambda: len(screen.model.arms) == 2)
        assert app.live.pid is not None
        os.kill(app.live.pid, signal.SIGKILL)
        await until(lambda: not app.live.running)
        await pilot.pause()
        assert "died (SIGKILL)" in " ".join(str(toast.message) for toast in app._notifications)
    with TraceReader.open(recorded) as trace:
        assert len(trace.requests(0)) > 0
