"""A folder opens as a list of episodes, from headers alone, and goes into each."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.synthetic import ArmSpec, write_trace
from tracer.tracefile import TraceReader
from tui.app import TraceApp
from tui.screens.advice import AdviceScreen
from tui.screens.ask import AskScreen
from tui.screens.episode_list import FIRST_ROWS, EpisodeListScreen, EpisodeTable
from tui.screens.trace import TraceScreen


@pytest.fixture
def folder(tmp_path: Path, flipped: Path) -> Path:
    for name in ("b", "a", "deep/c"):
        path = tmp_path / "runs" / f"{name}.msgpack"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_trace(
            path, requests=2, tokens=6, arms=[ArmSpec(), ArmSpec(state="warm", drift=1e-3)], episode_id=name
        )
    shutil.copy(flipped, tmp_path / "runs" / "flips.msgpack")
    (tmp_path / "runs" / "not-a-trace.msgpack").write_bytes(b"nothing")
    return tmp_path / "runs"


async def test_rows_come_from_headers(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(TraceReader, "open", lambda *_: pytest.fail("a list reads headers only"))
    app = TraceApp(folder)
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        assert isinstance(app.screen, EpisodeListScreen)
        table = app.screen.query_one(EpisodeTable)
        rows = [[cell.plain for cell in table.get_row_at(i)] for i in range(table.row_count)]
    assert [row[0] for row in rows] == [
        "a.msgpack",
        "b.msgpack",
        "deep/c.msgpack",
        "flips.msgpack",
        "not-a-trace.msgpack",
    ]
    assert rows[0][1] == "a"
    assert rows[0][3] == "2"
    assert rows[0][4] == "2: cold, warm"
    assert rows[4][1] == "not a trace"


async def test_every_key_of_the_list(folder: Path) -> None:
    app = TraceApp(folder)
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        table = app.screen.query_one(EpisodeTable)
        for key, row in (
            ("down", 1), ("j", 2), ("up", 1), ("k", 0), ("G", 4), ("g", 0), ("end", 4), ("home", 0),
            ("pagedown", 4), ("pageup", 0),
        ):  # fmt: skip
            await pilot.press(key)
            assert table.cursor_row == row, key
        await pilot.press("slash")
        assert isinstance(app.screen, AskScreen)
        await pilot.press(*"FLIPS", "enter")
        assert table.cursor_row == 3
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, TraceScreen)
        assert app.screen.cursor.request == 2
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, EpisodeListScreen), "q goes back to the list"
        await pilot.press("down", "enter")
        await pilot.pause()
        assert isinstance(app.screen, AdviceScreen)
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, EpisodeListScreen)
        await pilot.press("q")
    assert app.return_code == 0


async def test_a_click_opens_a_row(folder: Path) -> None:
    app = TraceApp(folder)
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        await pilot.click(EpisodeTable, offset=(5, 4))
        await pilot.click(EpisodeTable, offset=(5, 4))
        await pilot.pause()
        assert isinstance(app.screen, TraceScreen)


async def test_a_long_list_fills_up_behind_the_first_paint(tmp_path: Path, flipped: Path) -> None:
    count = FIRST_ROWS + 250
    for number in range(count):
        shutil.copy(flipped, tmp_path / f"e{number:04}.msgpack")
    app = TraceApp(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        table = app.screen.query_one(EpisodeTable)
        for _ in range(1200):
            if table.row_count == count:
                break
            await asyncio.sleep(0.05)
        assert table.row_count == count
        await pilot.press("G")
        assert app.screen.chosen == app.screen.files[-1]


async def test_a_folder_without_traces_says_so(tmp_path: Path) -> None:
    app = TraceApp(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("enter", "down", "G")
        await pilot.pause()
        assert "no .msgpack file" in app.screen.query_one("StatusLine").text
