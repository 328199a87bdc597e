"""The grid (the paper's Table 2): each configuration against recompute and against itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stats.medians import median_with_interval
from stats.report.configuration import Key
from stats.report.first_difference import first_difference
from stats.report.series import Series
from stats.tables.basis import basis, carry_word
from stats.tables.rates import episode_rate_interval, pair_label
from stats.tables.table import Cell, Column, Table
from tracer.episode import CacheState

FEWEST_EPISODES = 2


def grid_table(series: Sequence[Series], names: Mapping[Key, str]) -> Table | None:
    """One row a configuration and pair with a cold baseline; None below two counted episodes."""
    shown = [
        one
        for one in series
        if one.key.baseline_state is CacheState.COLD and len(one.counted) >= FEWEST_EPISODES
    ]
    if not shown:
        return None
    return Table(
        name="grid",
        title="Grid: cache against recompute, and each against itself",
        columns=(
            Column(key="configuration", title="configuration", common=True),
            Column(key="workload", title="workload", common=True),
            Column(key="pair", title="arms"),
            Column(key="episodes", title="n", kind="count", unit="episodes"),
            Column(key="cross", title="on vs off", kind="count", unit="episodes"),
            Column(key="cross_rate", title="rate", kind="share"),
            Column(key="cross_interval", title="95 %", kind="share_interval"),
            Column(key="on", title="on vs on", kind="count", unit="episodes"),
            Column(key="on_rate", title="on vs on, rate", kind="share"),
            Column(key="off", title="off vs off", kind="count", unit="episodes"),
            Column(key="off_interval", title="off vs off, 95 %", kind="share_interval"),
            Column(key="median_request", title="median first request", kind="number"),
            Column(key="median_request_interval", title="95 % (request)", kind="interval"),
            Column(key="median_token", title="median first token", kind="number"),
            Column(key="median_token_interval", title="95 % (token)", kind="interval"),
            Column(key="by_prompt", title="by prompt only", kind="count", unit="episodes", quiet=True),
            Column(key="kept", title="caches", common=True),
            Column(key="control", title="control", common=True),
        ),
        rows=tuple(_row(one, names) for one in shown),
        basis=basis((s.key.carry for s in shown), (s.key.control for s in shown)),
        notes=(
            "Requests and tokens count from 0; medians are over the episodes that differ, their intervals "
            "from a bootstrap over those episodes (2000 resamples, seed 20261007).",
        ),
    )


def _row(one: Series, names: Mapping[Key, str]) -> tuple[Cell, ...]:
    pairs = one.counted
    n = len(pairs)
    cross = [bool(pair.differs) for pair in pairs]
    on = sum(bool(p.within_arm and p.within_arm.differs) for p in pairs)
    off = [bool(p.within_baseline and p.within_baseline.differs) for p in pairs]
    firsts = [first_difference(pair.comparison) for pair in pairs if pair.differs]
    request = median_with_interval([f.request if f else None for f in firsts])
    token = median_with_interval([f.token if f else None for f in firsts])
    return (
        names[one.key.configuration],
        one.key.workload,
        pair_label(one),
        n,
        sum(cross),
        sum(cross) / n,
        episode_rate_interval(cross, one.key.carry),
        on,
        on / n,
        sum(off),
        episode_rate_interval(off, one.key.carry),
        request.value if request else None,
        request.interval if request else None,
        token.value if token else None,
        token.interval if token else None,
        sum(f is not None and f.token is None for f in firsts),
        carry_word(one.key.carry),
        str(one.key.control),
    )
