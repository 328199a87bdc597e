"""Traces that a real engine or a bad day writes: every pane and key works on each of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cachetrace import build_app
from tests.synthetic import ArmSpec, write_trace
from tui.actions import Context, actions_of
from tui.app import TraceApp
from tui.screens.advice import AdviceScreen
from tui.screens.trace import TraceScreen

FAULTS = {
    "error": {"kind": "error", "request": 1},
    "dies": {"kind": "dies", "request": 1},
    "one NaN": {"kind": "nan-row", "position": 2},
    "all NaN": {"kind": "all-nan-row", "position": 2},
    "uncounted": {"kind": "uncounted"},
    "lies": {"kind": "lies", "by": 3},
    "leaks": {"kind": "leaks"},
    "wobbles": {"kind": "wobbles"},
}
REPLAYS = {
    "closed-loop": ["--closed-loop"],
    "forced": ["--forced"],
    "lockstep": ["--priming", "lockstep"],
    "passes": ["--passes", "2"],
    "first request": ["--requests", "1"],
}


def run(*arguments: str) -> None:
    CliRunner().invoke(build_app(), [*arguments, "--engine", "fake", "-q"])


async def press_everything(path: Path, tmp_path: Path, size: tuple[int, int], times: int = 2) -> None:
    app = TraceApp(path, out=tmp_path)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        if isinstance(app.screen, AdviceScreen):
            await pilot.press("enter")
        for _ in range(times):
            for action in actions_of(Context.TRACE):
                if action.name not in ("replay", "replay_all"):
                    await pilot.press(action.keys[0])
                    if not isinstance(app.screen, TraceScreen):
                        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, TraceScreen)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
async def test_engines_that_misbehave(name, tmp_path) -> None:
    path = tmp_path / "trace.msgpack"
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"faults": [FAULTS[name]]}), encoding="utf-8")
    run("record", "--turns", "2", "-o", str(path), "--fake-script", str(script))
    run("replay", str(path), "--anyway", "--fake-script", str(script))
    await press_everything(path, tmp_path, (80, 24))


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLAYS)
async def test_ways_of_replaying(name, tmp_path) -> None:
    path = tmp_path / "trace.msgpack"
    run("record", "--turns", "2", "-o", str(path), "--history", "messages")
    run("replay", str(path))
    run("replay", str(path), *REPLAYS[name])
    await press_everything(path, tmp_path, (120, 40))


ODD = {
    "no token": {"tokens": 0},
    "one token": {"tokens": 1},
    "k = 1": {"k": 1},
    "no pieces": {"with_pieces": False},
    "whole rows": {"with_rows": True},
}


QUICK = ("no token",)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ODD]
)
async def test_odd_shapes(name, tmp_path) -> None:
    path = tmp_path / "trace.msgpack"
    arms = [ArmSpec(), ArmSpec(state="warm", drift=1e-2), ArmSpec(state="warm", requests=1, complete=False)]
    write_trace(path, **{"requests": 3, "tokens": 8, "arms": arms, **ODD[name]})
    await press_everything(path, tmp_path, (120, 40) if name not in QUICK else (60, 20), times=1)


async def test_answers_of_other_lengths(tmp_path) -> None:
    path = tmp_path / "trace.msgpack"
    arms = [ArmSpec(), ArmSpec(state="warm", drift=1e-2, length_changes={1: 3, 2: 1}, observe="logprob")]
    write_trace(path, requests=3, tokens=8, arms=arms)
    await press_everything(path, tmp_path, (120, 40), times=1)
