"""What each experiment serves: cells of arms, in order. Nothing here talks to an engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tracer.episode import CacheState

CACHED, RECOMPUTE = "C", "R"
PASS_ORDERS = ("CRCR", "CCRR")


class Experiment(StrEnum):
    """Names of the experiments; also the names of their files."""

    SECOND_LAYER = "second-layer"
    PASS_ORDER = "pass-order"
    ITEM_ORDER = "item-order"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellArm:
    """One arm of a cell."""

    note: str
    state: CacheState
    repeat: int = 0
    pass_index: int = 0
    second_layer: bool | None = None
    """Hold the layers like this for the whole cell; None = as the state has them."""
    reverse: bool = False
    keeps_states: bool = False

    @property
    def fresh(self) -> bool:
        """The caches are emptied before it."""
        return self.pass_index == 0


def arms_of(experiment: Experiment) -> Iterator[CellArm]:
    """All arms of an experiment in the order in which they are served."""
    if experiment is Experiment.RESTORED:
        yield from _restored()
        return
    for second_layer in (True, False):
        if experiment is Experiment.SECOND_LAYER:
            yield from _second_layer(second_layer)
        elif experiment is Experiment.PASS_ORDER:
            for order in PASS_ORDERS:
                yield from _pass_order(second_layer, order)
        else:
            yield from _item_order(second_layer)


def setting(second_layer: bool) -> str:
    """How a cell's note names its setting."""
    return f"second layer {'on' if second_layer else 'off'}"


def _cached(second_layer: bool) -> CacheState:
    return CacheState.WARM if second_layer else CacheState.NO_PROMPT_CACHE


def _second_layer(second_layer: bool) -> Iterator[CellArm]:
    for index in range(2):
        yield CellArm(
            note=setting(second_layer),
            state=_cached(second_layer),
            pass_index=index,
            second_layer=second_layer,
        )


def _pass_order(second_layer: bool, order: str) -> Iterator[CellArm]:
    for index, kind in enumerate(order):
        yield CellArm(
            note=f"{setting(second_layer)}; {order}",
            state=_cached(second_layer) if kind == CACHED else CacheState.COLD,
            pass_index=index,
            second_layer=second_layer,
        )


def _item_order(second_layer: bool) -> Iterator[CellArm]:
    for order, repeat in (("forward", 0), ("forward", 1), ("reverse", 0)):
        yield CellArm(
            note=f"{setting(second_layer)}; {order}",
            state=_cached(second_layer),
            repeat=repeat,
            second_layer=second_layer,
            reverse=order == "reverse",
        )


def _restored() -> Iterator[CellArm]:
    yield CellArm(note="restored", state=CacheState.WARM, keeps_states=True)
    for state in (CacheState.SNAPSHOT, CacheState.COLD):
        for repeat in range(2):
            yield CellArm(note="restored", state=state, repeat=repeat)
