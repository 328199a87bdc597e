"""Read the arms of an experiment back: which cell is which, and the verdict of each item of two arms."""

from __future__ import annotations

from dataclasses import dataclass

from replay.divergence.readable import ReadableTrace, Side
from replay.divergence.request_verdict import Detail, RequestPair, judge
from replay.isolate.experiments import Experiment
from replay.verdicts import RequestVerdict, Verdict
from tracer.episode import Arm
from tracer.errors import UsageError


@dataclass(frozen=True, slots=True)
class ItemVerdict:
    """One item in two arms."""

    item: int
    verdict: RequestVerdict

    @property
    def manipulated(self) -> bool | None:
        """Whether a cache served part of its prompt in at least one arm; None = not observed."""
        both = [
            exposure.cached_tokens
            for exposure in (self.verdict.exposure_a, self.verdict.exposure_b)
            if exposure is not None and exposure.cached_tokens is not None
        ]
        if any(both):
            return True
        return False if len(both) == 2 else None

    @property
    def differs(self) -> bool | None:
        """Whether the answers have other tokens; None when one failed or was cut off."""
        if self.verdict.verdict in (Verdict.FAILED, Verdict.INCOMPLETE, Verdict.PROMPT_CHANGED):
            return None
        return self.verdict.verdict is Verdict.FLIPPED


def experiment_of(trace: ReadableTrace) -> Experiment | None:
    """The experiment that a trace holds, None when it is an ordinary one."""
    try:
        return Experiment(trace.episode.notes.get("experiment", ""))
    except ValueError:
        return None


def cell(trace: ReadableTrace, note: str) -> tuple[Arm, ...]:
    """The arms of one cell in the order in which they were served."""
    return tuple(arm for arm in trace.arms if arm.note == note)


def items_of(trace: ReadableTrace, a: int, b: int, detail: Detail = Detail.PATH) -> tuple[ItemVerdict, ...]:
    """Every item in arm ``a`` and arm ``b``, by item number, whatever the order in which they were served.

    Raises ``UsageError`` when the two arms did not serve the same items.
    """
    ours = {request.turn: request for request in trace.requests(a)}
    theirs = {request.turn: request for request in trace.requests(b)}
    if ours.keys() != theirs.keys():
        raise UsageError(f"arms {a} and {b} did not serve the same items.")
    sides = Side(trace, a), Side(trace, b)
    return tuple(
        ItemVerdict(
            item,
            judge(RequestPair(*sides, ours[item], theirs[item]), flipped_before=False, detail=detail).verdict,
        )
        for item in sorted(ours)
    )
