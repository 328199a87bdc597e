"""The application: opens a trace or a folder of traces, and does what works on every screen."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace
from textual.app import App
from textual.screen import Screen

from replay.divergence import DEFAULT_NEAR_TIE, resolve_arm
from tracer.clean_text import clean
from tracer.errors import CachetraceError, UsageError
from tui.actions import Context
from tui.advice import advice_for, empty, unreadable
from tui.bindings import bindings_of
from tui.live import Live
from tui.screens.advice import AdviceScreen
from tui.screens.trace import TraceScreen
from tui.take_away import copied_text, picture_name, picture_of, write_flip_report
from tui.trace_model import TraceModel

if TYPE_CHECKING:
    from textual.command import Provider

    from tracer.engines.choice import EngineChoice
    from tui.view_model import Cursor


def _action_commands() -> type[Provider]:
    from tui.palette_entries import ActionCommands

    return ActionCommands


class Opening(Struct, frozen=True):
    """Where to open a trace, as the command line says. Labels or numbers of arms."""

    request: int | None = None
    position: int | None = None
    arm: str | None = None
    baseline: str | None = None


class TraceApp(App[None]):
    """The screen of cachetrace."""

    TITLE = "cachetrace"
    CSS_PATH = Path(__file__).with_name("screens") / "trace.tcss"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar = {_action_commands}
    BINDINGS: ClassVar = bindings_of(Context.EVERYWHERE)

    def __init__(
        self,
        path: Path,
        *,
        opening: Opening | None = None,
        choice: EngineChoice | None = None,
        near_tie: float = DEFAULT_NEAR_TIE,
        theme: str | None = None,
        out: Path | None = None,
    ) -> None:
        super().__init__()
        self._path = path
        self._opening = opening or Opening()
        self._near_tie = near_tie
        self._first_advice: AdviceScreen | None = None
        self.out = out or Path.cwd()
        """Where pictures and bug reports are written."""
        self.live = Live(self, choice)
        self.theme = theme or "textual-dark"

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, lambda _: self._redraw())
        if self._first_advice is not None:
            self.push_screen(self._first_advice)

    def on_ready(self) -> None:
        """After the first paint. The objects of start-up stay for good, so no collection looks at them."""
        gc.freeze()
        gc.enable()

    def get_default_screen(self) -> Screen[Any]:
        """The first screen itself: an empty one below it would be one paint more."""
        if self._path.is_dir():
            from tui.screens.episode_list import EpisodeListScreen

            return EpisodeListScreen(self._path)
        screen, self._first_advice = self._opened(self._path)
        return screen or super().get_default_screen()

    def open_trace(self, path: Path) -> None:
        """Show a trace, with a first page of advice where there is no flip to step to."""
        for screen in self._opened(path):
            if screen is not None:
                self.push_screen(screen)

    def _opened(self, path: Path) -> tuple[TraceScreen | None, AdviceScreen | None]:
        """The screen of a trace, and the page of advice before it (or instead of it)."""
        try:
            model = TraceModel.open(path, near_tie=self._near_tie)
        except CachetraceError as error:
            return None, AdviceScreen(unreadable(path, error), may_go_on=False)
        try:
            if not model.arms:
                model.close()
                return None, AdviceScreen(empty(model), may_go_on=False)
            cursor, advice = self._first_cursor(model), advice_for(model)
        except CachetraceError as error:
            model.close()
            return None, AdviceScreen(unreadable(path, error), may_go_on=False)
        return TraceScreen(model, cursor), None if advice is None else AdviceScreen(advice, may_go_on=True)

    def _first_cursor(self, model: TraceModel) -> Cursor:
        opening = self._opening
        arm = None if opening.arm is None else resolve_arm(model.trace, opening.arm)
        baseline = None if opening.baseline is None else resolve_arm(model.trace, opening.baseline)
        cursor = model.start(arm, baseline)
        if opening.request is not None:
            cursor = replace(cursor, request=opening.request, position=opening.position or 0)
        elif opening.position is not None:
            cursor = replace(cursor, position=opening.position)
        return cursor

    # what works everywhere

    def action_theme(self) -> None:
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"

    def action_help(self) -> None:
        from tui.screens.help import HelpScreen

        contexts = getattr(self.screen, "contexts", (Context.EVERYWHERE,))
        self.push_screen(HelpScreen(contexts))

    def action_screenshot(self, filename: str | None = None, path: str | None = None) -> None:  # noqa: ARG002
        screen = self._trace_screen()
        model, cursor = (screen.model, screen.cursor) if screen is not None else (None, None)
        target = picture_name(model, cursor, self.out)
        try:
            target.write_text(picture_of(self), encoding="utf-8")
        except OSError as error:
            self.say(f"The picture could not be written to {self.out}: {error.strerror}.")
        else:
            self.say(f"saved {target.name}")

    async def action_quit(self) -> None:
        below = [screen for screen in self.screen_stack if getattr(screen, "is_episode_list", False)]
        if below and self.screen is not below[0]:
            while self.screen is not below[0]:
                self.pop_screen()
            return
        self.live.stop_now()
        self.exit()

    def say(self, text: str) -> None:
        """One sentence at the edge of the screen; never markup."""
        self.notify(clean(text), timeout=5, markup=False)

    def copy_place(self, model: TraceModel, cursor: Cursor) -> str:
        """Copy through the terminal (OSC 52), which also works over ssh."""
        text = copied_text(model, cursor)
        self.copy_to_clipboard(text)
        return f"copied: {text}"

    def export_flip(self, model: TraceModel, cursor: Cursor) -> str:
        """Write the flip's bug report beside where the command was started."""
        try:
            return f"saved {write_flip_report(model, cursor, self.out).name}"
        except OSError as error:
            raise UsageError(f"The report could not be written to {self.out}: {error.strerror}.") from error

    def _trace_screen(self) -> TraceScreen | None:
        found = [screen for screen in self.screen_stack if isinstance(screen, TraceScreen)]
        return found[-1] if found else None

    def _redraw(self) -> None:
        for screen in self.screen_stack:
            reload = getattr(screen, "reload", None)
            if reload is not None:
                reload()
