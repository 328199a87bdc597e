"""Which two arms answer which question of an experiment, and on how many items they differ.

Plain counts only; intervals, paired differences and sentences with them are ``stats``' work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replay.divergence.readable import ReadableTrace
from replay.isolate.cells import ItemVerdict, cell, experiment_of, items_of
from replay.isolate.experiments import CACHED, PASS_ORDERS, Experiment, setting
from replay.verdicts import Verdict
from tracer.errors import UsageError


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """All items of two arms, and what the pair stands for."""

    experiment: Experiment
    setting: str
    """The cell, or what both cells have in common: ``second layer on``, ``restored``."""
    question: str
    """For instance ``second pass against first``."""
    within_arm: bool
    """The two arms should be equal: a control, or run to run."""
    a: int
    b: int
    items: tuple[ItemVerdict, ...]

    @property
    def counted(self) -> tuple[ItemVerdict, ...]:
        """Items whose answers both arms gave. Cross-arm: only those that a cache served in part."""
        answered = (item for item in self.items if item.differs is not None)
        return tuple(item for item in answered if self.within_arm or item.manipulated)

    @property
    def differ(self) -> int:
        """Counted items whose answers have other tokens."""
        return sum(1 for item in self.counted if item.differs)

    @property
    def moved(self) -> int:
        """Counted items with other tokens or other numbers."""
        return sum(1 for item in self.counted if item.verdict.verdict in (Verdict.FLIPPED, Verdict.DRIFTED))

    @property
    def sentence(self) -> str:
        """The counts in words."""
        return (
            f"{self.setting}: {self.question}: {self.differ} of {len(self.counted)} items differ, "
            f"{self.moved} have other numbers"
        )


def outcomes(trace: ReadableTrace) -> tuple[PairOutcome, ...]:
    """Every pair of an experiment's trace. Raises ``UsageError`` when it is none, or not finished."""
    experiment = experiment_of(trace)
    if experiment is None:
        raise UsageError("this trace holds no isolating experiment; make one with `cachetrace isolate`.")
    find = {
        Experiment.SECOND_LAYER: _second_layer,
        Experiment.PASS_ORDER: _pass_order,
        Experiment.ITEM_ORDER: _item_order,
        Experiment.RESTORED: _restored,
    }[experiment]
    return tuple(
        PairOutcome(experiment, name, question, within_arm, a, b, items_of(trace, a, b))
        for name, question, within_arm, a, b in find(trace)
    )


_Pair = tuple[str, str, bool, int, int]


def _arms(trace: ReadableTrace, note: str, wanted: int) -> list[int]:
    found = [arm.index for arm in cell(trace, note)]
    if len(found) != wanted:
        raise UsageError(f"the cell {note!r} has {len(found)} of {wanted} arms; run the experiment again.")
    return found


def _second_layer(trace: ReadableTrace) -> Iterator[_Pair]:
    for on in (True, False):
        first, second = _arms(trace, setting(on), 2)
        yield setting(on), "second pass against first", True, first, second


def _pass_order(trace: ReadableTrace) -> Iterator[_Pair]:
    for on in (True, False):
        last_cached = []
        for order in PASS_ORDERS:
            note = f"{setting(on)}; {order}"
            arms = _arms(trace, note, len(order))
            first, last = (arms[i] for i, kind in enumerate(order) if kind == CACHED)
            cold, cold_again = (arms[i] for i, kind in enumerate(order) if kind != CACHED)
            last_cached.append(last)
            yield note, "second cached pass against first", True, first, last
            yield note, "second recomputing pass against first", True, cold, cold_again
        one, other = last_cached
        yield setting(on), f"last cached pass, {' against '.join(PASS_ORDERS)}", False, one, other


def _item_order(trace: ReadableTrace) -> Iterator[_Pair]:
    for on in (True, False):
        forward, again = _arms(trace, f"{setting(on)}; forward", 2)
        (reverse,) = _arms(trace, f"{setting(on)}; reverse", 1)
        yield setting(on), "forward again against forward", True, forward, again
        yield setting(on), "reverse against forward", False, forward, reverse


def _restored(trace: ReadableTrace) -> Iterator[_Pair]:
    _, restored, restored_again, cold, cold_again = _arms(trace, "restored", 5)
    yield "restored", "restored again against restored", True, restored, restored_again
    yield "restored", "recomputed again against recomputed", True, cold, cold_again
    yield "restored", "restored against recomputed", False, cold, restored
