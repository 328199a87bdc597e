"""Logistic regression of divergence on the format's score with a random intercept per episode.

Maximum likelihood; the episode's effect is integrated out with Gauss-Hermite nodes. The score's
coefficient is the log odds ratio per format step WITHIN an episode.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from stats.intervals import Z95, Interval

NODES = 100
STEPS = 100
FLAT = 1e-9
"""A gradient below this is flat: at sigma = 0 the log of sigma would run away for ever."""
WIDEST = 5.0
"""Cap of log sigma: beyond it every episode is certain, and nodes would lie where nothing changes."""
STALLED = 1e-10
"""Steps that lower the loss by less change no digit that is printed."""
MOST_STALLED = 3
FARTHEST = 20.0
"""A log odds ratio (or its error) beyond this is a likelihood that grows without end."""


class RandomIntercept(Struct, frozen=True, kw_only=True):
    """b0 and b1 on the logit scale, sigma of the episode effect, and the likelihood ratio for b1."""

    b0: float
    b1: float
    sigma: float
    log_likelihood: float
    likelihood_ratio: float
    p: float
    """Likelihood-ratio p, chi-squared with one degree of freedom."""
    odds_ratio: float
    standard_error_b1: float
    odds_ratio_interval: Interval


def random_intercept_logistic(
    diverged: ArrayLike, scores: ArrayLike, nodes: int = NODES
) -> RandomIntercept | None:
    """Fit logit P(diverged) = b0 + b1·score + sigma·u, u ~ N(0, 1) per episode.

    diverged: bool[episodes, formats]. scores: float[formats], not centred. None where no finite
    estimate exists: constant data, or formats that separate the episodes perfectly.
    """
    matrix = np.asarray(diverged, dtype=bool)
    s = np.asarray(scores, dtype=np.float64)
    if matrix.size == 0 or matrix.all() or not matrix.any():
        return None
    points, weights = np.polynomial.hermite.hermgauss(nodes)
    # Episodes with the same pattern have the same likelihood: at most 2^formats integrals.
    patterns, counts = np.unique(matrix, axis=0, return_counts=True)
    grid = _Grid(patterns, counts, s, points * math.sqrt(2), np.log(weights) - 0.5 * math.log(math.pi))
    rate = float(matrix.mean())
    start = math.log(rate / (1 - rate))
    full_at, full_loss = _minimum(grid.loss, np.array([start, 0.1, 0.0]))
    _, null_loss = _minimum(grid.loss_without_trend, np.array([start, 0.0]))
    ratio = max(0.0, 2 * (null_loss - full_loss))
    error = _standard_error(grid, full_at)
    b1 = float(full_at[1])
    if abs(b1) > FARTHEST or not error <= FARTHEST:
        return None
    return RandomIntercept(
        b0=float(full_at[0]),
        b1=b1,
        sigma=math.exp(float(full_at[2])),
        log_likelihood=-full_loss,
        likelihood_ratio=ratio,
        p=math.erfc(math.sqrt(ratio / 2)),
        odds_ratio=math.exp(b1),
        standard_error_b1=error,
        odds_ratio_interval=Interval(
            low=math.exp(b1 - Z95 * error), high=math.exp(b1 + Z95 * error), method="Wald"
        ),
    )


Loss = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]


def _minimum(loss: Loss, start: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Where the loss is least, and how large it is there. ``loss`` answers value and gradient.

    Newton steps with a Hessian from differences of the gradient, shortened until the loss falls; an
    optimiser from a library would cost more to import than to run.
    """
    at = start
    value, gradient = loss(at)
    stalled = 0
    for _ in range(STEPS):
        if float(np.max(np.abs(gradient))) < FLAT:
            break
        step = _downhill(_hessian(loss, at), gradient)
        length = 1.0
        while length > 1e-10:
            tried_value, tried_gradient = loss(at - length * step)
            if tried_value <= value + 1e-12:
                break
            length /= 2
        else:
            break
        fell = value - tried_value
        at = at - length * step
        value, gradient = tried_value, tried_gradient
        stalled = stalled + 1 if fell < STALLED else 0
        if stalled == MOST_STALLED or float(np.max(np.abs(at[:-1]))) > 1.5 * FARTHEST:
            break
        if float(np.max(np.abs(length * step))) < 1e-10:
            break
    return at, value


def _downhill(hessian: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Newton step where the surface is convex; elsewhere its eigenvalues are made positive."""
    values, vectors = np.linalg.eigh(hessian)
    bent = np.maximum(np.abs(values), 1e-6)
    step: NDArray[np.float64] = vectors @ ((vectors.T @ gradient) / bent)
    longest = float(np.max(np.abs(step)))
    return step / longest if longest > 1.0 else step


def _hessian(loss: Loss, at: NDArray[np.float64]) -> NDArray[np.float64]:
    step = 1e-5
    columns = [(loss(at + e)[1] - loss(at - e)[1]) / (2 * step) for e in np.eye(len(at)) * step]
    hessian = np.array(columns)
    return (hessian + hessian.T) / 2


class _Grid:
    """Negative log-likelihood over (b0, b1, log sigma) on fixed quadrature nodes."""

    def __init__(
        self,
        patterns: NDArray[np.bool_],
        counts: NDArray[np.int64],
        scores: NDArray[np.float64],
        nodes: NDArray[np.float64],
        log_weights: NDArray[np.float64],
    ) -> None:
        self.hits = patterns.astype(np.float64)
        self.total = self.hits.sum(axis=1)[:, None]
        self.scored = (self.hits @ scores)[:, None]
        self.counts = counts
        self.scores = scores
        self.nodes = nodes
        self.log_weights = log_weights

    def loss(self, values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Negative log-likelihood and its gradient."""
        log_sigma = min(float(values[2]), WIDEST)
        sigma = math.exp(log_sigma)
        eta = values[0] + values[1] * self.scores[:, None] + sigma * self.nodes[None, :]
        log_p = -np.logaddexp(0, -eta)
        # Each hit turns log(1 - p) = log(p) - eta into log(p), which is eta more.
        per_node = self.hits @ eta + (log_p - eta).sum(axis=0)[None, :]
        per_node += self.log_weights
        top = per_node.max(axis=1, keepdims=True)
        relative = np.exp(per_node - top)
        mass = relative.sum(axis=1, keepdims=True)
        log_mean = (top + np.log(mass))[:, 0]
        posterior = relative / mass
        expected = np.exp(log_p)
        surplus = self.total - expected.sum(axis=0)[None, :]
        scored = self.scored - (self.scores @ expected)[None, :]
        gradient = np.array(
            [
                self.counts @ (posterior * surplus).sum(axis=1),
                self.counts @ (posterior * scored).sum(axis=1),
                # At the cap the loss no longer depends on sigma.
                self.counts @ (posterior * surplus * self.nodes).sum(axis=1) * sigma * (log_sigma < WIDEST),
            ]
        )
        return -float(self.counts @ log_mean), -gradient

    def loss_without_trend(self, values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The same with b1 held at 0; values are (b0, log sigma)."""
        value, gradient = self.loss(np.array([values[0], 0.0, values[1]]))
        return value, gradient[[0, 2]]


def _standard_error(grid: _Grid, at: NDArray[np.float64]) -> float:
    """Wald error of b1 from the observed information; NaN where that is not positive."""
    try:
        variance = float(np.linalg.inv(_hessian(grid.loss, at))[1, 1])
    except np.linalg.LinAlgError:
        return math.nan
    return math.sqrt(variance) if variance > 0 else math.nan
