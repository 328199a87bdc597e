"""The traces of ``cachetrace isolate``: one file an experiment, its requests are independent items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from replay.divergence.readable import ReadableTrace
from replay.isolate.cells import cell, experiment_of, items_of
from replay.isolate.experiments import PASS_ORDERS, Experiment, setting
from replay.verdicts import ArmAssessment, ArmStatus
from tracer.episode import Arm, CacheState

_SOUND = (ArmStatus.VERIFIED, ArmStatus.VACUOUS)
"""In these experiments a cell without any cache hit is the condition that is compared with."""

Differs = Mapping[int, bool]
"""Item → whether its answers differ; items of which that is not known are left out."""


class ItemContrast(Struct, frozen=True, kw_only=True):
    """Two conditions over the same items."""

    experiment: str
    first: str
    second: str
    pairs: tuple[tuple[bool, bool], ...]
    before: str = ""
    """What a sentence about it says first."""


class ExperimentItems(Struct, frozen=True, kw_only=True):
    """What one file of ``isolate`` says; ``why_not`` names what keeps a part of it from counting."""

    experiment: str
    contrasts: tuple[ItemContrast, ...]
    why_not: tuple[str, ...] = ()


def experiment_items(
    trace: ReadableTrace, assessments: Sequence[ArmAssessment], damaged: Mapping[int, str]
) -> ExperimentItems | None:
    """The contrasts of an experiment's trace; None for an ordinary trace."""
    experiment = experiment_of(trace)
    if experiment is None:
        return None
    bad = {
        a.arm: f"{trace.arms[a.arm].note}: {trace.arms[a.arm].label} is {a.status} ({a.reason})"
        for a in assessments
        if a.status not in _SOUND
    } | dict(damaged)
    read = _Reader(trace, bad)
    contrasts = tuple(_CONTRASTS[experiment](read))
    return ExperimentItems(experiment=str(experiment), contrasts=contrasts, why_not=tuple(bad.values()))


class _Reader:
    """Item verdicts of two arms, unless one of them does not count."""

    def __init__(self, trace: ReadableTrace, bad: Mapping[int, str]) -> None:
        self._trace, self._bad = trace, bad

    def arms(self, note: str, *states: CacheState) -> list[Arm]:
        return [arm for arm in cell(self._trace, note) if not states or arm.state in states]

    def differs(self, a: Arm, b: Arm, *, only_manipulated: bool = False) -> Differs:
        if a.index in self._bad or b.index in self._bad:
            return {}
        return {
            v.item: v.differs
            for v in items_of(self._trace, a.index, b.index)
            if v.differs is not None and not (only_manipulated and v.manipulated is False)
        }


_CACHED = (CacheState.WARM, CacheState.NO_PROMPT_CACHE)


def _second_layer(read: _Reader) -> Iterator[ItemContrast]:
    found = {}
    for on in (False, True):
        arms = read.arms(setting(on))
        found[on] = read.differs(arms[0], arms[1]) if len(arms) == 2 else {}
    yield from _contrast(
        "second layer, run to run", ("second layer off", found[False]), ("second layer on", found[True])
    )


def _pass_order(read: _Reader) -> Iterator[ItemContrast]:
    last: dict[bool, Differs] = {}
    for on in (False, True):
        cached = {order: read.arms(f"{setting(on)}; {order}", *_CACHED) for order in PASS_ORDERS}
        if any(len(arms) != 2 for arms in cached.values()):
            continue
        apart, adjacent = (cached[order] for order in PASS_ORDERS)
        yield from _contrast(
            f"order of passes, {setting(on)}",
            ("cached passes adjacent", read.differs(*adjacent)),
            ("a recompute pass between", read.differs(*apart)),
        )
        last[on] = read.differs(apart[1], adjacent[1])
    if len(last) == 2:
        yield from _contrast(
            "last cached pass of one order against that of the other",
            ("second layer off", last[False]),
            ("second layer on", last[True]),
        )


def _item_order(read: _Reader) -> Iterator[ItemContrast]:
    for on in (False, True):
        forward, reverse = read.arms(f"{setting(on)}; forward"), read.arms(f"{setting(on)}; reverse")
        if len(forward) == 2 and len(reverse) == 1:
            yield from _contrast(
                f"order of items, {setting(on)}",
                ("same order again", read.differs(*forward)),
                ("reverse order", read.differs(forward[0], reverse[0])),
            )


def _restored(read: _Reader) -> Iterator[ItemContrast]:
    snapshot, cold = read.arms("restored", CacheState.SNAPSHOT), read.arms("restored", CacheState.COLD)
    if len(snapshot) != 2 or len(cold) != 2:
        return
    recompute = read.differs(*cold)
    between = read.differs(cold[0], snapshot[0], only_manipulated=True)
    repeats = sum(not recompute[item] for item in between if item in recompute)
    yield from _contrast(
        "restored state",
        ("restored against itself", read.differs(*snapshot)),
        ("restored against recompute", between),
        before=f"The recompute path repeats itself on {repeats} of {len(between)}; ",
    )


_CONTRASTS = {
    Experiment.SECOND_LAYER: _second_layer,
    Experiment.PASS_ORDER: _pass_order,
    Experiment.ITEM_ORDER: _item_order,
    Experiment.RESTORED: _restored,
}


def _contrast(
    experiment: str, first: tuple[str, Differs], second: tuple[str, Differs], before: str = ""
) -> Iterator[ItemContrast]:
    common = [item for item in first[1] if item in second[1]]
    if common:
        yield ItemContrast(
            experiment=experiment,
            first=first[0],
            second=second[0],
            pairs=tuple((first[1][item], second[1][item]) for item in common),
            before=before,
        )
