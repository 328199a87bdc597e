"""Single turn (the paper's Table 3): each item served twice cold and twice warm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stats.intervals import wilson
from stats.paired import mcnemar_exact
from stats.report.configuration import Key
from stats.report.series import EpisodePair, Series
from stats.tables.basis import basis
from stats.tables.rates import episode_rate_interval, pair_label
from stats.tables.table import Cell, Column, Table
from tracer.workloads.gsm8k_answers import AnswerClass, JudgedAnswer, change

Answers = tuple[JudgedAnswer, JudgedAnswer]


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
            "Answers are derived from the stored text; “value differs” allows 1e-6 of the larger value, and "
            "a value, a doubtful answer and no answer differ; “correctness differs” leaves out answers that "
            "are missing, cut by length or doubtful (the outcomes also count them as wrong, as the paper "
            "does).",
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

    changes = [change(cold, warm) for cold, warm in answers]

    def count(what: Callable[[JudgedAnswer, JudgedAnswer], bool]) -> int:
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
        sum(each.text for each in changes),
        sum(each.value for each in changes),
        sum(each.finding for each in changes),
        sum(each.correctness for each in changes),
        cold_correct,
        warm_correct,
        count(lambda c, _: c.answer_class is AnswerClass.NO_ANSWER),
        count(lambda _, w: w.answer_class is AnswerClass.NO_ANSWER),
        count(lambda c, _: c.answer_class is AnswerClass.CUT),
        count(lambda _, w: w.answer_class is AnswerClass.CUT),
        count(lambda c, w: AnswerClass.DOUBTFUL in (c.answer_class, w.answer_class)),
        mcnemar_exact(cold_only, warm_only) if cold_correct or warm_correct else None,
    )
