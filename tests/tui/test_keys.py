"""Every key of the table, pressed in the real application; what it did is read from the model."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tui.actions import Context, actions_of
from tui.app import Opening, TraceApp
from tui.screens.ask import AskScreen
from tui.screens.help import HelpScreen
from tui.screens.prompt import PromptScreen
from tui.screens.trace import TraceScreen
from tui.view_model import Filter
from tui.widgets.panes import PANES

FLIPS = [(2, 5), (5, 20)]
"""Of the warm arm."""
TOKENS = 32


@asynccontextmanager
async def opened(path: Path, tmp_path: Path, size: tuple[int, int] = (120, 40), **opening: object):
    app = TraceApp(path, opening=Opening(**opening), out=tmp_path)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


def place(app: TraceApp) -> tuple[int, int]:
    assert isinstance(app.screen, TraceScreen)
    return app.screen.cursor.request, app.screen.cursor.position


async def press(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()


async def test_it_opens_at_the_first_flip(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path) as (app, _):
        assert place(app) == FLIPS[0]
        assert app.screen.model.label(app.screen.cursor.arm) == "warm"


async def test_it_opens_where_the_command_says(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path, request=6, position=9, arm="snapshot") as (app, _):
        assert place(app) == (6, 9)
        assert app.screen.model.label(app.screen.cursor.arm) == "snapshot"


async def test_moving_by_tokens(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path, request=3, position=7) as (app, pilot):
        for key, step in (("right", 1), ("l", 1), ("left", -1), ("h", -1)):
            before = place(app)[1]
            await press(pilot, key)
            assert place(app) == (3, before + step)
        await press(pilot, *["left"] * 8)
        assert place(app) == (2, TOKENS - 1), "over the border of requests"
        await press(pilot, "right")
        assert place(app) == (3, 0)


async def test_moving_by_lines_in_the_tokens(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path, request=3, position=0) as (app, pilot):
        await press(pilot, "2", "down")
        below = place(app)
        assert below[0] == 3
        assert below[1] > 0
        await press(pilot, "k")
        assert place(app) == (3, 0)
        await press(pilot, "j", "up", "pagedown")
        assert place(app) > below
        await press(pilot, "pageup")
        assert place(app) == (3, 0)
        for last, first in (("G", "g"), ("end", "home")):
            await press(pilot, last)
            assert place(app) == (7, TOKENS - 1)
            await press(pilot, first)
            assert place(app) == (0, 0)


async def test_moving_by_requests_in_their_pane(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path, request=3) as (app, pilot):
        await press(pilot, "1")
        for key, request in (("down", 4), ("j", 5), ("up", 4), ("k", 3), ("G", 7), ("g", 0), ("end", 7)):
            await press(pilot, key)
            assert place(app) == (request, 0)
        await press(pilot, "home", "pagedown")
        assert place(app) == (7, 0)
        await press(pilot, "pageup")
        assert place(app) == (0, 0)
        await press(pilot, "enter")
        assert PANES[app.screen.pane].id == "tokens"


async def test_scrolling_the_other_panes(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path, size=(80, 24)) as (app, pilot):
        await press(pilot, "3")
        pane = app.screen.pane_widget(app.screen.pane)
        before = place(app)
        for key in ("down", "j"):
            y = pane.scroll_offset.y
            await press(pilot, key)
            assert pane.scroll_offset.y == y + 1
        await press(pilot, "k", "up")
        assert pane.scroll_offset.y == 0
        await press(pilot, "G")
        assert pane.scroll_offset.y == pane.max_scroll_y > 0
        await press(pilot, "g")
        assert pane.scroll_offset.y == 0
        await press(pilot, "pagedown")
        assert pane.scroll_offset.y > 0
        assert place(app) == before


async def test_jumping(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path, request=0, position=0) as (app, pilot):
        await press(pilot, "n")
        assert place(app) == FLIPS[0]
        await press(pilot, "n")
        assert place(app) == FLIPS[1]
        await press(pilot, "n")
        assert place(app) == FLIPS[1], "there is no third"
        await press(pilot, "N")
        assert place(app) == FLIPS[0]
        await press(pilot, "right_square_bracket")
        assert place(app) == (3, 0)
        await press(pilot, "left_square_bracket")
        assert place(app) == (2, 0)


async def test_near_ties(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path, request=0, position=0) as (app, pilot):
        margins = {}
        for request in range(8):
            for position, margin in enumerate(app.screen.model.margins(0, request)):
                margins[request, position] = margin
        seen = []
        for _ in range(3):
            await press(pilot, "m")
            seen.append(place(app))
        assert seen == sorted(set(seen))
        assert margins[seen[0]] < 0.1
        assert all(margin >= 0.1 for at, margin in margins.items() if (0, 0) < at < seen[0])
        await press(pilot, "M")
        assert place(app) == seen[1]


async def test_find(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path, request=0, position=0) as (app, pilot):
        words = [app.screen.model.text(int(i)).strip("·") for i in app.screen.stream.requests[3].a_ids]
        wanted = next(word for word in words if word.startswith("w"))
        await press(pilot, "slash")
        assert isinstance(app.screen, AskScreen)
        await press(pilot, *wanted, "enter")
        assert isinstance(app.screen, TraceScreen)
        found = app.screen.stream.requests[place(app)[0]].a_ids[place(app)[1]]
        assert wanted in app.screen.model.text(int(found))
        assert app.screen.looking_for == wanted
        await press(pilot, "escape")
        assert app.screen.looking_for == ""
        await press(pilot, "g", "n")
        assert place(app) == FLIPS[0], "n means flips again"


async def test_go_to(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path) as (app, pilot):
        await press(pilot, "colon", *"6.17", "enter")
        assert place(app) == (6, 17)
        await press(pilot, "colon", *"nonsense", "enter")
        assert place(app) == (6, 17)
        await press(pilot, "colon", *"99", "enter")
        assert place(app) == (7, 0), "the last request there is"
        await press(pilot, "colon", "5", "escape")
        assert place(app) == (7, 0)


async def test_arm_and_baseline(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path) as (app, pilot):
        labels = []
        for _ in range(3):
            await press(pilot, "a")
            labels.append(app.screen.model.label(app.screen.cursor.arm))
        assert labels == ["snapshot", "cold#1", "warm"]
        assert place(app) == FLIPS[0], "looking at another arm does not move"
        await press(pilot, "b")
        pair = app.screen.model.pair(app.screen.cursor)
        assert app.screen.model.label(pair.a) == "cold#1"
        assert pair.b != pair.a


async def test_filter(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path) as (app, pilot):
        counts = {}
        for _ in Filter:
            await press(pilot, "f")
            counts[app.screen.cursor.filter] = [row.index for row in app.screen.listed.rows]
        assert counts[Filter.FLIPPED] == [2, 5]
        assert counts[Filter.ALL] == list(range(8))
        assert counts[Filter.CACHE_MISS] == [0]
        assert counts[Filter.DRIFTED] == [1, 2, 3, 4, 5, 6, 7]


async def test_looking(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path) as (app, pilot):
        await press(pilot, "x")
        assert app.screen.cursor.ids
        await press(pilot, "z")
        assert app.screen.maximized is app.screen.pane_widget(app.screen.pane)
        await press(pilot, "z")
        assert app.screen.maximized is None
        for number, pane in enumerate(PANES, start=1):
            await press(pilot, str(number))
            assert app.focused is not None
            assert app.focused.id == pane.id
        await press(pilot, "tab")
        assert app.screen.pane == 0
        await press(pilot, "shift+tab")
        assert app.screen.pane == len(PANES) - 1


async def test_the_prompt_and_its_keys(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path, size=(80, 24), request=6) as (app, pilot):
        await press(pilot, "p")
        assert isinstance(app.screen, PromptScreen)
        pane = app.screen.query_one("#prompt")
        await press(pilot, "g")
        for key in ("down", "j"):
            y = pane.scroll_offset.y
            await press(pilot, key)
            assert pane.scroll_offset.y == y + 1
        await press(pilot, "up", "k")
        assert pane.scroll_offset.y == 0
        for key in ("pagedown", "space"):
            y = pane.scroll_offset.y
            await press(pilot, key)
            assert pane.scroll_offset.y > y
        await press(pilot, "G", "home", "end")
        assert pane.scroll_offset.y == pane.max_scroll_y
        await press(pilot, "pageup")
        assert pane.scroll_offset.y < pane.max_scroll_y
        broke = app.screen.query_one("#prompt").break_line
        await press(pilot, "n")
        assert broke is None or pane.scroll_offset.y == min(max(broke - 2, 0), pane.max_scroll_y)
        arm = app.screen.arm
        await press(pilot, "a")
        assert app.screen.arm != arm
        await press(pilot, "x")
        assert app.screen.ids
        await press(pilot, "p")
        assert isinstance(app.screen, TraceScreen)
        await press(pilot, "p", "escape")
        assert isinstance(app.screen, TraceScreen)


async def test_taking_away(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path) as (app, pilot):
        await press(pilot, "y")
        assert "led by 0.01 when cold" in app.clipboard
        await press(pilot, "e")
        report = next(tmp_path.glob("flip-*.md")).read_text(encoding="utf-8")
        assert "request 2" in report
        assert "cachetrace replay" in report
        await press(pilot, "s")
        picture = next(tmp_path.glob("*.svg")).read_text(encoding="utf-8")
        assert picture.startswith("<svg")
        assert "url(http" not in picture, "a picture fetches nothing when it is opened"
        await press(pilot, "right", "y")
        assert app.clipboard.startswith("request 2 token 6:")


async def test_everywhere(flipped, tmp_path) -> None:
    async with opened(flipped, tmp_path) as (app, pilot):
        dark = app.current_theme.dark
        await press(pilot, "T")
        assert app.current_theme.dark is not dark
        await press(pilot, "question_mark")
        assert isinstance(app.screen, HelpScreen)
        await press(pilot, "escape", "ctrl+p")
        assert type(app.screen).__name__ == "CommandPalette"
        await press(pilot, "escape", "q")
    assert app.return_code == 0


SIZES = [
    pytest.param((60, 20), marks=pytest.mark.slow),
    (80, 24),
    (120, 40),
    pytest.param((200, 60), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("size", SIZES)
async def test_every_key_works_at_every_size(flipped, tmp_path, size) -> None:
    """No key may raise, whatever the layout; what each does is asserted above."""
    async with opened(flipped, tmp_path, size=size) as (app, pilot):
        for action in actions_of(Context.TRACE):
            if action.name in ("replay", "replay_all"):
                continue
            await pilot.press(action.keys[0])
            if not isinstance(app.screen, TraceScreen):
                await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, TraceScreen)
