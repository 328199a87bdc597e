"""Which cache layer does it (the paper's Figure 1): each arm against itself, and on against off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stats.report.configuration import Key
from stats.report.controls import ControlSeries
from stats.report.series import Series
from stats.tables.basis import basis, carry_word
from stats.tables.rates import episode_rate_interval
from stats.tables.table import Cell, Column, Table
from tracer.episode import CacheState

_ORDER = (CacheState.COLD, CacheState.NO_PROMPT_CACHE, CacheState.SNAPSHOT, CacheState.WARM)
_MEANS = {
    CacheState.COLD: "off against off",
    CacheState.NO_PROMPT_CACHE: "on against on, second layer off",
    CacheState.SNAPSHOT: "restored against restored",
    CacheState.WARM: "on against on, as deployed",
    CacheState.AS_SERVED: "as served, against itself",
}


def layers_table(
    series: Sequence[Series], controls: Sequence[ControlSeries], names: Mapping[Key, str]
) -> Table | None:
    """Within-arm rates by cache state, then cross-arm rates; None when nothing counts."""
    rows: list[tuple[Cell, ...]] = []
    within = [c for c in controls if c.counted]
    cross = [s for s in series if s.counted and s.key.baseline_state is CacheState.COLD]
    for key in dict.fromkeys([s.key.configuration for s in cross] + [c.key.configuration for c in within]):
        own = [c for c in within if c.key.configuration == key]
        for control in sorted(own, key=lambda c: _place(c.key.state)):
            differs = [bool(pair.differs) for pair in control.counted]
            rows.append(
                (
                    names[key],
                    control.key.workload,
                    f"{_MEANS[control.key.state]} ({control.key.arm})",
                    _by(control),
                    carry_word(control.key.carry),
                    *_rate(differs),
                    episode_rate_interval(differs, control.key.carry),
                )
            )
        for one in (s for s in cross if s.key.configuration == key):
            differs = [bool(pair.differs) for pair in one.counted]
            rows.append(
                (
                    names[key],
                    one.key.workload,
                    f"on against off ({one.key.arm} vs {one.key.baseline})",
                    "cross-arm",
                    carry_word(one.key.carry),
                    *_rate(differs),
                    episode_rate_interval(differs, one.key.carry),
                )
            )
    if not rows:
        return None
    return Table(
        name="layers",
        title="Cache layers: what differs from what",
        columns=(
            Column(key="configuration", title="configuration", common=True),
            Column(key="workload", title="workload", common=True),
            Column(key="comparison", title="comparison"),
            Column(key="by", title="by"),
            Column(key="kept", title="caches", common=True),
            Column(key="episodes", title="n", kind="count", unit="episodes"),
            Column(key="differ", title="differ", kind="count", unit="episodes"),
            Column(key="rate", title="rate", kind="share"),
            Column(key="interval", title="95 %", kind="share_interval"),
        ),
        rows=tuple(rows),
        basis=basis([*(c.key.carry for c in within), *(s.key.carry for s in cross)]),
        notes=("Repeats start fresh; passes follow each other on the same caches (run to run).",),
    )


def _by(control: ControlSeries) -> str:
    """Repeats, or passes and whether a recompute pass ran between them."""
    between = {None: "", True: ", recompute between", False: ", adjacent"}[control.key.recompute_between]
    return f"{control.key.control}{between}"


def _place(state: CacheState) -> int:
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)


def _rate(differs: Sequence[bool]) -> tuple[int, int, float]:
    return len(differs), sum(differs), sum(differs) / len(differs)
