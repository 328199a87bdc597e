"""Single-turn items pooled over configurations: the same problem is answered by several of them."""

from __future__ import annotations

from collections.abc import Sequence

from stats.clustered import problem_bootstrap, sign_test_by_problem
from stats.paired import discordant_rate, mcnemar_exact, mcnemar_power, smallest_detectable_shift
from stats.report.series import Series
from stats.tables.basis import basis
from stats.tables.table import Cell, Column, Table
from tracer.workloads.gsm8k_answers import JudgedAnswer

FEWEST_CONFIGURATIONS = 2
ONE_POINT = 0.01

Item = tuple[str, str, JudgedAnswer, JudgedAnswer]
"""(problem, configuration, cold answer, warm answer)."""


def pooled_items_table(series: Sequence[Series]) -> Table | None:
    """One row a way of counting; None unless two configurations answered items, and one of them right."""
    items: list[Item] = []
    for one in series:
        for pair in one.counted:
            cold, warm = pair.answers
            if cold is not None and warm is not None and one.key.run == 0:
                items.append((pair.episode_id, str(one.key.configuration), cold, warm))
    if len({configuration for _, configuration, _, _ in items}) < FEWEST_CONFIGURATIONS:
        return None
    if not any(cold.correct or warm.correct for _, _, cold, warm in items):
        return None  # nothing could have flipped
    answered = [item for item in items if item[2].correct is not None and item[3].correct is not None]
    rows = [_row("no answer counts as wrong", items)]
    if any(cold.correct or warm.correct for _, _, cold, warm in answered):
        rows.append(_row("answered in both arms", answered))
    return Table(
        name="pooled_items",
        title="Single turn, all configurations together",
        columns=(
            Column(key="counting", title="counting"),
            Column(key="items", title="n", kind="count", unit="items"),
            Column(key="problems", title="problems", kind="count"),
            Column(key="warm_only", title="only warm correct", kind="count"),
            Column(key="cold_only", title="only cold correct", kind="count"),
            Column(key="mcnemar_p", title="p, McNemar", kind="p"),
            Column(key="problem_p", title="p, sign by problem", kind="p"),
            Column(key="most_on_one", title="most on one problem", kind="count"),
            Column(key="discordant", title="discordant", kind="share"),
            Column(key="difference", title="warm − cold", kind="share"),
            Column(key="interval", title="95 %, by problem", kind="share_interval"),
            Column(key="standard_error", title="se, by problem", kind="number"),
            Column(key="naive_error", title="se, naive", kind="number"),
            Column(key="power_one_point", title="power for 1 point", kind="share"),
            Column(key="detectable", title="detectable shift", kind="share"),
        ),
        rows=tuple(rows),
        basis=basis((one.key.carry for one in series if one.counted), counts="n counts items"),
        notes=("Problems are resampled within strata of the configurations that they occur in.",),
    )


def _row(counting: str, items: Sequence[Item]) -> tuple[Cell, ...]:
    names = {name: i for i, name in enumerate(sorted({problem for problem, _, _, _ in items}))}
    problems = [names[problem] for problem, _, _, _ in items]
    differences = [int(warm.correct is True) - int(cold.correct is True) for _, _, cold, warm in items]
    found = problem_bootstrap(problems, [configuration for _, configuration, _, _ in items], differences)
    assert found is not None
    signs = sign_test_by_problem(problems, differences)
    n, warm_only, cold_only = len(items), differences.count(1), differences.count(-1)
    rate = discordant_rate(warm_only, cold_only, n) or 0.0
    return (
        counting,
        n,
        found.problems,
        warm_only,
        cold_only,
        mcnemar_exact(warm_only, cold_only),
        signs.p,
        signs.most_on_one_problem,
        rate,
        found.mean,
        found.interval,
        found.standard_error,
        found.naive_standard_error,
        mcnemar_power(n, rate, ONE_POINT) if rate else None,
        smallest_detectable_shift(n, rate),
    )
