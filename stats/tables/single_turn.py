"""Single turn (the paper's Table 3): each item served twice cold and twice warm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stats.intervals import wilson
from stats.paired import mcnemar_exact
from stats.report.configuration import Key
from stats.report.records import AnswerFacts
from stats.report.series import EpisodePair, Series
from stats.tables.basis import basis
from stats.tables.rates import episode_rate_interval, pair_label
from stats.tables.table import Cell, Column, Table

Answers = tuple[AnswerFacts, AnswerFacts]


def single_turn_table(series: Sequence[Series], names: Mapping[Key, str]) -> Table | None:
    """One row a configuration; None without items whose answers could be derived."""
    shown = [(one, _judged(one)) for one in series]
    shown = [(one, judged) for one, judged in shown if judged]
    if not shown:
        return None
    return Table(
        name="single_turn",
        title="Single turn: four servings of each item",
        columns=(
            Column(key="configuration", title="configuration", common=True),
            Column(key="pair", title="arms"),
            Column(key="items", title="n", kind="count", unit="items"),
            Column(key="cold_repeats", title="recompute repeats", kind="count"),
            Column(key="warm_repeats", title="cached repeats", kind="count"),
            Column(key="differ", title="paths differ", kind="count"),
            Column(key="rate", title="rate", kind="share"),
            Column(key="interval", title="95 %", kind="share_interval"),
            Column(key="text_differs", title="text differs", kind="count"),
            Column(key="value_differs", title="value differs", kind="count"),
            Column(key="finding_differs", title="way of finding differs", kind="count"),
            Column(key="correctness_differs", title="correctness differs", kind="count"),
            Column(key="cold_correct", title="correct cold", kind="count"),
            Column(key="warm_correct", title="correct warm", kind="count"),
            Column(key="cold_no_answer", title="no answer cold", kind="count"),
            Column(key="warm_no_answer", title="no answer warm", kind="count"),
            Column(key="cold_cut", title="cut cold", kind="count", quiet=True),
            Column(key="warm_cut", title="cut warm", kind="count", quiet=True),
            Column(key="doubtful", title="doubtful", kind="count", quiet=True),
            Column(key="mcnemar_p", title="p, McNemar", kind="p"),
        ),
        rows=tuple(_row(one, judged, names) for one, judged in shown),
        basis=basis((s.key.carry for s, _ in shown), (s.key.control for s, _ in shown), "n counts items"),
        notes=(
            "Answers are derived from the stored text; “correctness differs” leaves out answers that are "
            "missing, cut by length or doubtful (the outcomes also count them as wrong, as the paper does).",
        ),
    )


def _judged(one: Series) -> list[tuple[EpisodePair, Answers]]:
    found = []
    for pair in one.counted:
        cold, warm = pair.answers
        if cold is not None and warm is not None:
            found.append((pair, (cold, warm)))
    return found


def _row(
    one: Series, judged: Sequence[tuple[EpisodePair, Answers]], names: Mapping[Key, str]
) -> tuple[Cell, ...]:
    pairs = [pair for pair, _ in judged]
    answers = [found for _, found in judged]
    n = len(judged)
    differs = [bool(pair.differs) for pair in pairs]

    def count(what: Callable[[AnswerFacts, AnswerFacts], bool]) -> int:
        return sum(what(cold, warm) for cold, warm in answers)

    cold_only = count(lambda c, w: c.correct is True and w.correct is False)
    warm_only = count(lambda c, w: c.correct is False and w.correct is True)
    cold_correct, warm_correct = count(lambda c, _: c.correct is True), count(lambda _, w: w.correct is True)
    return (
        names[one.key.configuration],
        pair_label(one),
        n,
        sum(not (p.within_baseline and p.within_baseline.differs) for p in pairs),
        sum(not (p.within_arm and p.within_arm.differs) for p in pairs),
        sum(differs),
        sum(differs) / n,
        episode_rate_interval(differs, one.key.carry) or wilson(sum(differs), n),
        count(lambda c, w: c.text_digest != w.text_digest),
        count(lambda c, w: c.value != w.value),
        count(lambda c, w: c.found != w.found),
        cold_only + warm_only,
        cold_correct,
        warm_correct,
        count(lambda c, _: c.answer_class == "no answer"),
        count(lambda _, w: w.answer_class == "no answer"),
        count(lambda c, _: c.answer_class == "cut by length"),
        count(lambda _, w: w.answer_class == "cut by length"),
        count(lambda c, w: "doubtful" in (c.answer_class, w.answer_class)),
        mcnemar_exact(cold_only, warm_only) if cold_correct or warm_correct else None,
    )
