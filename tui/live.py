"""Replaying while one looks: a child process adds an arm, and the screen follows it in the file.

The engine comes from the command line or the user's settings, never from the trace. What starts a
process is imported only when one is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracer.clean_text import clean
from tracer.episode import Arm, CacheState, Priming, Way, default_priming
from tracer.errors import UsageError

if TYPE_CHECKING:
    from textual.app import App
    from textual.timer import Timer

    from replay.arm_schedule import ReplayOptions
    from replay.child import ChildEvent
    from replay.child_run import ChildOutcome, ReplayChild
    from tracer.engines.choice import EngineChoice
    from tui.screens.trace import TraceScreen

_POLL_S = 0.2
STATES = (CacheState.COLD, CacheState.WARM, CacheState.SNAPSHOT, CacheState.NO_PROMPT_CACHE)
_FOLLOWING = (Way.FIXED, Way.CLOSED_LOOP, Way.FORCED)
_FILLED_BY_SERVING = (Priming.OWN, Priming.LOCKSTEP, Priming.SELF, Priming.PROMPT_ONLY)


class Live:
    """At most one running replay. ``choice`` None = this session may not start an engine."""

    def __init__(self, app: App[None], choice: EngineChoice | None) -> None:
        self._app = app
        self._choice = choice
        self._child: ReplayChild | None = None
        self._screen: TraceScreen | None = None
        self._timer: Timer | None = None
        self._arms_before = 0
        self._stopping = False

    @property
    def running(self) -> bool:
        """Whether a child is at work."""
        return self._child is not None

    @property
    def pid(self) -> int | None:
        """The child's process number."""
        return None if self._child is None else self._child.pid

    def replay_request(self, screen: TraceScreen) -> str:
        """Replay up to the request under the cursor as a new arm, like the arm that is looked at."""
        arm = screen.model.arms[screen.chosen_arm]
        options = options_like(arm, screen.cursor.request + 1)
        self._start(screen, options)
        return f"replaying request {screen.cursor.request} as a new arm ({options.states[0]}); Esc stops it"

    def ask_and_replay(self, screen: TraceScreen) -> str:
        """Ask for a state and replay the whole episode under it."""
        from replay.arm_schedule import ReplayOptions
        from tui.screens.choose import ChooseScreen

        self._refuse_second()

        def answered(place: int | None) -> None:
            if place is not None:
                try:
                    self._start(screen, ReplayOptions(states=(STATES[place],), repeats=1, again=True))
                except UsageError as error:
                    self._say(str(error), wrong=True)

        self._app.push_screen(
            ChooseScreen("replay the whole episode under", [str(s) for s in STATES]), answered
        )
        return ""

    def stop(self) -> None:
        """Stop a running replay; what it wrote stays. Does not wait."""
        if self._child is not None and not self._stopping:
            self._stopping = True
            self._show("stopping the replay")
            self._app.run_worker(self._child.stop, thread=True, exit_on_error=False)

    def stop_now(self) -> None:
        """Stop a running replay and wait for its end: the application is about to leave."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def _start(self, screen: TraceScreen, options: ReplayOptions) -> None:
        self._refuse_second()
        if self._choice is None:
            raise UsageError("No engine was chosen; start cachetrace tui with --engine and --model.")
        from replay.child_run import ReplayChild

        self._screen, self._arms_before, self._stopping = screen, len(screen.model.arms), False
        self._child = ReplayChild(screen.model.file, self._choice, options)
        self._timer = self._app.set_interval(_POLL_S, self._poll)
        self._show("starting the engine")

    def _refuse_second(self) -> None:
        if self._child is not None:
            raise UsageError("A replay is running already; Esc stops it.")

    def _poll(self) -> None:
        child, screen = self._child, self._screen
        if child is None or screen is None:
            return
        outcome = child.outcome()
        for event in child.events():
            text = words_of(event)
            if text and not self._stopping:
                self._show(text)
        if screen.is_attached and screen.model.refresh():
            self._follow(screen)
        if outcome is not None:
            child.stop()  # it has ended: this only lets go of its pipes
            self._ended(outcome, screen)

    def _follow(self, screen: TraceScreen) -> None:
        """Look at the new arm as soon as it is in the file, at the same place."""
        if len(screen.model.arms) > self._arms_before:
            self._arms_before = len(screen.model.arms)
            screen.cursor = replace(screen.cursor, arm=len(screen.model.arms) - 1)
        screen.reload()

    def _ended(self, outcome: ChildOutcome, screen: TraceScreen) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._child = None
        self._show("")
        from replay.child_run import Ending

        if outcome.ending is Ending.DONE:
            reason = self._why_incomplete(screen)
            said = (
                f"the replay failed: {reason}" if reason else "the replay is done; a looks at the other arms"
            )
            self._say(said, wrong=bool(reason))
            return
        last = f" Its last words: {outcome.log[-1]}" if outcome.ending is Ending.DIED and outcome.log else ""
        self._say(
            clean(f"{outcome.ending}: {outcome.sentence}{last}"), wrong=outcome.ending is not Ending.STOPPED
        )

    def _why_incomplete(self, screen: TraceScreen) -> str:
        """Why the newest arm did not reach its end: an engine that dies ends the arm, not the child."""
        end = screen.model.trace.end(len(screen.model.arms) - 1) if screen.is_attached else None
        return "" if end is None or end.completed else end.reason or "the arm ended early"

    def _show(self, text: str) -> None:
        if self._screen is not None and self._screen.is_attached:
            self._screen.activity = clean(text)
            self._screen.refresh_panes()

    def _say(self, text: str, *, wrong: bool = False) -> None:
        self._app.notify(clean(text), severity="error" if wrong else "information", timeout=8, markup=False)


def options_like(arm: Arm, requests: int) -> ReplayOptions:
    """One more run of an arm, up to a request. What cannot be replayed as it was becomes fixed and warm."""
    from replay.arm_schedule import ReplayOptions

    state = arm.state if arm.state in STATES else CacheState.WARM
    own = arm.priming in _FILLED_BY_SERVING and arm.priming is not default_priming(state)
    return ReplayOptions(
        states=(state,),
        primings=(arm.priming,) if own else (),
        way=arm.way if arm.way in _FOLLOWING else Way.FIXED,
        repeats=1,
        again=True,
        requests=requests,
    )


def words_of(event: ChildEvent) -> str:
    """What an event says in the status line; "" for nothing new."""
    if event.kind == "arm_started":
        return f"replaying {event.label}"
    if event.kind == "request_started":
        return f"request {event.request}: {event.prompt_tokens} prompt tokens"
    if event.kind == "prompt_progress" and event.total:
        return f"prompt {event.done}/{event.total}"
    if event.kind == "note":
        return event.sentence or ""
    return ""
