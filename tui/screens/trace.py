"""The main screen: all panes of one trace, and the one cursor that they follow."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace
from textual import work
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.message import Message
from textual.worker import get_current_worker

from tracer.clean_text import clean
from tui import navigation
from tui.actions import Context
from tui.bindings import bindings_of
from tui.screens.trace_actions import TraceActions
from tui.trace_model import ArmPair, TraceModel
from tui.view_model import Cursor, RequestsView
from tui.views.arms import arms_view
from tui.views.cache import cache_view
from tui.views.drift import drift_view
from tui.views.flip import flip_card
from tui.views.rates import Rates, rates_of
from tui.views.requests import requests_view
from tui.views.stream import EpisodeStream
from tui.views.top_k import top_k_view
from tui.widgets.arms import ArmsPane
from tui.widgets.cache_timeline import CachePane
from tui.widgets.drift import DriftPane
from tui.widgets.flip_card import FlipPane
from tui.widgets.key_line import KeyLine
from tui.widgets.panes import HUGE_COLUMNS, PANES, WIDE_COLUMNS
from tui.widgets.requests import RequestsPane
from tui.widgets.status_line import StatusLine
from tui.widgets.tab_line import TabLine
from tui.widgets.tokens import TokensPane
from tui.widgets.top_k import TopKPane

if TYPE_CHECKING:
    from textual import events
    from textual.widget import Widget


_RATES_AFTER_S = 0.3
"""The first paint comes first: the report's code is large."""


class TraceScreen(TraceActions):
    """One trace. Widgets get frozen views and post messages; only this screen moves the cursor."""

    BINDINGS: ClassVar = bindings_of(Context.TRACE)
    AUTO_FOCUS = None
    contexts = (Context.TRACE, Context.EVERYWHERE)

    class RatesRead(Message):
        """The report's rates have been read on their own thread."""

        def __init__(self, rates: Rates) -> None:
            super().__init__()
            self.rates = rates

    def __init__(self, model: TraceModel, cursor: Cursor) -> None:
        super().__init__()
        self.model = model
        self.cursor = cursor
        self.pane = 0
        self._stream: EpisodeStream | None = None
        self._stream_of: ArmPair | None = None
        self._listed: RequestsView | None = None
        self._listed_for: Hashable = None
        self._drawn: dict[str, Hashable] = {}
        self._rates: Rates | None = None
        self._rates_asked = False

    def compose(self) -> ComposeResult:
        yield StatusLine()
        yield TabLine()
        with Container(id="panes"):
            with Horizontal(id="top"):
                yield RequestsPane(id="requests", classes="pane")
                yield TokensPane(id="tokens", classes="pane")
                with Vertical(id="right"):
                    yield TopKPane(id="top-k", classes="pane")
                    yield FlipPane(id="flip", classes="pane")
            with Horizontal(id="bottom"):
                yield DriftPane(id="drift", classes="pane")
                yield CachePane(id="cache", classes="pane")
                yield ArmsPane(id="arms", classes="pane")
        yield KeyLine(*self.contexts)

    def on_mount(self) -> None:
        self._arrange()
        for place, pane in enumerate(PANES):
            self.pane_widget(place).border_title = f"{place + 1} {pane.title}"
        self.cursor = navigation.clamped(self.stream, self.cursor)
        self.go_pane(1 if self.wide else 0)
        self.refresh_panes()

    def on_resize(self, event: events.Resize) -> None:  # noqa: ARG002  # the size is read from the screen
        self._arrange()
        self.call_after_refresh(self._first_panes)

    def _first_panes(self) -> None:
        """Draw the panes at this size; the rates are read when that has been painted."""
        self.refresh_panes()
        if not self._rates_asked:
            self._rates_asked = True
            self.call_after_refresh(self.set_timer, _RATES_AFTER_S, self._read_rates)

    def on_unmount(self) -> None:
        self.model.close()

    @property
    def wide(self) -> bool:
        """Whether the panes stand side by side."""
        return self.app.size.width >= WIDE_COLUMNS

    @property
    def chosen_arm(self) -> int:
        """The arm that is looked at: the one below, else the only one there is."""
        pair = self.model.pair(self.cursor)
        return pair.a if pair.b is None else pair.b

    @property
    def stream(self) -> EpisodeStream:
        """The token streams at this cursor."""
        pair = self.model.pair(self.cursor)
        if self._stream is None or self._stream_of is not pair:
            self._stream, self._stream_of = EpisodeStream(self.model, pair), pair
        return self._stream

    @property
    def listed(self) -> RequestsView:
        """The rows of the requests pane at this cursor."""
        key = (self.model.pair(self.cursor), self.cursor.filter)
        if self._listed is None or self._listed_for is not key[0] or self._listed.filter is not key[1]:
            self._listed, self._listed_for = requests_view(self.model, self.cursor), key[0]
        return self._listed

    def move(self, cursor: Cursor) -> None:
        """Go to another cursor and show what has changed."""
        self.cursor = cursor
        self.cursor = navigation.clamped(self.stream, cursor)
        self.refresh_panes()

    def reload(self) -> None:
        """The file has grown, or the theme has changed: draw everything again."""
        self._stream = self._listed = None
        self._drawn.clear()
        self._read_rates()
        self.cursor = navigation.clamped(self.stream, self.cursor)
        self.refresh_panes()

    def go_pane(self, place: int) -> None:
        """Focus a pane; in the narrow layout it takes the whole screen."""
        self.pane = place % len(PANES)
        widget = self.pane_widget(self.pane)
        for number in range(len(PANES)):
            self.pane_widget(number).set_class(number == self.pane, "-active")
        for name in ("top", "right", "bottom"):
            box = self.query_one(f"#{name}")
            box.set_class(widget in box.query("*"), "-active")
        self.query_one(TabLine).show(self.pane)
        widget.focus(scroll_visible=False)
        if not self.wide:
            self.call_after_refresh(self.refresh_panes)

    def pane_widget(self, place: int) -> Widget:
        """The widget of a pane by its number from 0."""
        return self.query_one(f"#{PANES[place].id}")

    def refresh_panes(self) -> None:
        """Give every visible pane what it does not show yet."""
        pair, cursor = self.model.pair(self.cursor), self.cursor
        at = (id(pair), cursor.request)
        size = self.app.size
        wanted: dict[str, tuple[Hashable, Callable[[], None]]] = {
            "requests": ((*at, cursor.filter), self._show_requests),
            "tokens": ((*at, cursor.position, cursor.ids), self._show_tokens),
            "top-k": ((*at, cursor.position, cursor.ids), self._show_top_k),
            "flip": (at, self._show_flip),
            "drift": ((*at, cursor.position), self._show_drift),
            "cache": (at, self._show_cache),
            "arms": ((id(pair),), self._show_arms),
        }
        for number, pane in enumerate(PANES):
            key, show = wanted[pane.id]
            visible = self.wide or number == self.pane
            if visible and self._drawn.get(pane.id) != (key, size):
                self._drawn[pane.id] = (key, size)
                show()
        self._show_status()

    def _show_requests(self) -> None:
        pane = self.query_one(RequestsPane)
        pane.show(self.listed, self.cursor.request)
        chosen = self.cursor.filter
        shown = "" if chosen == "all" else f": {chosen}, {len(self.listed.rows)} of {self.listed.of}"
        pane.border_title = f"1 requests{shown}"

    def _show_tokens(self) -> None:
        cursor, stream = self.cursor, self.stream
        pane = self.query_one(TokensPane)
        pane.show(stream, cursor.request, cursor.position, ids=cursor.ids)
        below = "" if stream.label_b is None else f" above, {clean(stream.label_b)} below"
        pane.border_title = f"2 tokens: {clean(stream.label_a)}{below}"

    def _show_top_k(self) -> None:
        view = top_k_view(self.model, self.cursor)
        if self.wide and self.maximized is None:
            view = replace(view, sentence="")  # the flip card beside it says it
        self.query_one(TopKPane).show(view)

    def _show_flip(self) -> None:
        self.query_one(FlipPane).show(flip_card(self.model, self.cursor))

    def _show_drift(self) -> None:
        self.query_one(DriftPane).show(drift_view(self.model, self.cursor))

    def _show_cache(self) -> None:
        self.query_one(CachePane).show(cache_view(self.model, self.cursor))

    def _show_arms(self) -> None:
        self.query_one(ArmsPane).show(arms_view(self.model, self.cursor, self._rates))

    @work(thread=True, exclusive=True, group="rates")
    def _read_rates(self) -> None:
        """The report's rates, beside the first paint and not before it."""
        worker = get_current_worker()
        rates = rates_of(self.model.file, self.model.near_tie)
        if not worker.is_cancelled:
            self.post_message(self.RatesRead(rates))  # unlike a call, it may come after the end

    @property
    def rates_known(self) -> bool:
        """Whether the report's rates have come."""
        return self._rates is not None

    def on_trace_screen_rates_read(self, message: RatesRead) -> None:
        self._rates = message.rates
        self._drawn.pop("arms", None)
        if self.is_mounted:
            self.refresh_panes()

    def _show_status(self) -> None:
        model, cursor = self.model, self.cursor
        pair = model.pair(cursor)
        arms = model.label(pair.a)
        if pair.b is not None:
            arms += f" against {model.label(pair.b)}"
        left = f"{clean(model.trace.episode.episode_id)}  {arms}"
        where = f"request {cursor.request}/{max(len(self.stream.requests) - 1, 0)} token {cursor.position}"
        self.query_one(StatusLine).show(left, self.activity or where, urgent=bool(self.activity))

    def _arrange(self) -> None:
        width = self.app.size.width
        self.set_class(width < WIDE_COLUMNS, "-narrow")
        self.set_class(width >= HUGE_COLUMNS, "-huge")

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        for place, pane in enumerate(PANES):
            if event.widget.id == pane.id and place != self.pane:
                self.pane = place
                self.query_one(TabLine).show(place)

    def on_requests_pane_chosen(self, message: RequestsPane.Chosen) -> None:
        if message.request != self.cursor.request or self.pane != 0:
            flip = self.model.pair(self.cursor).verdicts.get(message.request)
            at = flip.flip.position if flip is not None and flip.flip is not None else 0
            self.move(replace(self.cursor, request=message.request, position=at))

    def on_tokens_pane_chosen(self, message: TokensPane.Chosen) -> None:
        self.move(replace(self.cursor, request=message.request, position=message.position))

    def on_cache_pane_chosen(self, message: CachePane.Chosen) -> None:
        arm = message.arm if message.arm != self.model.pair(self.cursor).a else self.cursor.arm
        self.move(replace(self.cursor, request=message.request, position=0, arm=arm))

    def on_tab_line_chosen(self, message: TabLine.Chosen) -> None:
        self.go_pane(message.place)
