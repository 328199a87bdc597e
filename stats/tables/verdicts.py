"""Requests by verdict, for every pair of arms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from replay.verdicts import Comparison, RequestVerdict, Verdict
from stats.report.configuration import Key
from stats.report.records import EpisodeRecord
from stats.tables.basis import basis, by_evidence
from stats.tables.drift import drift_columns, largest_drifts
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
    requests: dict[tuple[str, str, str], list[RequestVerdict]] = {}
    for episode in episodes:
        analysis = episode.analysis
        for comparison in (*analysis.comparisons, *episode.extra_comparisons, *analysis.controls):
            requests.setdefault(_key(episode, comparison, names), []).extend(comparison.requests)
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
            *drift_columns("largest_drift", "largest drift"),
            Column(key="evidence", title="evidence"),
        ),
        rows=tuple(_row(key, verdicts) for key, verdicts in requests.items()),
        basis=basis((a.arm.place.carry for e in episodes for a in e.arms), counts="n counts requests"),
    )


def _key(episode: EpisodeRecord, comparison: Comparison, names: Mapping[Key, str]) -> tuple[str, str, str]:
    a, b = episode.arms[comparison.baseline], episode.arms[comparison.arm]
    kind = "within-arm" if comparison.within_arm else "cross-arm"
    pair = f"{a.group_label} vs {b.group_label}"
    if comparison.within_arm:
        pair = f"{a.group_label} vs itself"
    return names[a.configuration], pair, kind


def _row(key: tuple[str, str, str], requests: Sequence[RequestVerdict]) -> tuple[Cell, ...]:
    counts = Counter(request.verdict for request in requests)
    return (
        *key,
        len(requests),
        *(counts[verdict] for verdict in _ORDER),
        *largest_drifts(requests),
        by_evidence(requests),
    )
