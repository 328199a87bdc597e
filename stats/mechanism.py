"""Why does a weight format flip more: smaller margins, or a larger disturbance? Arrays in, records out.

At a position where all tokens before agree let m be the recompute margin (best minus second best when
cold) and g the change of that gap when the cache is used. The token flips when g < -m. With M the
distribution of margins and G that of gap changes, taken as independent, the predicted flip rate is

    R(M, G) = E over m in M of P(G < -m).

Between formats A and B the change R(M_B, G_B) - R(M_A, G_A) is split by swapping one distribution at a
time, in both orders, and averaging (the Shapley value of two players; L. S. Shapley, 1953). Intervals
resample whole episodes, the same ones in both formats where both saw them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stats.bootstrap import SEED
from stats.intervals import LEVEL, Interval

MARGIN_BINS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, np.inf)
"""The authors' bins of the recompute margin, natural-log units."""
FEWEST_IN_BIN = 20
RESAMPLES = 2_000
PER_TOKENS = 1000

Finding = Literal[
    "disturbance",
    "margins",
    "both",
    "disturbance, against the margins",
    "margins, against the disturbance",
    "against each other",
    "neither",
]
"""What brought a change about. ``against`` stands where the two parts have opposite signs; they are
``against each other`` where, besides, the whole change cannot be told from none."""


@dataclass(frozen=True)
class Positions:
    """Compared positions of one configuration, all arrays of one length; NaN = not observed.

    margins, gap_changes, drift: float64[n], natural-log units. flipped, tool_call: bool[n]. token:
    int64[n], position in the output. cached_share: float64[n], cached of prompt tokens of the
    request. episode: int64[n], index into ``episodes``.
    """

    margins: NDArray[np.float64]
    gap_changes: NDArray[np.float64]
    drift: NDArray[np.float64]
    flipped: NDArray[np.bool_]
    tool_call: NDArray[np.bool_]
    token: NDArray[np.int64]
    cached_share: NDArray[np.float64]
    episode: NDArray[np.int64]
    episodes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.margins)

    def where(self, chosen: NDArray[np.bool_]) -> Positions:
        """The positions that ``chosen`` marks, with the same list of episodes."""
        return Positions(
            margins=self.margins[chosen],
            gap_changes=self.gap_changes[chosen],
            drift=self.drift[chosen],
            flipped=self.flipped[chosen],
            tool_call=self.tool_call[chosen],
            token=self.token[chosen],
            cached_share=self.cached_share[chosen],
            episode=self.episode[chosen],
            episodes=self.episodes,
        )


class FlipRateBin(Struct, frozen=True, kw_only=True):
    """Flips among positions whose recompute margin lies in [low, high)."""

    low: float
    high: float
    positions: int
    flips: int
    observed: float
    interval: Interval | None
    """Episode bootstrap; None with fewer than 20 positions or where nothing varies."""
    predicted: float | None
    """P(G < -m) averaged over the bin, from the gap changes of ALL positions."""


class Share(Struct, frozen=True, kw_only=True):
    """One part of a change, in flips per 1,000 tokens."""

    change: float
    interval: Interval

    @property
    def excludes_zero(self) -> bool:
        return not self.interval.low <= 0 <= self.interval.high


class Decomposition(Struct, frozen=True, kw_only=True):
    """How a change in flip rate between two configurations comes about; flips per 1,000 tokens."""

    first_observed: float
    second_observed: float
    first_predicted: float
    second_predicted: float
    whole: Share
    """The predicted change itself, which the two parts add up to."""
    margins: Share
    disturbance: Share
    episodes: int
    resamples: int
    seed: int

    @property
    def finding(self) -> Finding:
        """Whose interval excludes 0 and, where both do, whether they pulled the same way."""
        by_margins, by_disturbance = self.margins.excludes_zero, self.disturbance.excludes_zero
        if not (by_margins and by_disturbance):
            return "margins" if by_margins else "disturbance" if by_disturbance else "neither"
        if self.margins.change * self.disturbance.change > 0:
            return "both"
        if not self.whole.excludes_zero:
            return "against each other"
        # The parts add up to the whole, so the one with its sign is the larger.
        if self.disturbance.change * self.whole.change > 0:
            return "disturbance, against the margins"
        return "margins, against the disturbance"


def predicted_rate(margins: NDArray[np.float64], gap_changes: NDArray[np.float64]) -> float | None:
    """R(M, G) per position; None when one of them was never observed."""
    m, g = margins[np.isfinite(margins)], np.sort(gap_changes[np.isfinite(gap_changes)])
    if not len(m) or not len(g):
        return None
    return float(np.searchsorted(g, -m, side="left").mean() / len(g))


def flip_rate_by_margin(
    positions: Positions, bins: Sequence[float] = MARGIN_BINS, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[FlipRateBin, ...]:
    """Observed and predicted flip rate in each bin of the recompute margin; empty bins are left out."""
    seen = positions.where(np.isfinite(positions.margins))
    changes = np.sort(positions.gap_changes[np.isfinite(positions.gap_changes)])
    weights = _episode_weights(len(positions.episodes), resamples, seed)
    found = []
    for low, high in pairwise(bins):
        part = seen.where((seen.margins >= low) & (seen.margins < high))
        if not len(part):
            continue
        predicted = None
        if len(changes):
            predicted = float(np.searchsorted(changes, -part.margins, side="left").mean() / len(changes))
        found.append(
            FlipRateBin(
                low=float(low),
                high=float(high),
                positions=len(part),
                flips=int(part.flipped.sum()),
                observed=float(part.flipped.mean()),
                interval=_rate_interval(part, weights, seed),
                predicted=predicted,
            )
        )
    return tuple(found)


def decompose(
    first: Positions, second: Positions, resamples: int = RESAMPLES, seed: int = SEED
) -> Decomposition | None:
    """Split the change in flip rate from ``first`` to ``second``; None when one observed nothing.

    Episodes that both saw are resampled together; the others apart. Rates are those predicted from
    the distributions, so that the two parts add up to the predicted change exactly.
    """
    names = tuple(dict.fromkeys((*first.episodes, *second.episodes)))
    sides = [_usable(side, names) for side in (first, second)]
    if any(not m.size or not g.size for m, g, _, _ in sides):
        return None
    hits = {
        (a, b): _pair_hits(sides[a][0], sides[a][2], sides[b][1], sides[b][3], len(names))
        for a in (0, 1)
        for b in (0, 1)
    }
    m_counts = [np.bincount(side[2], minlength=len(names)).astype(np.float64) for side in sides]
    g_counts = [np.bincount(side[3], minlength=len(names)).astype(np.float64) for side in sides]
    weights = np.vstack([np.ones(len(names)), _episode_weights(len(names), resamples, seed)])
    rates = {}
    for (a, b), matrix in hits.items():
        with np.errstate(invalid="ignore", divide="ignore"):
            whole = (weights @ m_counts[a]) * (weights @ g_counts[b])
            rates[a, b] = PER_TOKENS * ((weights @ matrix) * weights).sum(axis=1) / whole
    margins = ((rates[1, 0] - rates[0, 0]) + (rates[1, 1] - rates[0, 1])) / 2
    disturbance = ((rates[0, 1] - rates[0, 0]) + (rates[1, 1] - rates[1, 0])) / 2
    return Decomposition(
        first_observed=PER_TOKENS * float(first.flipped.mean()),
        second_observed=PER_TOKENS * float(second.flipped.mean()),
        first_predicted=float(rates[0, 0][0]),
        second_predicted=float(rates[1, 1][0]),
        whole=_share(rates[1, 1] - rates[0, 0], resamples, seed),
        margins=_share(margins, resamples, seed),
        disturbance=_share(disturbance, resamples, seed),
        episodes=len(names),
        resamples=resamples,
        seed=seed,
    )


def _usable(
    side: Positions, names: tuple[str, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """(margins, gap changes, episode of each margin, episode of each gap change), in common numbers."""
    renumbered = np.array([names.index(name) for name in side.episodes], dtype=np.int64)
    m, g = np.isfinite(side.margins), np.isfinite(side.gap_changes)
    episode = renumbered[side.episode] if len(side) else np.empty(0, np.int64)
    return side.margins[m], side.gap_changes[g], episode[m], episode[g]


def _pair_hits(
    margins: NDArray[np.float64],
    margin_episode: NDArray[np.int64],
    changes: NDArray[np.float64],
    change_episode: NDArray[np.int64],
    episodes: int,
) -> NDArray[np.float64]:
    """float64[episodes, episodes]: pairs (m of episode i, g of episode j) with g < -m.

    One sorted search an episode; every resample is then a product with this matrix.
    """
    hits = np.zeros((episodes, episodes))
    for j in np.unique(change_episode):
        ordered = np.sort(changes[change_episode == j])
        below = np.searchsorted(ordered, -margins, side="left")
        hits[:, j] = np.bincount(margin_episode, weights=below, minlength=episodes)
    return hits


def _episode_weights(episodes: int, resamples: int, seed: int) -> NDArray[np.float64]:
    """float64[resamples, episodes]: how often each episode was drawn."""
    if not episodes:
        return np.zeros((resamples, 0))
    chosen = np.random.default_rng(seed).integers(0, episodes, size=(resamples, episodes))
    flat = chosen + episodes * np.arange(resamples)[:, None]
    counts = np.bincount(flat.ravel(), minlength=resamples * episodes)
    return counts.reshape(resamples, episodes).astype(np.float64)


def _rate_interval(part: Positions, weights: NDArray[np.float64], seed: int) -> Interval | None:
    if len(part) < FEWEST_IN_BIN or not 0 < part.flipped.sum() < len(part):
        return None
    n = len(part.episodes)
    flips = weights @ np.bincount(part.episode, weights=part.flipped, minlength=n)
    whole = weights @ np.bincount(part.episode, minlength=n)
    rates = flips[whole > 0] / whole[whole > 0]
    low, high = np.quantile(rates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    method = f"bootstrap over episodes, {len(weights)} resamples, seed {seed}"
    return Interval(low=float(low), high=float(high), method=method)


def _share(values: NDArray[np.float64], resamples: int, seed: int) -> Share:
    """The first value is the estimate, the others are its resamples."""
    drawn = values[1:][np.isfinite(values[1:])]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    method = f"bootstrap over episodes, {resamples} resamples, seed {seed}"
    return Share(change=float(values[0]), interval=Interval(low=float(low), high=float(high), method=method))


def sentence(first: str, second: str, found: Decomposition) -> str:
    """The finding in one sentence, with what it rests on."""
    what = {
        "disturbance": "the disturbance did it, the supply of near ties did not",
        "margins": "smaller or larger margins did it, the disturbance did not",
        "both": "both did it",
        "disturbance, against the margins": "the disturbance did it, and the margins took some of it back",
        "margins, against the disturbance": "the margins did it, and the disturbance took some of it back",
        "against each other": "they work against each other, and the change itself cannot be told from none",
        "neither": "these data cannot tell which did it",
    }[found.finding]
    if not found.whole.excludes_zero and found.finding != "against each other":
        what = "the change itself cannot be told from none"
    predicted = f"predicted {found.first_predicted:.2f} to {found.second_predicted:.2f}"
    return (
        f"From {first} to {second} flips per 1000 tokens go from {found.first_observed:.2f} to "
        f"{found.second_observed:.2f} ({predicted}); of the predicted change of {_said(found.whole)}, "
        f"{_said(found.disturbance)} comes from the disturbance and {_said(found.margins)} from the "
        f"margins: {what}."
    )


def _said(share: Share) -> str:
    return f"{share.change:+.2f} [{share.interval.low:+.2f}, {share.interval.high:+.2f}]"
