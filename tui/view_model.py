"""What the widgets are given: frozen records with everything already looked up.

Text in here is still hostile; widgets put it through ``tui.token_text`` when they draw it.
``None`` (or NaN in an array) means NOT OBSERVED and is drawn as "–". Structs and not dataclasses,
because making thirty dataclasses takes a tenth of the time that the first paint may take.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag, StrEnum
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from replay.divergence import PromptStretch
from replay.verdicts import ArmStatus, Verdict
from tracer.exposure import ExposureVerdict


class Mark(IntFlag):
    """What is to be seen at one output position. Drawn as a sign and, with colour, a style."""

    FLIP = 1
    AFTER = 2
    NEAR_TIE = 4
    EXACT_TIE = 8
    FORCED = 16
    UNOBSERVED = 32


class Filter(StrEnum):
    """Which requests are listed."""

    ALL = "all"
    FLIPPED = "flipped"
    DRIFTED = "drifted"
    CACHE_MISS = "cache miss"


class Cursor(Struct, frozen=True):
    """Where the user is. The only thing of the screen that moves."""

    request: int = 0
    position: int = 0
    arm: int | None = None
    """The arm that is held against the baseline; None = the trace has one arm only."""
    baseline: int | None = None
    ids: bool = False
    """Tokens are shown as ids."""
    filter: Filter = Filter.ALL


class ArmCell(Struct, frozen=True):
    """One arm in one row of the requests pane."""

    arm: int
    verdict: Verdict | None
    """None for the baseline itself, and where nothing was compared."""
    cached_tokens: int | None
    prompt_tokens: int | None
    exposure: ExposureVerdict | None = None

    @property
    def fraction(self) -> float | None:
        """Part of the prompt that came from a cache; None = not observed."""
        if self.cached_tokens is None or not self.prompt_tokens:
            return None
        return self.cached_tokens / self.prompt_tokens


class RequestRow(Struct, frozen=True):
    """One row of the requests pane. Flip, margin and exposure are those of the chosen arm."""

    index: int
    turn: int
    step: int
    did: str
    prompt_tokens: int | None
    cells: tuple[ArmCell, ...]
    verdict: Verdict | None
    flip_position: int | None
    margin: float | None
    cached_tokens: int | None = None
    drift: float | None = None
    """Largest drift in this request."""
    drift_at_least: bool = False
    """It is that of the chosen token alone, which the drift over the lists is never below."""


class ArmName(Struct, frozen=True):
    """An arm as the panes name it."""

    index: int
    label: str
    baseline: bool = False
    chosen: bool = False
    control: bool = False
    """A repeat or pass of another arm, neither chosen nor baseline: it is shown where there is room."""


class RequestsView(Struct, frozen=True):
    """The requests pane."""

    arms: tuple[ArmName, ...]
    rows: tuple[RequestRow, ...]
    filter: Filter
    of: int
    """Number of requests before the filter."""


class StreamRequest(Struct, frozen=True):
    """One request of the token stream, in both arms; ids are int32[n]."""

    index: int
    heading: str
    a_ids: NDArray[np.int32]
    b_ids: NDArray[np.int32] | None
    verdict: Verdict | None
    flip: int | None
    a_next: tuple[str, ...] = ()
    """What the agent did after it in the baseline: tool calls and results, one line each."""
    b_next: tuple[str, ...] = ()
    a_note: str = ""
    b_note: str = ""

    @property
    def positions(self) -> int:
        """Positions of the longer arm."""
        return max(len(self.a_ids), 0 if self.b_ids is None else len(self.b_ids))


class Stream(Protocol):
    """Both arms' tokens of a whole episode, read as they are needed."""

    @property
    def label_a(self) -> str: ...

    @property
    def label_b(self) -> str | None: ...

    @property
    def requests(self) -> Sequence[StreamRequest]: ...

    def marks(self, request: int) -> NDArray[np.uint8]:
        """uint8[positions] of Mark for the request at this place of ``requests``."""
        ...

    def text(self, token_id: int) -> str:
        """The token as it may be drawn, never empty."""
        ...


class TopKRow(Struct, frozen=True):
    """One token of the two top-k lists; values are on the request's scale."""

    token_id: int
    text: str
    a: float | None
    b: float | None
    change: float | None
    chosen_a: bool = False
    chosen_b: bool = False


class TopKView(Struct, frozen=True):
    """The top-k pane for the token under the cursor."""

    request: int
    position: int
    label_a: str
    label_b: str | None
    rows: tuple[TopKRow, ...] = ()
    scale: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    """Margins, drift, ranks, bit identity: name and value, ready to be read."""
    sentence: str = ""
    note: str = ""
    """Why there is nothing to show, or what a reader has to know about it."""


class DriftView(Struct, frozen=True):
    """The drift pane: one request. Arrays are float64[n], NaN where not observed."""

    request: int
    drift: NDArray[np.float64]
    margin: NDArray[np.float64]
    flip: int | None
    position: int
    label_a: str
    label_b: str | None
    note: str = ""


class CacheRow(Struct, frozen=True):
    """One request of one arm in the cache timeline."""

    request: int
    arm: int
    prompt_tokens: int | None
    stretches: tuple[PromptStretch, ...]
    cached_tokens: int | None = None
    expected_tokens: int | None = None
    verdict: ExposureVerdict | None = None
    broke_at: int | None = None
    broke_text: str = ""


class CacheView(Struct, frozen=True):
    """The cache timeline: rows by request, then by arm."""

    arms: tuple[ArmName, ...]
    rows: tuple[CacheRow, ...]
    request: int
    longest: int
    """Tokens of the longest prompt: the width of the scale."""


class ArmRow(Struct, frozen=True):
    """One arm in the arms pane."""

    name: ArmName
    status: ArmStatus | None
    facts: tuple[str, ...]
    reason: str = ""


class ArmsView(Struct, frozen=True):
    """The arms pane: what each arm is, and the rates as the report prints them."""

    arms: tuple[ArmRow, ...]
    rates: tuple[tuple[str, ...], ...] = ()
    """First row = headings. Cells are text as ``report`` gives it."""
    notes: tuple[str, ...] = ()


class FlipCard(Struct, frozen=True):
    """All about one flip, as sections of (name, value) lines."""

    title: str
    sentence: str
    sections: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    note: str = ""


class PromptView(Struct, frozen=True):
    """The prompt of one request in one arm. token_ids is int32[n], None = not observed."""

    request: int
    label: str
    token_ids: NDArray[np.int32] | None
    stretches: tuple[PromptStretch, ...]
    broke_at: int | None
    note: str = ""


class Advice(Struct, frozen=True):
    """A first-run screen: what this trace is, and what to do next."""

    title: str
    what: tuple[str, ...]
    next_steps: tuple[str, ...] = ()
