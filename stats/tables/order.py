"""The order of episodes: how a rate changes along a run, and between runs in other orders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import nan
from statistics import median

from replay.verdicts import Comparison, RequestVerdict
from stats.bootstrap import block_bootstrap
from stats.intervals import Interval
from stats.orders import between_orders, two_way_bootstrap
from stats.position_test import position_test, quartile_counts, slope_along_run
from stats.report.configuration import Key
from stats.report.controls import ControlSeries
from stats.report.series import Series
from stats.tables.basis import basis
from stats.tables.drift import KINDS, drift_columns, stands_under
from stats.tables.rates import episode_rate_interval, pair_label
from stats.tables.table import Cell, Column, Table
from tracer.episode import Carry

FEWEST_EPISODES = 4
"""A run has four quarters."""


def along_run_table(
    series: Sequence[Series], controls: Sequence[ControlSeries], names: Mapping[Key, str]
) -> Table | None:
    """Carried-over runs: quarters in execution order, position test, block length; None without any."""
    rows: list[tuple[Cell, ...]] = []
    for label, differs, comparisons in _carried_over(series, controls, names):
        blocks = block_bootstrap([float(d) for d in differs])
        tested = position_test([float(d) for d in differs])
        rows.append(
            (
                label,
                len(differs),
                sum(differs),
                *quartile_counts(differs),
                tested.p if tested else None,
                blocks.block_length if blocks and blocks.interval else None,
                episode_rate_interval(differs, Carry.CARRIED_OVER),
                *_drift_slopes(comparisons),
            )
        )
    if not rows:
        return None
    return Table(
        name="along_run",
        title="Along the run",
        columns=(
            Column(key="series", title="series", common=True),
            Column(key="episodes", title="n", kind="count", unit="episodes"),
            Column(key="differ", title="differ", kind="count", unit="episodes"),
            *(Column(key=f"quarter_{i}", title=f"quarter {i}", kind="count") for i in (1, 2, 3, 4)),
            Column(key="position_p", title="p, position", kind="p"),
            Column(key="block", title="block", kind="count", unit="episodes"),
            Column(key="interval", title="95 %", kind="share_interval"),
            *drift_columns("drift_slope", "drift per episode"),
        ),
        rows=tuple(rows),
        basis=basis([Carry.CARRIED_OVER]),
        notes=(
            "Position test: 20000 permutations of the execution order, seed 20261007, two-sided. Drift per "
            "episode: least-squares slope of the episodes' median drift over their position.",
        ),
    )


def between_orders_table(series: Sequence[Series], names: Mapping[Key, str]) -> Table | None:
    """Runs of the same episodes in several orders: mean, spread, t interval; None for single runs."""
    groups: dict[tuple[object, ...], list[Series]] = {}
    for one in series:
        if one.counted:
            key = tuple(getattr(one.key, field) for field in one.key.__struct_fields__ if field != "run")
            groups.setdefault(key, []).append(one)
    rows: list[tuple[Cell, ...]] = []
    several = [members for members in groups.values() if len(members) > 1]
    for members in several:
        rates = [sum(bool(p.differs) for p in one.counted) / len(one.counted) for one in members]
        found = between_orders(rates)
        assert found is not None
        label = f"{names[members[0].key.configuration]}: {members[0].key.baseline} vs {members[0].key.arm}"
        rows.append(
            (
                label,
                found.orders,
                len(_common_episodes(members)),
                found.mean,
                found.standard_deviation,
                found.interval,
                _two_way(members),
            )
        )
    if not rows:
        return None
    return Table(
        name="between_orders",
        title="Between runs in different orders",
        columns=(
            Column(key="series", title="series", common=True),
            Column(key="runs", title="runs", kind="count"),
            Column(key="episodes", title="n", kind="count", unit="episodes"),
            Column(key="mean_rate", title="mean rate", kind="share"),
            Column(key="standard_deviation", title="sd between runs", kind="share"),
            Column(key="t_interval", title="95 %, t over runs", kind="share_interval"),
            Column(key="two_way_interval", title="95 %, episodes and runs", kind="share_interval"),
        ),
        rows=tuple(rows),
        basis=basis(
            (s.key.carry for members in several for s in members),
            counts="n counts episodes that count in every run",
        ),
    )


def _carried_over(
    series: Sequence[Series], controls: Sequence[ControlSeries], names: Mapping[Key, str]
) -> Iterator[tuple[str, list[bool], list[Comparison]]]:
    """(label, differs, comparisons) of every carried-over run, in execution order."""
    for control in controls:
        if control.key.carry is Carry.CARRIED_OVER and len(control.counted) >= FEWEST_EPISODES:
            name = f"{names[control.key.configuration]}: {control.key.arm} vs itself ({control.key.control})"
            comparisons = [pair.comparison for pair in control.counted]
            yield name, [bool(pair.differs) for pair in control.counted], comparisons
    for one in series:
        if one.key.carry is Carry.CARRIED_OVER and len(one.counted) >= FEWEST_EPISODES:
            name = f"{names[one.key.configuration]}: {pair_label(one)}"
            comparisons = [pair.comparison for pair in one.counted]
            yield name, [bool(pair.differs) for pair in one.counted], comparisons


def _drift_slopes(comparisons: Sequence[Comparison]) -> tuple[float | None, ...]:
    """Slope of the episodes' median drift, one cell for each kind of drift."""
    requests = [request for comparison in comparisons for request in comparison.requests]
    slopes = []
    for kind in KINDS:
        stands = stands_under(kind, requests)
        slopes.append(slope_along_run([_median_drift(filter(stands, c.requests)) for c in comparisons]))
    return tuple(slopes)


def _median_drift(requests: Iterable[RequestVerdict]) -> float:
    """Median over requests of their median drift; NaN where none was observed."""
    seen = [r.median_drift for r in requests if r.median_drift is not None]
    return median(seen) if seen else nan


def _common_episodes(members: Sequence[Series]) -> list[str]:
    common = set.intersection(*({pair.episode_id for pair in one.counted} for one in members))
    return [pair.episode_id for pair in members[0].counted if pair.episode_id in common]


def _two_way(members: Sequence[Series]) -> Interval | None:
    common = _common_episodes(members)
    found = [{pair.episode_id: bool(pair.differs) for pair in one.counted} for one in members]
    return two_way_bootstrap([[differs[e] for e in common] for differs in found]) if common else None
