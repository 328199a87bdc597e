"""Figures over output tokens: survival of agreement, margins and drift on one axis, flip probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from replay.verdicts import Verdict
from stats.figures.figure import Axis, Figure, Line
from stats.mechanism import flip_rate_by_margin
from stats.report.configuration import Key
from stats.report.series import Series, SeriesKey
from stats.survival import survival_of_agreement
from stats.tables.mechanism import Mechanism
from stats.tables.rates import pair_label
from tracer.episode import CacheState

_COMPARED = (Verdict.IDENTICAL, Verdict.DRIFTED, Verdict.FLIPPED)
CURVE_POINTS = 60
MOST_SERIES = 6
SMALLEST = 1e-6
"""Margins and drift below this are drawn at the left end of the logarithmic axis."""


def survival_figure(series: Sequence[Series], names: Mapping[Key, str]) -> Figure | None:
    """Share of requests without a flip after so many output tokens; one step curve a series."""
    lines = []
    shown, caption = _chosen_series(series)
    for one in shown:
        verdicts = [r for pair in one.counted for r in pair.comparison.requests if r.verdict in _COMPARED]
        agreed = [r.flip.position if r.flip is not None else r.compared_positions for r in verdicts]
        found = survival_of_agreement(agreed, [r.flip is not None for r in verdicts])
        if found is None:
            continue
        end = max(agreed)
        lines.append(
            Line(
                label=f"{names[one.key.configuration]}, {pair_label(one)}",
                x=(0.0, *(float(t) for t in found.times), float(end)),
                y=(1.0, *found.agreeing, found.agreeing[-1] if found.agreeing else 1.0),
                style="step",
            )
        )
    if not lines:
        return None
    return Figure(
        name="survival",
        title="Survival of agreement",
        caption=f"Requests with equal prompts; Kaplan-Meier, censored at their end.{caption}",
        x=Axis(title="output tokens", low=0.0),
        y=Axis(title="requests that still agree", percent=True, low=0.0, high=1.0),
        lines=tuple(lines),
    )


def distributions_figure(mechanism: Mechanism) -> Figure | None:
    """Cumulative margins and changes of the top-two gap on one logarithmic axis."""
    lines = []
    shown, caption = _chosen(list(mechanism.positions))
    for key in shown:
        positions, label = mechanism.positions[key], mechanism.labels[key]
        for name, values in (("margin", positions.margins), ("gap change", np.abs(positions.gap_changes))):
            curve = _cumulative(values)
            if curve is not None:
                thin = name != "margin"
                line = Line(label=f"{name}: {label}", x=curve[0], y=curve[1], group=label, thin=thin)
                lines.append(line)
    if not lines:
        return None
    return Figure(
        name="margin_and_drift",
        title="Margins against disturbance",
        caption=f"Where the two curves of a configuration overlap, a change can undo a margin.{caption}",
        x=Axis(title="natural-log units", log=True),
        y=Axis(title="tokens at or below", percent=True, low=0.0, high=1.0),
        lines=tuple(lines),
    )


def flip_probability_figure(mechanism: Mechanism) -> Figure | None:
    """Observed flip rate by recompute margin, with intervals, and the predicted one."""
    lines = []
    shown, caption = _chosen(list(mechanism.positions))
    for key in shown:
        bins = flip_rate_by_margin(mechanism.positions[key])
        if not bins:
            continue
        middles = tuple(_middle(b.low, b.high) for b in bins)
        label = mechanism.labels[key]
        lines.append(
            Line(
                label=f"observed: {label}",
                x=middles,
                y=tuple(b.observed for b in bins),
                low=tuple(b.interval.low if b.interval else None for b in bins),
                high=tuple(b.interval.high if b.interval else None for b in bins),
                style="points",
                group=label,
            )
        )
        predicted = [(x, b.predicted) for x, b in zip(middles, bins, strict=True) if b.predicted is not None]
        lines.append(
            Line(
                label=f"predicted: {label}",
                x=tuple(x for x, _ in predicted),
                y=tuple(y for _, y in predicted),
            )
        )
    if not lines:
        return None
    return Figure(
        name="flip_probability",
        title="Flip probability by margin",
        caption=f"Bins of the recompute margin; predicted from all measured gap changes.{caption}",
        x=Axis(title="recompute margin, natural-log units", log=True),
        y=Axis(title="tokens that flip", percent=True, low=0.0, high=1.0),
        lines=tuple(lines),
    )


def _chosen(keys: Sequence[SeriesKey]) -> tuple[list[SeriesKey], str]:
    """At most six series, warm ones first: more lines than that cannot be told apart."""
    if len(keys) <= MOST_SERIES:
        return list(keys), ""
    warm_first = sorted(keys, key=lambda key: key.arm_state is not CacheState.WARM)
    chosen = set(warm_first[:MOST_SERIES])
    return [
        key for key in keys if key in chosen
    ], f" {len(keys) - MOST_SERIES} more series are in the tables."


def _chosen_series(series: Sequence[Series]) -> tuple[list[Series], str]:
    keys, caption = _chosen([one.key for one in series if one.counted])
    return [one for one in series if one.key in set(keys)], caption


def _middle(low: float, high: float) -> float:
    """Where a bin is drawn on a logarithmic axis."""
    if not np.isfinite(high):
        return low * 1.7
    return float(np.sqrt(low * high)) if low > 0 else high / 2


def _cumulative(values: NDArray[np.float64]) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    seen = np.sort(values[np.isfinite(values)])
    if not len(seen):
        return None
    shares = np.linspace(0, 1, CURVE_POINTS)
    points = np.maximum(np.quantile(seen, shares), SMALLEST)
    return tuple(points.tolist()), tuple(shares.tolist())
