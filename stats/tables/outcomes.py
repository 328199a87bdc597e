"""Outcomes: does the task end well, per arm and paired; and can these data tell at all?

Degradation is a mean that moves; instability is outcomes that flip both ways while the mean stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from stats.intervals import wilson
from stats.paired import mcnemar_exact, mcnemar_power, paired_difference, smallest_detectable_shift
from stats.report.configuration import Key
from stats.report.series import EpisodePair, Series
from stats.tables.basis import basis
from stats.tables.rates import pair_label
from stats.tables.table import Cell, Column, Table
from tracer.clean_text import percent

ONE_POINT = 0.01
ENOUGH_POWER = 0.8
_HOW = (
    "Difference: Newcombe's interval for pairs. Power: exact McNemar at the observed discordant rate; the "
    "detectable shift is the least net shift seen with 80 % power, “–” when there is none."
)


class PairedOutcomes(Struct, frozen=True, kw_only=True):
    """Both arms' outcomes of the same episodes."""

    series: str
    counting: str
    both: int
    baseline_only: int
    arm_only: int
    neither: int

    @property
    def n(self) -> int:
        return self.both + self.baseline_only + self.arm_only + self.neither

    @property
    def solved(self) -> bool:
        """Whether any arm solved anything: without that, nothing could have flipped."""
        return self.n > self.neither


def paired_outcomes(series: Sequence[Series], names: Mapping[Key, str]) -> tuple[PairedOutcomes, ...]:
    """Every series that has outcomes; answers that are missing are counted both ways."""
    return tuple(outcome for one in series for outcome in _of_series(one, names) if outcome.n)


def outcomes_table(outcomes: Sequence[PairedOutcomes], series: Sequence[Series]) -> Table | None:
    """One row a series and way of counting; None when no arm was scored."""
    if not outcomes:
        return None
    return Table(
        name="outcomes",
        title="Outcomes",
        columns=(
            Column(key="series", title="series", common=True),
            Column(key="counting", title="counting"),
            Column(key="episodes", title="n", kind="count", unit="episodes"),
            Column(key="baseline_solved", title="solved in baseline", kind="count"),
            Column(key="baseline_interval", title="95 % (baseline)", kind="share_interval"),
            Column(key="arm_solved", title="solved in arm", kind="count"),
            Column(key="arm_interval", title="95 % (arm)", kind="share_interval"),
            Column(key="baseline_only", title="only in baseline", kind="count"),
            Column(key="arm_only", title="only in arm", kind="count"),
            Column(key="difference", title="arm − baseline", kind="share"),
            Column(key="difference_interval", title="95 % (difference)", kind="share_interval"),
            Column(key="discordant", title="discordant", kind="share"),
            Column(key="mcnemar_p", title="p, McNemar", kind="p"),
            Column(key="power_one_point", title="power for 1 point", kind="share"),
            Column(key="detectable", title="detectable shift", kind="share"),
        ),
        rows=tuple(_row(outcome) for outcome in outcomes),
        basis=basis(s.key.carry for s in series if s.counted),
        notes=(
            *([_HOW] if any(outcome.solved for outcome in outcomes) else []),
            *(verdict_sentence(outcome) for outcome in outcomes),
        ),
    )


def verdict_sentence(outcome: PairedOutcomes) -> str:
    """Whether these data can tell degradation from instability, in plain words."""
    n, b, c = outcome.n, outcome.baseline_only, outcome.arm_only
    where = f"{outcome.series} ({outcome.counting})"
    if not outcome.solved:
        return (
            f"{where}: nothing was solved in any arm, so no rate of outcome flips is given: these data say "
            "nothing about outcomes."
        )
    if b + c == 0:
        return (
            f"{where}: no outcome changed in {n} pairs; neither degradation nor instability of outcomes "
            "was seen, and without a discordant pair no power can be given."
        )
    p = mcnemar_exact(b, c)
    power = mcnemar_power(n, (b + c) / n, ONE_POINT)
    if p < 0.05:
        worse = "worse" if b > c else "better"
        counts = f"{b} only in the baseline against {c} only in the arm"
        return f"{where}: the arm does {worse} (p = {p:.3g}): {counts}."
    able = "can" if power >= ENOUGH_POWER else "cannot"
    flips = f"{b + c} of {n} outcomes flip, {b} one way and {c} the other (p = {p:.3g})"
    return (
        f"{where}: {flips}: instability without a net shift that was seen; these data {able} tell a shift "
        f"of one point (power {percent(power)})."
    )


def _of_series(one: Series, names: Mapping[Key, str]) -> Iterator[PairedOutcomes]:
    label = f"{names[one.key.configuration]}: {pair_label(one)}"
    judged = [pair for pair in one.counted if None not in pair.answers]
    if judged:
        kept = [(a, b) for pair in judged if (ab := _answered(pair)) is not None for a, b in [ab]]
        yield _tabulate(label, "answered in both arms", kept)
        yield _tabulate(label, "no answer counts as wrong", [_as_wrong(pair) for pair in judged])
        return
    scored = [(bool(p.solved[0]), bool(p.solved[1])) for p in one.counted if None not in p.solved]
    yield _tabulate(label, "by the workload's scorer", scored)


def _answered(pair: EpisodePair) -> tuple[bool, bool] | None:
    first, second = pair.answers
    if first is None or second is None or first.correct is None or second.correct is None:
        return None
    return first.correct, second.correct


def _as_wrong(pair: EpisodePair) -> tuple[bool, bool]:
    first, second = pair.answers
    return bool(first and first.correct), bool(second and second.correct)


def _tabulate(label: str, counting: str, pairs: Sequence[tuple[bool, bool]]) -> PairedOutcomes:
    return PairedOutcomes(
        series=label,
        counting=counting,
        both=sum(a and b for a, b in pairs),
        baseline_only=sum(a and not b for a, b in pairs),
        arm_only=sum(b and not a for a, b in pairs),
        neither=sum(not a and not b for a, b in pairs),
    )


def _row(outcome: PairedOutcomes) -> tuple[Cell, ...]:
    n, b, c = outcome.n, outcome.baseline_only, outcome.arm_only
    solved = (
        outcome.series,
        outcome.counting,
        n,
        outcome.both + b,
        wilson(outcome.both + b, n),
        outcome.both + c,
        wilson(outcome.both + c, n),
    )
    difference = paired_difference(outcome.both, c, b, outcome.neither)
    assert difference is not None
    if not outcome.solved:
        return (*solved, *([None] * 8))
    rate = (b + c) / n
    return (
        *solved,
        b,
        c,
        difference.difference,
        difference.interval,
        rate,
        mcnemar_exact(b, c),
        mcnemar_power(n, rate, ONE_POINT) if rate else None,
        smallest_detectable_shift(n, rate),
    )
