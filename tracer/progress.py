"""What a running arm tells the person who waits for it. Goes to stderr only."""

from __future__ import annotations

import shutil
import sys
import time
from typing import IO, Protocol

_REDRAW_S = 0.2
_BAR_CELLS = 24


class ArmProgress(Protocol):
    """What the arm loop reports while it works. Every call is cheap."""

    def arm_started(self, label: str, planned: int | None) -> None:
        """An arm begins; ``planned`` requests will come, None when that depends on the answers."""
        ...

    def request_started(self, index: int, prompt_tokens: int) -> None:
        """Request ``index`` is about to be served."""
        ...

    def prompt_progress(self, done: int, total: int) -> None:
        """``done`` of the ``total`` prompt tokens that must be computed are computed."""
        ...

    def request_ended(self, index: int, cached_tokens: int | None, output_tokens: int) -> None:
        """Request ``index`` was served and written."""
        ...

    def arm_ended(self, label: str, sentence: str) -> None:
        """The arm ended; ``sentence`` says how."""
        ...

    def note(self, sentence: str) -> None:
        """Something that the user should read even without a terminal."""
        ...


class Silent:
    """``--quiet``, and tests."""

    def arm_started(self, label: str, planned: int | None) -> None: ...

    def request_started(self, index: int, prompt_tokens: int) -> None: ...

    def prompt_progress(self, done: int, total: int) -> None: ...

    def request_ended(self, index: int, cached_tokens: int | None, output_tokens: int) -> None: ...

    def arm_ended(self, label: str, sentence: str) -> None: ...

    def note(self, sentence: str) -> None: ...


class PlainLines:
    """One line a request: logs, pipes, CI."""

    def __init__(self, out: IO[str] | None = None) -> None:
        self._out = out or sys.stderr
        self._label = ""
        self._planned: int | None = None
        self._started = time.monotonic()
        self._first_s: float | None = None
        """Seconds of request 0: with a cache it alone computes its whole prompt."""
        self._index = 0
        self._prompt_tokens = 0

    def arm_started(self, label: str, planned: int | None) -> None:
        self._label, self._planned, self._started = label, planned, time.monotonic()
        self._first_s = None

    def request_started(self, index: int, prompt_tokens: int) -> None:
        self._index, self._prompt_tokens = index, prompt_tokens

    def prompt_progress(self, done: int, total: int) -> None: ...

    def request_ended(self, index: int, cached_tokens: int | None, output_tokens: int) -> None:
        left = self._time_left(index + 1)
        counts = self._counts(cached_tokens, output_tokens)
        self.note(f"{self._label}: request {index}{_of(self._planned)}: {counts}{left}")

    def arm_ended(self, label: str, sentence: str) -> None:
        self.note(f"{label}: {sentence} ({time.monotonic() - self._started:.1f} s)")

    def note(self, sentence: str) -> None:
        print(sentence, file=self._out, flush=True)

    def _time_left(self, done: float) -> str:
        """From request 0 only as long as there is no other: the later ones are mostly shorter."""
        elapsed = time.monotonic() - self._started
        if self._first_s is None and done >= 1:
            self._first_s = elapsed
        if self._first_s is None or done < 2 or self._planned is None:
            return time_left(done, self._planned, elapsed)
        return time_left(done - 1, self._planned - 1, elapsed - self._first_s)

    def _counts(self, cached_tokens: int | None, output_tokens: int) -> str:
        cached = "–" if cached_tokens is None else str(cached_tokens)
        return f"{cached} of {self._prompt_tokens} prompt tokens cached, {output_tokens} new"


class TerminalBar(PlainLines):
    """One line that is redrawn, with the time left."""

    def __init__(self, out: IO[str] | None = None) -> None:
        super().__init__(out)
        self._last = ""
        self._last_drawn = 0.0
        self._width = 0

    def request_started(self, index: int, prompt_tokens: int) -> None:
        super().request_started(index, prompt_tokens)
        self._draw(0.0)

    def prompt_progress(self, done: int, total: int) -> None:
        # Prefill is the long part of a request and cannot be interrupted, so it is what the bar shows.
        if time.monotonic() - self._last_drawn > _REDRAW_S:
            self._draw(0.9 * done / total if total else 0.0)

    def request_ended(self, index: int, cached_tokens: int | None, output_tokens: int) -> None:
        self._index = index + 1
        self._last = f"; last: {self._counts(cached_tokens, output_tokens)}"
        self._draw(0.0)

    def note(self, sentence: str) -> None:
        self._clear()
        super().note(sentence)

    def _draw(self, part: float) -> None:
        done = self._index + part
        fraction = min(done / self._planned, 1.0) if self._planned else 0.0
        filled = round(fraction * _BAR_CELLS)
        bar = "█" * filled + "·" * (_BAR_CELLS - filled) if self._planned else ""
        left = self._time_left(done)
        line = f"{self._label} {bar} request {self._index}{_of(self._planned)}{left}{self._last}"
        line = line[: shutil.get_terminal_size().columns - 1]  # a line that wraps cannot be redrawn
        self._out.write("\r" + line.ljust(self._width))
        self._out.flush()
        self._width, self._last_drawn = len(line), time.monotonic()

    def _clear(self) -> None:
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._width = 0


def progress_for(*, quiet: bool) -> ArmProgress:
    """A bar on a terminal, plain lines otherwise, nothing when ``quiet``."""
    if quiet:
        return Silent()
    return TerminalBar() if sys.stderr.isatty() else PlainLines()


def time_left(done: float, planned: int | None, elapsed_s: float) -> str:
    """``, about 12 s left``, or nothing while there is nothing to estimate from."""
    if not planned or done <= 0 or done >= planned:
        return ""
    left = elapsed_s / done * (planned - done)
    if left >= 90:
        return f", about {left / 60:.0f} min left"
    return f", about {left:.0f} s left"


def _of(planned: int | None) -> str:
    return f" of {planned}" if planned else ""
