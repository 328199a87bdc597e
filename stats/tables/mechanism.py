"""Tables of the mechanism: distributions, flip rate by margin, what changed between weight formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stats.mechanism import PER_TOKENS, Decomposition, Positions, decompose, flip_rate_by_margin, sentence
from stats.report.formats import FormatFamily
from stats.report.series import SeriesKey
from stats.tables.table import Cell, Column, Table

QUANTILES = (0.01, 0.05, 0.25, 0.5)
TOKEN_BINS = (0, 8, 16, 32, 64, 128, 1 << 31)
SHARE_BINS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.01)
BASIS = "n counts output tokens at which all tokens before agree, in requests that a cache served; nat units."


class Mechanism(Struct, frozen=True, kw_only=True):
    """Positions by series, with the names that tables show."""

    positions: Mapping[SeriesKey, Positions]
    labels: Mapping[SeriesKey, str]
    near_tie: float


class FormatChange(Struct, frozen=True, kw_only=True):
    """What changed from one format to a coarser one of the same family."""

    family: str
    first: str
    second: str
    found: Decomposition


def format_changes(mechanism: Mechanism, families: Sequence[FormatFamily]) -> tuple[FormatChange, ...]:
    """Neighbouring formats, and the finest against the coarsest when there are more than two."""
    changes = []
    for family in families:
        steps = list(pairwise(range(len(family.series))))
        if len(family.series) > 2:
            steps.append((0, len(family.series) - 1))
        for i, j in steps:
            sides = [mechanism.positions.get(family.series[at].key) for at in (i, j)]
            if sides[0] is None or sides[1] is None or not len(sides[0]) or not len(sides[1]):
                continue
            found = decompose(sides[0], sides[1])
            if found is not None:
                names = family.formats[i], family.formats[j]
                changes.append(
                    FormatChange(family=family.label, first=names[0], second=names[1], found=found)
                )
    return tuple(changes)


def distributions_table(mechanism: Mechanism) -> Table | None:
    """Margins (all, tool-call syntax, text), drift and gap changes of every configuration."""
    rows = [row for key, p in mechanism.positions.items() for row in _distribution(mechanism, key, p)]
    if not rows:
        return None
    return Table(
        name="mechanism",
        title="Margins and disturbance",
        columns=(
            Column(key="series", title="series", common=True),
            Column(key="tokens", title="of"),
            Column(key="positions", title="n", kind="count", unit="tokens"),
            *(
                Column(key=f"margin_q{int(100 * q)}", title=f"margin {q:.0%}", kind="number")
                for q in QUANTILES
            ),
            Column(key="near_ties", title="near ties per 1000", kind="number"),
            Column(key="exact_ties", title="exact ties per 1000", kind="number"),
            Column(key="drift_median", title="drift, median", kind="number"),
            Column(key="drift_q95", title="drift 95%", kind="number"),
            Column(key="gap_median", title="|gap change|, median", kind="number"),
            Column(key="gap_q95", title="|gap change| 95%", kind="number"),
            Column(key="flips", title="flips per 1000", kind="number"),
        ),
        rows=tuple(rows),
        basis=BASIS,
        notes=(
            f"A near tie has a margin below {mechanism.near_tie:g}. Margins are those of the recompute arm; "
            "tool-call syntax is what stands on a line that names a call which the agent parsed.",
        ),
    )


def flip_rate_table(mechanism: Mechanism) -> Table | None:
    """Flip rate by bin of the recompute margin, observed and predicted."""
    rows: list[tuple[Cell, ...]] = []
    for key, positions in mechanism.positions.items():
        for b in flip_rate_by_margin(positions):
            bounds = f"{b.low:g} to {b.high:g}" if np.isfinite(b.high) else f"from {b.low:g}"
            label = mechanism.labels[key]
            rows.append((label, bounds, b.positions, b.flips, b.observed, b.interval, b.predicted))
    if not rows:
        return None
    return Table(
        name="flip_rate_by_margin",
        title="Flip rate by recompute margin",
        columns=(
            Column(key="series", title="series", common=True),
            Column(key="margin", title="margin (nat)"),
            Column(key="positions", title="n", kind="count", unit="tokens"),
            Column(key="flips", title="flips", kind="count"),
            Column(key="observed", title="observed", kind="share"),
            Column(key="interval", title="95 %", kind="share_interval"),
            Column(key="predicted", title="predicted", kind="share"),
        ),
        rows=tuple(rows),
        basis=BASIS,
        notes=(
            "Predicted: the share of all measured gap changes that would undo the margin, as if margin and "
            "disturbance were independent. Intervals resample episodes, where a bin has 20 tokens or more.",
        ),
    )


def decomposition_table(changes: Sequence[FormatChange]) -> Table | None:
    """How much of the change in flip rate comes from margins and how much from the disturbance."""
    if not changes:
        return None
    return Table(
        name="decomposition",
        title="What changed between weight formats",
        columns=(
            Column(key="family", title="series", common=True),
            Column(key="first", title="from"),
            Column(key="second", title="to"),
            Column(key="first_observed", title="flips per 1000, from", kind="number"),
            Column(key="second_observed", title="flips per 1000, to", kind="number"),
            Column(key="predicted_change", title="predicted change", kind="number"),
            Column(key="predicted_change_interval", title="95 % (change)", kind="interval"),
            Column(key="by_margins", title="by margins", kind="number"),
            Column(key="by_margins_interval", title="95 % (margins)", kind="interval"),
            Column(key="by_disturbance", title="by disturbance", kind="number"),
            Column(key="by_disturbance_interval", title="95 % (disturbance)", kind="interval"),
            Column(key="finding", title="finding"),
            Column(key="sentence", title="in words", kind="sentence"),
        ),
        rows=tuple(
            (
                change.family,
                change.first,
                change.second,
                change.found.first_observed,
                change.found.second_observed,
                change.found.whole.change,
                change.found.whole.interval,
                change.found.margins.change,
                change.found.margins.interval,
                change.found.disturbance.change,
                change.found.disturbance.interval,
                change.found.finding,
                sentence(change.first, change.second, change.found),
            )
            for change in changes
        ),
        basis=BASIS,
        notes=(
            "One distribution is swapped at a time, in both orders, and averaged; intervals resample "
            f"episodes ({changes[0].found.resamples} times, seed {changes[0].found.seed}).",
        ),
    )


def drift_table(mechanism: Mechanism) -> Table | None:
    """Drift against the position in the output and against the cached share of the prompt."""
    rows: list[tuple[Cell, ...]] = []
    for key, positions in mechanism.positions.items():
        for what, bounds, chosen in _drift_bins(positions):
            drift = positions.drift[chosen]
            drift = drift[np.isfinite(drift)]
            if len(drift):
                q50, q95 = np.quantile(drift, [0.5, 0.95])
                rows.append((mechanism.labels[key], what, bounds, len(drift), float(q50), float(q95)))
    if not rows:
        return None
    return Table(
        name="drift",
        title="Drift against position and cached share",
        columns=(
            Column(key="series", title="series", common=True),
            Column(key="against", title="against"),
            Column(key="bin", title="bin"),
            Column(key="positions", title="n", kind="count", unit="tokens"),
            Column(key="median", title="drift, median", kind="number", unit="nat"),
            Column(key="q95", title="drift 95%", kind="number", unit="nat"),
        ),
        rows=tuple(rows),
        basis=BASIS,
    )


def _distribution(mechanism: Mechanism, key: SeriesKey, positions: Positions) -> Iterator[tuple[Cell, ...]]:
    groups = [("all", np.ones(len(positions), bool))]
    if positions.tool_call.any():
        groups += [("tool-call syntax", positions.tool_call), ("text", ~positions.tool_call)]
    for name, chosen in groups:
        part = positions.where(chosen)
        m = part.margins[np.isfinite(part.margins)]
        if not len(part):
            continue
        gaps = np.abs(part.gap_changes[~part.flipped])
        yield (
            mechanism.labels[key],
            name,
            len(part),
            *(_quantile(m, q) for q in QUANTILES),
            PER_TOKENS * float(np.mean(m < mechanism.near_tie)) if len(m) else None,
            PER_TOKENS * float(np.mean(m == 0)) if len(m) else None,
            _quantile(part.drift, 0.5),
            _quantile(part.drift, 0.95),
            _quantile(gaps, 0.5),
            _quantile(gaps, 0.95),
            PER_TOKENS * float(part.flipped.mean()),
        )


def _quantile(values: NDArray[np.float64], q: float) -> float | None:
    seen = values[np.isfinite(values)]
    return float(np.quantile(seen, q)) if len(seen) else None


def _drift_bins(positions: Positions) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    for low, high in pairwise(TOKEN_BINS):
        bounds = f"{low} to {high - 1}" if high < 1 << 31 else f"from {low}"
        yield "output token", bounds, (positions.token >= low) & (positions.token < high)
    for start, end in pairwise(SHARE_BINS):
        inside = (positions.cached_share >= start) & (positions.cached_share < end)
        yield "cached share of the prompt", f"{start:.0%} to {min(end, 1.0):.0%}", inside
