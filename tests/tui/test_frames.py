"""How the screen looks, chosen pairwise from sizes × looks × panes and states.

To accept new looks after reading the diff: CACHETRACE_NEW_FRAMES=1 pytest tests/tui/test_frames.py
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.synthetic import ArmSpec, write_trace
from tests.tui.frames import frame_text
from tui.app import TraceApp
from tui.screens.trace import TraceScreen

FRAMES = Path(__file__).parent / "frames"
SIZES = ((60, 20), (80, 24), (120, 40), (200, 60))
LOOKS = ("dark", "light", "no-color")

COLD, AGAIN = ArmSpec(), ArmSpec(state="cold", repeat=1)
WARM = ArmSpec(state="warm", drift=1e-2, flips={2: 5, 5: 20})
ARMS = [COLD, AGAIN, WARM, ArmSpec(state="warm", repeat=1, drift=1e-2, flips={2: 5, 5: 20})]


def flips(path: Path) -> None:
    write_trace(
        path, requests=8, tokens=32, arms=[*ARMS, ArmSpec(state="snapshot", drift=1e-3)], prompt_tokens=200
    )


def hostile(path: Path) -> None:
    arms = [ArmSpec(forced={0: [3, 4]}), ArmSpec(state="warm", drift=1e-2, flips={1: 4})]
    write_trace(path, requests=3, tokens=24, arms=arms, hostile_pieces=True)


def unobserved(path: Path) -> None:
    arms = [ArmSpec(observe="tokens"), ArmSpec(state="warm", observe="tokens", flips={1: 3})]
    write_trace(path, requests=3, tokens=16, arms=arms)


def refused(path: Path) -> None:
    write_trace(
        path, requests=3, tokens=16, arms=[COLD, ArmSpec(state="warm", drift=1e-2, engine={"threads": 7})]
    )


def single(path: Path) -> None:
    write_trace(path, requests=3, tokens=16, arms=[COLD])


def same(path: Path) -> None:
    write_trace(path, requests=3, tokens=16, arms=[COLD, AGAIN, ArmSpec(state="warm")])


def damaged(path: Path) -> None:
    flips(path)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0x55
    path.write_bytes(bytes(raw))


def folder(path: Path) -> None:
    path.mkdir()
    for name in ("first", "second", "deep"):
        flips(path / f"{name}.msgpack")
    (path / "other.msgpack").write_bytes(b"not a trace")


STATES: tuple[tuple[str, Callable[[Path], None], tuple[str, ...]], ...] = (
    ("requests", flips, ("1",)),
    ("tokens", flips, ("2",)),
    ("top-k", flips, ("3",)),
    ("flip", flips, ("4",)),
    ("drift", flips, ("5",)),
    ("cache", flips, ("6",)),
    ("arms", flips, ("7",)),
    ("ids-and-filter", flips, ("2", "x", "f", "right", "right")),
    ("prompt", flips, ("p",)),
    ("help", flips, ("question_mark",)),
    ("hostile", hostile, ("2", "left")),
    ("unobserved", unobserved, ("2",)),
    ("refused", refused, ("enter", "4")),
    ("single-arm", single, ()),
    ("identical", same, ()),
    ("damaged", damaged, ()),
    ("folder", folder, ("down",)),
    ("maximised", flips, ("2", "z")),
)


def chosen() -> list[object]:
    """Every state in every look but one in turn, each time at the next size: 42 of 216."""
    cases = []
    for number, (name, _, _) in enumerate(STATES):
        looks = LOOKS if number % 3 == 0 else LOOKS[:2] if number % 3 == 1 else LOOKS[1:]
        for place, look in enumerate(looks):
            size = SIZES[(number + place + number // 4) % len(SIZES)]
            slow = pytest.mark.slow if place else ()
            label = f"{name}-{size[0]}x{size[1]}-{look}"
            cases.append(pytest.param(number, size, look, id=label, marks=slow))
    return cases


async def settled(app: TraceApp, pilot: Pilot[None]) -> None:
    """The report's rates come on a thread of their own."""
    for _ in range(1200):
        screens = [screen for screen in app.screen_stack if isinstance(screen, TraceScreen)]
        if all(screen.rates_known for screen in screens):
            break
        await asyncio.sleep(0.05)
    await pilot.pause()


@pytest.mark.parametrize(("number", "size", "look"), chosen())
async def test_frame(number, size, look, tmp_path, monkeypatch, request) -> None:
    name, build, keys = STATES[number]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if look == "no-color":
        monkeypatch.setenv("NO_COLOR", "1")
    path = Path("runs") if build is folder else Path("trace.msgpack")
    build(path)
    app = TraceApp(path, theme="textual-light" if look == "light" else "textual-dark")
    async with app.run_test(size=size) as pilot:
        await settled(app, pilot)
        for key in keys:
            await pilot.press(key)
        await pilot.pause()
        await settled(app, pilot)
        found = frame_text(app)
        picture = app.export_screenshot()
    stored = FRAMES / f"{name}-{size[0]}x{size[1]}-{look}.txt"
    if os.environ.get("CACHETRACE_NEW_FRAMES"):
        FRAMES.mkdir(exist_ok=True)
        stored.write_text(found, encoding="utf-8")
    expected = stored.read_text(encoding="utf-8") if stored.exists() else ""
    if found != expected:
        (tmp_path / "frame.svg").write_text(picture, encoding="utf-8")
    assert found == expected, f"the frame looks different; see {tmp_path / 'frame.svg'}"
