"""The verdict of every request of one trace: what a user who opens a single file wants first."""

from __future__ import annotations

from collections.abc import Mapping

from replay.verdicts import Comparison, RequestVerdict
from stats.report.configuration import Key
from stats.report.records import EpisodeRecord
from stats.tables.basis import basis
from stats.tables.drift import drift_columns, under_its_name
from stats.tables.flips import exposure_text
from stats.tables.table import Cell, Column, Table

SHOWN = 60


def requests_table(episode: EpisodeRecord, names: Mapping[Key, str]) -> Table | None:
    """One row a request and pair of states, repeats that say the same together; None without a comparison."""
    alike: dict[tuple[object, ...], list[tuple[Comparison, RequestVerdict]]] = {}
    for comparison in (*episode.analysis.comparisons, *episode.extra_comparisons):
        for request in comparison.requests:
            key = (_pair(episode, comparison), request.request, *_sameness(request))
            alike.setdefault(key, []).append((comparison, request))
    if not alike:
        return None
    groups = sorted(alike.values(), key=lambda g: (_pair(episode, g[0][0]), g[0][1].request))
    return Table(
        name="requests",
        title="Verdict of every request",
        columns=(
            Column(key="configuration", title="configuration", common=True),
            Column(key="pair", title="arms", common=True),
            Column(key="request", title="request", kind="count"),
            Column(key="verdict", title="verdict"),
            Column(key="evidence", title="evidence", common=True),
            Column(key="token", title="first token that differs", kind="count"),
            Column(key="first_drift", title="first drift", kind="count"),
            *drift_columns("largest_drift", "largest drift"),
            Column(key="exposure", title="cached/prompt"),
            Column(key="attributable", title="attributable", kind="flag"),
            Column(key="repeats", title="repeats alike", kind="count", unit="comparisons"),
            Column(key="reason", title="why", kind="sentence"),
        ),
        rows=tuple(_row(episode, group, names) for group in groups),
        basis=basis(
            (record.arm.place.carry for record in episode.arms),
            counts="requests and tokens count from 0",
        ),
        shown_rows=SHOWN,
    )


def _pair(episode: EpisodeRecord, comparison: Comparison) -> str:
    a, b = episode.arms[comparison.baseline], episode.arms[comparison.arm]
    return f"{a.group_label} vs {b.group_label}"


def _sameness(request: RequestVerdict) -> tuple[object, ...]:
    """What repeats of one pair must share to stand in one row."""
    flip = request.flip
    chosen = None if flip is None else (flip.position, flip.a.token_id, flip.b.token_id)
    return (request.verdict, request.first_drift, request.max_drift, chosen, request.reason)


def _row(
    episode: EpisodeRecord, group: list[tuple[Comparison, RequestVerdict]], names: Mapping[Key, str]
) -> tuple[Cell, ...]:
    comparison, request = group[0]
    return (
        names[episode.arms[comparison.baseline].configuration],
        _pair(episode, comparison),
        request.request,
        str(request.verdict),
        None if request.evidence is None else str(request.evidence),
        None if request.flip is None else request.flip.position,
        request.first_drift,
        *under_its_name(request.max_drift, request.drift_from),
        exposure_text(request.exposure_a, request.exposure_b),
        request.attributable,
        len(group),
        request.reason or None,
    )
