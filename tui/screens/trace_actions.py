"""What the keys of the main screen do. Each ends in another cursor, another pane or a dialogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from msgspec.structs import replace
from textual.screen import Screen

from tracer.clean_text import clean
from tracer.errors import CachetraceError, UsageError
from tui import navigation
from tui.view_model import Cursor
from tui.widgets.panes import PANES
from tui.widgets.tokens import TokensPane

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.widget import Widget

    from tui.app import TraceApp
    from tui.screens.trace import TraceScreen
    from tui.trace_model import TraceModel
    from tui.view_model import RequestsView
    from tui.views.stream import EpisodeStream


class TraceActions(Screen[None]):
    """The actions of the context ``trace``; ``TraceScreen`` supplies what they act on."""

    model: TraceModel
    cursor: Cursor
    pane: int
    activity = ""
    """What is going on now, for the status line: a running replay."""
    looking_for = ""
    """The text of the last find; n and N repeat it until Escape."""

    if TYPE_CHECKING:

        @property
        def wide(self) -> bool: ...
        @property
        def chosen_arm(self) -> int: ...
        @property
        def stream(self) -> EpisodeStream: ...
        @property
        def listed(self) -> RequestsView: ...
        def move(self, cursor: Cursor) -> None: ...
        def reload(self) -> None: ...
        def go_pane(self, place: int) -> None: ...
        def pane_widget(self, place: int) -> Widget: ...
        def refresh_panes(self) -> None: ...

    @property
    def trace_app(self) -> TraceApp:
        return cast("TraceApp", self.app)

    @property
    def _whole(self) -> TraceScreen:
        """This screen as the class that it always is."""
        return cast("TraceScreen", self)

    @property
    def _pane_id(self) -> str:
        return PANES[self.pane].id

    def _say(self, text: str, *, wrong: bool = False) -> None:
        self.notify(clean(text), severity="warning" if wrong else "information", timeout=4, markup=False)

    # move

    def action_left(self) -> None:
        self._move_token(-1)

    def action_right(self) -> None:
        self._move_token(1)

    def _move_token(self, step: int) -> None:
        if self.stream.requests:
            self.move(navigation.step_token(self.stream, self.cursor, step))

    def action_up(self) -> None:
        self._move_line(-1)

    def action_down(self) -> None:
        self._move_line(1)

    def action_page_up(self) -> None:
        self._move_page(-1)

    def action_page_down(self) -> None:
        self._move_page(1)

    def _move_line(self, step: int) -> None:
        if self._pane_id == "requests":
            self._move_request(step)
        elif self._pane_id == "tokens":
            self._move_band(step)
        else:
            self.pane_widget(self.pane).scroll_relative(y=step, animate=False)

    def _move_page(self, step: int) -> None:
        widget = self.pane_widget(self.pane)
        height = max(widget.size.height - 2, 1)
        if self._pane_id == "requests":
            self._move_request(step * height)
        elif isinstance(widget, TokensPane):
            self._move_band(step * widget.bands_visible)
        else:
            widget.scroll_relative(y=step * height, animate=False)

    def _move_band(self, bands: int) -> None:
        place = self.query_one(TokensPane).neighbour(bands)
        if place is not None:
            self.move(replace(self.cursor, request=place[0], position=place[1]))

    def _move_request(self, step: int) -> None:
        listed = [row.index for row in self.listed.rows]
        self.move(navigation.step_request(listed, self.cursor, step))

    def action_first(self) -> None:
        self._move_end(first=True)

    def action_last(self) -> None:
        self._move_end(first=False)

    def _move_end(self, *, first: bool) -> None:
        if self._pane_id == "requests":
            rows = self.listed.rows
            if rows:
                self.move(replace(self.cursor, request=rows[0 if first else -1].index, position=0))
        elif self._pane_id == "tokens":
            last = len(self.stream.requests) - 1
            positions = self.stream.requests[last].positions if last >= 0 else 0
            request, position = (0, 0) if first else (last, positions - 1)
            self.move(replace(self.cursor, request=request, position=position))
        elif first:
            self.pane_widget(self.pane).scroll_home(animate=False)
        else:
            self.pane_widget(self.pane).scroll_end(animate=False)

    # jump

    def action_next_request(self) -> None:
        self._move_request(1)

    def action_previous_request(self) -> None:
        self._move_request(-1)

    def action_tokens(self) -> None:
        self.go_pane(1)

    def action_next_flip(self) -> None:
        self._jump(1)

    def action_previous_flip(self) -> None:
        self._jump(-1)

    def _jump(self, step: int) -> None:
        if self.looking_for:
            self._find(step)
            return
        flips = navigation.flips(self.model, self.cursor)
        found = navigation.to_place(self.cursor, flips, step)
        side = "after" if step > 0 else "before"
        self._go(found, f"no flip {side} this token" if flips else "no flip between these two arms")

    def action_next_near_tie(self) -> None:
        found = navigation.near_tie(self.stream, self.cursor, 1)
        self._go(found, f"no margin below {self.model.near_tie:g} after this token")

    def action_previous_near_tie(self) -> None:
        found = navigation.near_tie(self.stream, self.cursor, -1)
        self._go(found, f"no margin below {self.model.near_tie:g} before this token")

    def _go(self, found: Cursor | None, otherwise: str) -> None:
        if found is None:
            self._say(otherwise)
        else:
            self.move(found)

    def action_find(self) -> None:
        def answered(text: str | None) -> None:
            if text:
                self.looking_for = text
                self._find(1)

        from tui.screens.ask import AskScreen

        self.app.push_screen(AskScreen("find", self.looking_for), answered)

    def _find(self, step: int) -> None:
        found = navigation.find_text(self.stream, self.cursor, self.looking_for, step)
        if found is None:
            side = "after" if step > 0 else "before"
            self._say(f"not found {side} this token; Esc ends the find, then n means flips again")
        else:
            self.move(found)

    def action_go_to(self) -> None:
        def answered(text: str | None) -> None:
            if text:
                try:
                    self.move(navigation.go_to(text, self.cursor))
                except UsageError as error:
                    self._say(str(error), wrong=True)

        from tui.screens.ask import AskScreen

        self.app.push_screen(AskScreen("go to request.token", ""), answered)

    # look

    def action_arm(self) -> None:
        self.move(navigation.next_arm(self.model, self.cursor))

    def action_baseline(self) -> None:
        self.move(navigation.next_baseline(self.model, self.cursor))

    def action_filter(self) -> None:
        self.move(navigation.next_filter(self.cursor))

    def action_ids(self) -> None:
        self.move(replace(self.cursor, ids=not self.cursor.ids))

    def action_prompt(self) -> None:
        from tui.screens.prompt import PromptScreen

        self.app.push_screen(PromptScreen(self.model, self.cursor, self.chosen_arm))

    def action_maximise(self) -> None:
        if self.maximized is not None:
            self.minimize()
        else:
            self.maximize(self.pane_widget(self.pane), container=False)
        self.call_after_refresh(self.reload)

    def action_pane(self, number: int) -> None:
        self.go_pane(number - 1)

    def action_next_pane(self) -> None:
        self.go_pane(self.pane + 1)

    def action_previous_pane(self) -> None:
        self.go_pane(self.pane - 1)

    def action_cancel(self) -> None:
        if self.looking_for:
            self.looking_for = ""
            self._say("find ended; n means flips again")
        elif self.maximized is not None:
            self.action_maximise()
        else:
            self.trace_app.live.stop()

    # take away and live: the work is done elsewhere, and refusals are said in one sentence

    def action_copy(self) -> None:
        self._attempt(lambda: self.trace_app.copy_place(self.model, self.cursor))

    def action_export(self) -> None:
        self._attempt(lambda: self.trace_app.export_flip(self.model, self.cursor))

    def action_replay(self) -> None:
        self._attempt(lambda: self.trace_app.live.replay_request(self._whole))

    def action_replay_all(self) -> None:
        self._attempt(lambda: self.trace_app.live.ask_and_replay(self._whole))

    def _attempt(self, act: Callable[[], str]) -> None:
        try:
            said = act()
        except CachetraceError as error:
            self._say(str(error), wrong=True)
        else:
            if said:
                self._say(said)
