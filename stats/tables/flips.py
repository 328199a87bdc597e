"""Every flip: where, which tokens, by how little, and what the drift of the other requests says to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from replay.verdicts import Comparison, FlipSide, RequestVerdict
from stats.report.configuration import Key
from stats.report.records import EpisodeRecord
from stats.tables.basis import basis
from stats.tables.drift import drift_columns, under_its_name
from stats.tables.table import Cell, Column, Table
from tracer.clean_text import token
from tracer.episode import Exposure

SHOWN = 20


def flips_table(episodes: Sequence[EpisodeRecord], names: Mapping[Key, str]) -> Table | None:
    """One row a flip, cross-arm first; None when nothing flipped."""
    found = list(all_flips(episodes))
    if not found:
        return None
    alike: dict[tuple[object, ...], list[tuple[EpisodeRecord, Comparison, RequestVerdict]]] = {}
    for one in found:
        alike.setdefault(_sameness(*one), []).append(one)
    rows = tuple(_row(*group[0], names, len(group)) for group in alike.values())
    return Table(
        name="flips",
        title="Flips",
        columns=(
            Column(key="episode", title="episode", common=True),
            Column(key="configuration", title="configuration", common=True),
            Column(key="pair", title="arms"),
            Column(key="request", title="request", kind="count"),
            Column(key="token", title="token", kind="count"),
            Column(key="baseline_token", title="baseline token"),
            Column(key="arm_token", title="arm token"),
            Column(key="baseline_margin", title="margin", kind="number", unit="nat"),
            Column(key="arm_margin", title="margin in arm", kind="number", unit="nat"),
            Column(key="drift_at", title="drift", kind="number", unit="nat"),
            *drift_columns("drift_before", "drift before"),
            Column(key="exposure", title="cached/prompt"),
            Column(key="triage", title="triage"),
            Column(key="attributable", title="attributable", kind="flag"),
            Column(key="alike", title="repeats alike", kind="count", unit="comparisons"),
            Column(key="sentence", title="what happened", kind="sentence"),
        ),
        rows=rows,
        basis=basis(
            (a.arm.place.carry for e in episodes for a in e.arms),
            counts="one row a flip; requests and tokens count from 0",
        ),
        notes=("“Repeats alike” counts the repeats and passes of the arms that show the very same flip.",),
        shown_rows=SHOWN,
    )


def all_flips(
    episodes: Sequence[EpisodeRecord],
) -> Iterator[tuple[EpisodeRecord, Comparison, RequestVerdict]]:
    """Flips of cross-arm comparisons, then of controls, in the order of the episodes."""
    for which in ("cross", "within"):
        for episode in episodes:
            cross = (*episode.analysis.comparisons, *episode.extra_comparisons)
            for comparison in cross if which == "cross" else episode.analysis.controls:
                for request in comparison.requests:
                    if request.flip is not None:
                        yield episode, comparison, request


def exposure_text(a: Exposure | None, b: Exposure | None) -> str:
    """Cached of prompt tokens in the baseline → in the arm, "–" where not observed."""
    return f"{_cached(a)} → {_cached(b)}"


def _cached(exposure: Exposure | None) -> str:
    if exposure is None or exposure.cached_tokens is None:
        return "–"
    return f"{exposure.cached_tokens}/{exposure.prompt_tokens if exposure.prompt_tokens is not None else '–'}"


def _sameness(episode: EpisodeRecord, comparison: Comparison, request: RequestVerdict) -> tuple[object, ...]:
    """What two comparisons of repeats must share to be the same flip."""
    flip = request.flip
    assert flip is not None
    a, b = episode.arms[comparison.baseline], episode.arms[comparison.arm]
    place = (episode.path, a.group_label, b.group_label, request.request, flip.position)
    return (*place, flip.a.token_id, flip.b.token_id, flip.a.margin, flip.b.margin)


def _row(
    episode: EpisodeRecord,
    comparison: Comparison,
    request: RequestVerdict,
    names: Mapping[Key, str],
    alike: int,
) -> tuple[Cell, ...]:
    flip = request.flip
    assert flip is not None
    a, b = episode.arms[comparison.baseline], episode.arms[comparison.arm]
    return (
        episode.episode.episode_id,
        names[a.configuration],
        f"{a.arm.label} vs {b.arm.label}",
        request.request,
        flip.position,
        _token(flip.a),
        _token(flip.b),
        flip.a.margin,
        flip.b.margin,
        flip.drift_at,
        *under_its_name(flip.drift_before, flip.drift_from),
        exposure_text(request.exposure_a, request.exposure_b),
        str(flip.triage),
        request.attributable,
        alike,
        flip.sentence or None,
    )


def _token(side: FlipSide) -> str:
    if side.token_id is None:
        return "(end)"
    return token(side.token_id, side.piece)
