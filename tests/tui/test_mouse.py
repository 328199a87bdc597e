"""The mouse: rows, tokens, stretches of the cache, tabs and the keys of the footer can be clicked."""

from __future__ import annotations

from tui.app import TraceApp
from tui.screens.help import HelpScreen
from tui.screens.trace import TraceScreen
from tui.stream_layout import GUTTER
from tui.widgets.key_line import KeyLine
from tui.widgets.panes import PANES
from tui.widgets.tab_line import TabLine
from tui.widgets.tokens import TokensPane

BORDER = 1


async def test_a_click_chooses_a_request(flipped) -> None:
    app = TraceApp(flipped)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.click("#requests", offset=(5, BORDER + 1 + 5))
        await pilot.pause()
        assert (app.screen.cursor.request, app.screen.cursor.position) == (5, 20), "at its flip"
        await pilot.click("#requests", offset=(5, BORDER))
        assert app.screen.cursor.request == 5, "the heading is no row"


async def test_a_click_chooses_a_token(flipped) -> None:
    app = TraceApp(flipped)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        pane = app.screen.query_one(TokensPane)
        layout = pane._layout_of
        y = layout.line_of(2, 1) - pane.scroll_offset.y
        x = GUTTER + layout.cell_of(2, 1)
        await pilot.click(TokensPane, offset=(BORDER + x, BORDER + y))
        await pilot.pause()
        assert (app.screen.cursor.request, app.screen.cursor.position) == (2, 1)
        await pilot.click(TokensPane, offset=(BORDER + x, BORDER + y + 1))
        assert app.screen.cursor.position == 1, "the line of the other arm"


async def test_the_cache_timeline_opens_at_the_request(flipped) -> None:
    app = TraceApp(flipped)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        pane = app.screen.pane_widget(5)
        top, height = pane.scroll_offset.y, pane.scrollable_content_region.height
        lines = [number for number, row in enumerate(pane._view.rows, start=1) if row.request == 2]
        assert all(top <= line < top + height for line in lines)


async def test_a_click_in_the_cache_timeline(flipped) -> None:
    app = TraceApp(flipped)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        pane = app.screen.pane_widget(5)
        row = pane._view.rows[2 + pane.scroll_offset.y - 1]
        await pilot.click("#cache", offset=(20, BORDER + 2))
        await pilot.pause()
        assert app.screen.cursor.request == row.request


async def test_tabs_of_the_narrow_layout(flipped) -> None:
    app = TraceApp(flipped)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for place in (3, 0, 6):
            words = app.screen.query_one(TabLine)._words()
            await pilot.click(TabLine, offset=(sum(map(len, words[:place])) + 1, 0))
            await pilot.pause()
            assert app.screen.pane == place
            shown = [number for number in range(len(PANES)) if app.screen.pane_widget(number).region.area]
            assert shown == [place]


async def test_keys_of_the_footer(flipped) -> None:
    app = TraceApp(flipped)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        line = app.screen.query_one(KeyLine)
        places = {action.name: x for x, action in line.placed()}
        await pilot.click(KeyLine, offset=(places["ids"], 0))
        assert app.screen.cursor.ids
        await pilot.click(KeyLine, offset=(places["help"], 0))
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)


async def test_resizing_changes_the_layout_and_keeps_the_place(flipped) -> None:
    app = TraceApp(flipped)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        before = app.screen.cursor
        for size, panes in (((80, 24), 1), ((200, 60), 7), ((60, 20), 1), ((40, 10), 1), ((120, 40), 7)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert isinstance(app.screen, TraceScreen)
            shown = [number for number in range(len(PANES)) if app.screen.pane_widget(number).region.area]
            assert len(shown) == panes, size
            assert app.screen.cursor == before
