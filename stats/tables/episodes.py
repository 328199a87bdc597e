"""How episodes went: steps, calls that could be decoded, endings and scores, in each arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from msgspec import Struct

from stats.clustered_rate import clustered_rate
from stats.report.configuration import Key
from stats.report.courses import Course, Ending, course_of
from stats.report.records import ArmRecord, EpisodeRecord
from stats.tables.basis import basis, carry_word
from stats.tables.table import Cell, Column, Table
from tracer.episode import Carry

MOST_REASONS = 4


class _RowKey(Struct, frozen=True):
    configuration: Key
    workload: str
    teacher_forced: bool
    arm: str
    carry: Carry


class _Went(Struct, frozen=True):
    """One episode of a row."""

    course: Course
    counts: bool


_Rows = Mapping[_RowKey, Sequence[_Went]]


def episodes_table(episodes: Sequence[EpisodeRecord], names: Mapping[Key, str]) -> Table | None:
    """One row a configuration and arm; None when no outcome says how its episode went."""
    rows = _gathered(episodes)
    if not rows:
        return None
    return Table(
        name="episodes",
        title="How episodes went",
        columns=(
            Column(key="configuration", title="configuration", common=True),
            Column(key="workload", title="workload", common=True),
            Column(key="prompts", title="prompts from", common=True),
            Column(key="arm", title="arm"),
            Column(key="kept", title="caches", common=True),
            Column(key="episodes", title="n", kind="count", unit="episodes"),
            Column(key="may_count", title="may count", kind="count", unit="episodes"),
            Column(key="median_steps", title="median steps", kind="number"),
            Column(key="fewest_steps", title="fewest", kind="count", unit="requests"),
            Column(key="most_steps", title="most", kind="count", unit="requests"),
            Column(key="decoded_steps", title="decoded", kind="count", unit="requests"),
            Column(key="steps", title="of steps", kind="count", unit="requests"),
            Column(key="decode_rate", title="decode rate", kind="share"),
            Column(key="decode_interval", title="95 %, by episode", kind="share_interval"),
            Column(key="steps_like_oracle", title="steps like the transcript", kind="count"),
            Column(key="blocked_calls", title="blocked calls", kind="count"),
            Column(key="refused_by_sandbox", title="refused by the sandbox", kind="count", quiet=True),
            Column(key="scored", title="scored", kind="count", unit="episodes"),
            Column(key="solved", title="solved", kind="count", unit="episodes"),
            *(
                Column(key=ending.name.lower(), title=str(ending), kind="count", unit="episodes", quiet=True)
                for ending in Ending
            ),
        ),
        rows=tuple(_row(key, went, names) for key, went in rows.items()),
        basis=basis(
            (key.carry for key in rows),
            counts="n counts episodes; of repeats and passes the first one speaks",
        ),
        notes=tuple(_notes(rows)),
    )


def _gathered(episodes: Sequence[EpisodeRecord]) -> dict[_RowKey, list[_Went]]:
    """Every episode once a row, by its first arm that says how it went."""
    found: dict[_RowKey, dict[str, _Went]] = {}
    for episode in sorted(episodes, key=lambda e: (e.started_at, e.path)):
        for record in sorted(episode.arms, key=lambda r: (r.arm.repeat, r.arm.pass_index, r.arm.index)):
            course = course_of(record)
            if course is not None:
                row = found.setdefault(_row_key(episode, record), {})
                row.setdefault(episode.episode.episode_id, _Went(course, record.may_count))
    # Where no arm of a row has an outcome, only the failed ones would be counted.
    return {
        key: list(row.values())
        for key, row in found.items()
        if any(one.course.has_outcome for one in row.values())
    }


def _row_key(episode: EpisodeRecord, record: ArmRecord) -> _RowKey:
    workload = episode.episode.workload
    return _RowKey(
        configuration=record.configuration,
        workload=workload.name,
        teacher_forced=workload.agent == "oracle",
        arm=record.group_label,
        carry=record.arm.place.carry,
    )


def _row(key: _RowKey, went: Sequence[_Went], names: Mapping[Key, str]) -> tuple[Cell, ...]:
    counted = [one.course for one in went if one.counts]
    steps = [course.steps for course in counted]
    decoded = [(course.decoded, course.steps) for course in counted if course.decoded is not None]
    rate = clustered_rate([d for d, _ in decoded], [s for _, s in decoded])
    scored = [course.solved for course in counted if course.solved is not None]
    endings = Counter(one.course.ending for one in went)
    return (
        names[key.configuration],
        key.workload,
        "the transcript (teacher-forced)" if key.teacher_forced else "the model's own answers",
        key.arm,
        carry_word(key.carry),
        len(went),
        len(counted),
        median(steps) if steps else None,
        min(steps, default=None),
        max(steps, default=None),
        rate.events if rate else None,
        rate.total if rate else None,
        rate.rate if rate else None,
        rate.interval if rate else None,
        _sum(course.like_oracle for course in counted),
        _sum(course.blocked for course in counted),
        _sum(None if course.refused is None else len(course.refused) for course in counted),
        len(scored) if counted else None,
        sum(scored) if scored else None,
        *(endings[ending] for ending in Ending),
    )


def _sum(values: Iterator[int | None]) -> int | None:
    seen = [value for value in values if value is not None]
    return sum(seen) if seen else None


def _notes(rows: _Rows) -> Iterator[str]:
    courses = [one.course for went in rows.values() for one in went]
    yield (
        "Endings are of all n; steps, calls and scores of those that may count: an arm that failed, or whose "
        "cache state was not verified, gives no rate."
    )
    if any(course.decoded is not None for course in courses):
        yield (
            "Decode rate: steps whose answer could be decoded into calls, of all steps. A turn is meant to "
            "end with an answer without a call, so a perfect agent stays below 100 %. Episodes are resampled "
            "whole."
        )
    if any(key.teacher_forced for key in rows):
        yield (
            "Teacher-forced: the transcript's own answers go into the history, whatever the model says, so "
            "nothing is scored."
        )
    for reason, n in _most_common([c.not_scored for c in courses if c.not_scored]):
        yield f"Not scored, {n} of {len(courses)}: {reason}."
    for what, n in _most_common([what for course in courses for what in course.refused or ()]):
        yield f"Refused by the sandbox, {n} ×: {what}."


def _most_common(texts: Sequence[str]) -> list[tuple[str, int]]:
    return Counter(texts).most_common(MOST_REASONS)
