"""Trend over weight formats: rates by format, and tests that respect that all see the same episodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stats.conditional_logistic import conditional_logistic
from stats.intervals import normal_two_sided_p
from stats.random_intercept import random_intercept_logistic
from stats.report.formats import FormatFamily
from stats.tables.basis import basis
from stats.tables.rates import episode_rate_interval
from stats.tables.table import Cell, Column, Table
from stats.trend import cochran_armitage, slope_per_step, within_episode_permutation

SAME_EPISODES = (
    "All formats see the same episodes, so the paired tests are the right ones; Cochran-Armitage treats the "
    "formats as independent samples and stands here because the paper's first version reported it."
)


def gradient_table(families: Sequence[FormatFamily]) -> Table | None:
    """Rate by format over the episodes that count in every format; None without two formats."""
    rows: list[tuple[Cell, ...]] = []
    for family in families:
        episodes, matrix = family.joined()
        if not episodes:
            continue
        for place, name in enumerate(family.formats):
            differs = [row[place] for row in matrix]
            n, k = len(differs), sum(differs)
            interval = episode_rate_interval(differs, family.carry)
            rows.append((family.label, name, family.scores[place], n, k, k / n, interval))
    if not rows:
        return None
    return Table(
        name="gradient",
        title="Rates over weight formats",
        columns=(
            Column(key="family", title="series", common=True),
            Column(key="format", title="weights"),
            Column(key="score", title="step", kind="count"),
            Column(key="episodes", title="n", kind="count", unit="episodes"),
            Column(key="differ", title="differ", kind="count", unit="episodes"),
            Column(key="rate", title="rate", kind="share"),
            Column(key="interval", title="95 %", kind="share_interval"),
        ),
        rows=tuple(rows),
        basis=basis((f.carry for f in families), counts="n counts episodes that count in every format"),
        notes=("Different formats also run different kernels: comparing formats compares both.",),
    )


def trend_table(families: Sequence[FormatFamily]) -> Table | None:
    """Tests of a trend; None without two formats that share an episode."""
    rows = [row for family in families for row in _tests(family)]
    if not rows:
        return None
    return Table(
        name="trend",
        title="Trend over weight formats",
        columns=(
            Column(key="family", title="series", common=True),
            Column(key="test", title="test"),
            Column(key="statistic", title="statistic"),
            Column(key="value", title="value", kind="number", digits=6),
            Column(key="interval", title="95 %", kind="interval"),
            Column(key="p", title="p, two-sided", kind="p"),
            Column(key="episodes", title="n", kind="count", unit="episodes"),
            Column(key="informative", title="informative", kind="count", unit="episodes"),
        ),
        rows=tuple(rows),
        basis=basis((f.carry for f in families), counts="n counts episodes that count in every format"),
        notes=(SAME_EPISODES,),
    )


def _tests(family: FormatFamily) -> Iterator[tuple[Cell, ...]]:
    episodes, rows = family.joined()
    if not episodes:
        return
    matrix = np.array(rows, dtype=bool)
    n, scores = len(episodes), list(family.scores)
    step = "odds ratio per step"
    exact = within_episode_permutation(matrix, scores)
    if exact is not None:
        value, informative = float(exact.statistic), exact.informative
        yield _row(
            family, "exact permutation within episodes", "T", value, None, exact.p_two_sided, n, informative
        )
    fixed = conditional_logistic(matrix, scores)
    if fixed is not None:
        p, found = normal_two_sided_p(fixed.beta / fixed.standard_error), fixed.odds_ratio_interval
        name = "conditional logistic by episode"
        yield _row(family, name, step, fixed.odds_ratio, found, p, n, fixed.informative)
    mixed = random_intercept_logistic(matrix, scores)
    if mixed is not None:
        name = "random-intercept logistic (likelihood ratio)"
        yield _row(family, name, step, mixed.odds_ratio, mixed.odds_ratio_interval, mixed.p, n, None)
    slope = slope_per_step(matrix.mean(axis=0), scores)
    yield _row(family, "least squares on rates", "change of the rate per step", slope, None, None, n, None)
    paper = cochran_armitage(matrix.sum(axis=0), [n] * len(scores), scores)
    if paper is not None:
        yield _row(
            family, "Cochran-Armitage (divisor N, no continuity)", "z", paper.z, None, paper.p, n, None
        )


def _row(family: FormatFamily, *cells: Cell) -> tuple[Cell, ...]:
    return (family.label, *cells)
