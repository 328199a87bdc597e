"""Requests by verdict, for every pair of arms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from replay.verdicts import Comparison, Verdict
from stats.report.configuration import Key
from stats.report.records import EpisodeRecord
from stats.tables.basis import basis
from stats.tables.table import Cell, Column, Table

_ORDER = (
    Verdict.IDENTICAL,
    Verdict.DRIFTED,
    Verdict.FLIPPED,
    Verdict.DOWNSTREAM,
    Verdict.PROMPT_CHANGED,
    Verdict.UNOBSERVED,
    Verdict.FAILED,
    Verdict.INCOMPLETE,
)


def verdicts_table(episodes: Sequence[EpisodeRecord], names: Mapping[Key, str]) -> Table:
    """One row for each configuration and pair of arms; repeats of a pair are added up.

    A verdict of an arm that does not count is what was observed all the same; rates leave it out.
    """
    counts: dict[tuple[str, str, str], Counter[Verdict]] = {}
    evidence: dict[tuple[str, str, str], Counter[str]] = {}
    drift: dict[tuple[str, str, str], list[float]] = {}
    for episode in episodes:
        analysis = episode.analysis
        for comparison in (*analysis.comparisons, *episode.extra_comparisons, *analysis.controls):
            key = _key(episode, comparison, names)
            verdicts = [r.verdict for r in comparison.requests]
            counts.setdefault(key, Counter()).update(verdicts)
            evidence.setdefault(key, Counter()).update(
                str(r.evidence) for r in comparison.requests if r.evidence
            )
            drift.setdefault(key, []).extend(
                r.max_drift for r in comparison.requests if r.max_drift is not None
            )
    rows = [_row(key, counts[key], evidence[key], drift[key]) for key in counts]
    return Table(
        name="verdicts",
        title="Requests by verdict",
        columns=(
            Column(key="configuration", title="configuration", common=True),
            Column(key="pair", title="arms"),
            Column(key="kind", title="comparison"),
            Column(key="requests", title="n", kind="count", unit="requests"),
            *(
                Column(key=str(v).replace("-", "_"), title=str(v), kind="count", unit="requests")
                for v in _ORDER
            ),
            Column(key="largest_drift", title="largest drift", kind="number", unit="nat"),
            Column(key="evidence", title="evidence"),
        ),
        rows=tuple(rows),
        basis=basis((a.arm.place.carry for e in episodes for a in e.arms), counts="n counts requests"),
    )


def _verdict_column(verdict: Verdict) -> Column:
    usual = verdict in (Verdict.IDENTICAL, Verdict.DRIFTED, Verdict.FLIPPED)
    key = str(verdict).replace("-", "_")
    return Column(key=key, title=str(verdict), kind="count", unit="requests", quiet=not usual)


def _key(episode: EpisodeRecord, comparison: Comparison, names: Mapping[Key, str]) -> tuple[str, str, str]:
    a, b = episode.arms[comparison.baseline], episode.arms[comparison.arm]
    kind = "within-arm" if comparison.within_arm else "cross-arm"
    pair = f"{a.group_label} vs {b.group_label}"
    if comparison.within_arm:
        pair = f"{a.group_label} vs itself"
    return names[a.configuration], pair, kind


def _row(
    key: tuple[str, str, str], counts: Counter[Verdict], evidence: Counter[str], drift: Sequence[float]
) -> tuple[Cell, ...]:
    said = ", ".join(f"{name} {n}" for name, n in evidence.most_common()) or None
    return (
        *key,
        counts.total(),
        *(counts[verdict] for verdict in _ORDER),
        max(drift) if drift else None,
        said,
    )
