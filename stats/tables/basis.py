"""What tables say of their basis: how caches were kept, what n counts, what verdicts rest on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from replay.verdicts import RequestVerdict
from stats.report.series import Control
from tracer.episode import Carry

_CARRY = {
    Carry.EMPTIED: "caches emptied before every episode",
    Carry.CARRIED_OVER: "caches carried over from episode to episode in execution order",
    Carry.SENTINEL: "caches overwritten by a fixed request (sentinel) before every episode",
}
_CONTROL = {
    Control.REPEATS: "within-arm by repeats, each from a fresh start",
    Control.PASSES: "within-arm by passes without emptying in between (run to run)",
    Control.NONE: "no arm was repeated",
}


def basis(
    carries: Iterable[Carry], controls: Iterable[Control] = (), counts: str = "n counts episodes"
) -> str:
    """For instance: "Emptied …; within-arm by repeats …; n counts episodes."."""
    parts = [_CARRY[carry] for carry in dict.fromkeys(carries)] or ["no episode"]
    parts += [_CONTROL[control] for control in dict.fromkeys(controls)]
    said = "; ".join([*parts, counts])
    return said[0].upper() + said[1:] + "."


def carry_word(carry: Carry) -> str:
    """One word for a column."""
    return {Carry.EMPTIED: "emptied", Carry.CARRIED_OVER: "carried over", Carry.SENTINEL: "sentinel"}[carry]


def by_evidence(requests: Iterable[RequestVerdict]) -> str | None:
    """What the verdicts rest on, with how many of them, e.g. "row 58, top-k 2"; None when on nothing."""
    counts = Counter(str(request.evidence) for request in requests if request.evidence)
    return ", ".join(f"{name} {n}" for name, n in counts.most_common()) or None
