"""An open trace as the panes need it: the reader, analyses by baseline, pairs of arms."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from replay.divergence import (
    DEFAULT_NEAR_TIE,
    Detail,
    PositionDrift,
    RequestCache,
    analyse,
    cache_timeline,
    compare_arms,
    position_drift,
)
from replay.divergence.views import arm_margins
from replay.verdicts import ArmAssessment, Comparison, EpisodeAnalysis, RequestVerdict
from stats.report.held_trace import HeldTrace
from tracer.columns import Alternatives, PathColumns
from tracer.episode import Arm, Request
from tracer.tracefile import TraceReader
from tui.token_text import token_text
from tui.view_model import ArmName, Cursor

_T = TypeVar("_T")
_DRIFTS_HELD = 64
_LISTS_HELD = 8
_TOKENS_READ_WHOLE = 20_000
"""Output tokens up to which the first analysis reads all top-k lists; beyond it that would be waited for."""


class ArmPair(Struct, frozen=True):
    """Baseline and arm as they are really held against each other (repeat i with repeat i)."""

    a: int
    b: int | None
    verdicts: dict[int, RequestVerdict]
    """By the request's own number; empty when nothing was compared."""
    refused: tuple[str, ...] = ()
    """Why the comparison was refused."""
    within_arm: bool = False


class TraceModel:
    """Reads a trace and keeps what was computed from it until the file changes."""

    def __init__(self, trace: TraceReader, *, near_tie: float = DEFAULT_NEAR_TIE) -> None:
        self.trace = trace
        self._held = HeldTrace(trace)
        self._listed: dict[tuple[int, int], Alternatives | None] = {}
        self.near_tie = near_tie
        self._analyses: dict[int | None, EpisodeAnalysis] = {}
        self._pairs: dict[tuple[int | None, int | None], ArmPair] = {}
        self._drifts: dict[tuple[int, int, int], PositionDrift] = {}
        self._timelines: dict[int, tuple[RequestCache, ...]] = {}
        self._texts: dict[int, str] = {}
        self._kept: dict[Hashable, Any] = {}

    @classmethod
    def open(cls, path: Path, *, near_tie: float = DEFAULT_NEAR_TIE) -> TraceModel:
        """Open a file; ``TraceFormatError`` when it is no trace."""
        return cls(TraceReader.open(path), near_tie=near_tie)

    def close(self) -> None:
        """Close the file."""
        self.trace.close()

    @property
    def file(self) -> Path:
        return self.trace.path_of_file

    @property
    def arms(self) -> tuple[Arm, ...]:
        return self.trace.arms

    def refresh(self) -> bool:
        """Read what was written since; True when anything changed."""
        if not self.trace.refresh():
            return False
        self._analyses.clear()
        self._pairs.clear()
        self._drifts.clear()
        self._timelines.clear()
        self._listed.clear()
        self._held = HeldTrace(self.trace)
        self._texts.clear()
        self._kept.clear()
        return True

    def analysis(self, baseline: int | None = None) -> EpisodeAnalysis:
        """What ``replay`` says about this trace with this baseline; None = its own choice."""
        if baseline not in self._analyses:
            tokens = sum(r.output_tokens for arm in self.arms for r in self.requests(arm.index))
            detail = Detail.ALTERNATIVES if tokens <= _TOKENS_READ_WHOLE else Detail.PATH
            self._analyses[baseline] = analyse(
                self._held, baseline=baseline, near_tie=self.near_tie, detail=detail
            )
        return self._analyses[baseline]

    def baseline(self, cursor: Cursor) -> int | None:
        """The arm that stands above: the user's choice, else the analysis'."""
        return cursor.baseline if cursor.baseline is not None else self.analysis().baseline

    def pair(self, cursor: Cursor) -> ArmPair:
        """What is held against what at this cursor."""
        key = (cursor.baseline, cursor.arm)
        if key not in self._pairs:
            self._pairs[key] = self._find_pair(cursor)
        return self._pairs[key]

    def comparison_of(self, cursor: Cursor, arm: int) -> Comparison | None:
        """The comparison of any arm at this cursor's baseline, as the analysis holds it."""
        analysis = self.analysis(cursor.baseline)
        everything = (*analysis.comparisons, *analysis.controls)
        return next((c for c in everything if c.arm == arm), None)

    def assessment(self, arm: int) -> ArmAssessment:
        """Whether an arm's state was what it claims."""
        return self.analysis().assessments[arm]

    def requests(self, arm: int) -> Sequence[Request]:
        return self.trace.requests(arm)

    def request(self, arm: int | None, index: int) -> Request | None:
        """One request of an arm; None where that arm has none."""
        if arm is None:
            return None
        requests = self.trace.requests(arm)
        return requests[index] if 0 <= index < len(requests) else None

    def drift(self, pair: ArmPair, index: int) -> PositionDrift | None:
        """Drift and margins by position of one request; None where it cannot be compared."""
        if pair.b is None or self.request(pair.a, index) is None or self.request(pair.b, index) is None:
            return None
        key = (pair.a, pair.b, index)
        if key not in self._drifts:
            if len(self._drifts) >= _DRIFTS_HELD:
                self._drifts.clear()
            self._drifts[key] = position_drift(self._held, *key)
        return self._drifts[key]

    def path(self, arm: int, index: int) -> PathColumns:
        """The chosen path of a request, as the analysis has read it already."""
        return self._held.path(arm, index)

    def alternatives(self, arm: int, index: int) -> Alternatives | None:
        """The top-k of a request; the last few stay in memory, since every key asks again."""
        key = (arm, index)
        if key not in self._listed:
            while len(self._listed) >= _LISTS_HELD:
                del self._listed[next(iter(self._listed))]
            self._listed[key] = self.trace.alternatives(arm, index)
        return self._listed[key]

    def margins(self, arm: int, index: int) -> NDArray[np.float64]:
        """float64[n]: one arm's margins in one request; empty where it has no such request."""
        if self.request(arm, index) is None:
            return np.empty(0)
        return arm_margins(self._held, arm, index)

    def timeline(self, arm: int) -> tuple[RequestCache, ...]:
        """Which stretches of an arm's prompts came from a cache."""
        if arm not in self._timelines:
            self._timelines[arm] = cache_timeline(self._held, arm)
        return self._timelines[arm]

    def kept(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """What ``make`` made for this key, until the file changes."""
        if key not in self._kept:
            self._kept[key] = make()
        found: _T = self._kept[key]
        return found

    def text(self, token_id: int) -> str:
        """The token as it may be drawn."""
        found = self._texts.get(token_id)
        if found is None:
            found = self._texts[token_id] = token_text(self.trace.piece(token_id), token_id)
        return found

    def names(self, cursor: Cursor) -> tuple[ArmName, ...]:
        """All arms, marked with what they are at this cursor."""
        pair = self.pair(cursor)
        labels = unique_labels(self.arms)
        return tuple(
            ArmName(
                arm.index,
                labels[arm.index],
                baseline=arm.index == pair.a,
                chosen=arm.index == pair.b,
                control=bool(arm.repeat or arm.pass_index) and arm.index not in (pair.a, pair.b),
            )
            for arm in self.arms
        )

    def label(self, arm: int) -> str:
        """An arm's label, made unique among the arms of this trace."""
        return unique_labels(self.arms)[arm]

    def start(self, arm: int | None, baseline: int | None) -> Cursor:
        """The first cursor: an arm that flipped at its first flip, else where one drifted most."""
        cursor = Cursor(arm=arm, baseline=baseline)
        if not self.arms:
            return cursor
        if arm is None:
            analysis = self.analysis(baseline)
            found = sorted((*analysis.comparisons, *analysis.controls), key=_interest, reverse=True)
            cursor = replace(cursor, arm=found[0].arm if found else None)
        verdicts = self.pair(cursor).verdicts.values()
        flipped = next((v for v in verdicts if v.flip is not None), None)
        if flipped is not None and flipped.flip is not None:
            return replace(cursor, request=flipped.request, position=flipped.flip.position)
        drifted = max(verdicts, key=lambda v: v.max_drift or 0.0, default=None)
        if drifted is not None and drifted.max_drift:
            return replace(cursor, request=drifted.request, position=drifted.first_drift or 0)
        return cursor

    def _find_pair(self, cursor: Cursor) -> ArmPair:
        baseline = self.baseline(cursor)
        if baseline is None:
            baseline = 0
        if cursor.arm is None or cursor.arm == baseline:
            return ArmPair(baseline, None, {})
        found = self.comparison_of(cursor, cursor.arm)
        if found is None or cursor.baseline not in (None, found.baseline):
            # The user's own baseline is taken by its word, where the analysis pairs repeat i with repeat i.
            found = compare_arms(self._held, baseline, cursor.arm, near_tie=self.near_tie)
        verdicts = {v.request: v for v in found.requests}
        refused = found.mismatches if found.refused else ()
        return ArmPair(found.baseline, found.arm, verdicts, refused, found.within_arm)


def _interest(comparison: Comparison) -> tuple[bool, bool, bool, bool]:
    """What a user wants to see first: flips, those that the cache explains, then drift, then the rest."""
    verdicts = comparison.requests
    return (
        comparison.first_flip is not None,
        any(v.attributable and v.flip is not None for v in verdicts),
        any(v.attributable for v in verdicts),
        bool(verdicts) and not comparison.within_arm,
    )


def unique_labels(arms: Sequence[Arm]) -> dict[int, str]:
    """Labels by arm; where two arms bear the same one, the number tells them apart."""
    labels = [arm.label for arm in arms]
    return {
        arm.index: label if labels.count(label) == 1 else f"{label} ({arm.index})"
        for arm, label in zip(arms, labels, strict=True)
    }
