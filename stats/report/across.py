"""Arms of one folder against the cold arms of another, episode by episode.

For what cannot be had in one trace: a cache that is switched when the engine is launched (vLLM with
and without prefix caching), another build, another machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from replay.divergence.analyse import compare_across
from replay.divergence.pairing import arm_groups
from replay.verdicts import Comparison
from stats.report.collect import CollectOptions
from stats.report.held_trace import HeldTrace
from stats.report.records import ArmRecord, EpisodeRecord
from stats.report.series import episode_differs
from tracer.episode import CacheState
from tracer.tracefile import TraceReader


class AcrossPair(Struct, frozen=True, kw_only=True):
    """One arm of one episode against the other folder's cold arm."""

    episode_id: str
    baseline: ArmRecord
    arm: ArmRecord
    comparison: Comparison
    differs: bool | None
    why_not: str


def compare_folders(
    episodes: Sequence[EpisodeRecord], against: Sequence[EpisodeRecord], options: CollectOptions
) -> tuple[AcrossPair, ...]:
    """Every first arm of its kind against the first cold arm of the same episode in ``against``.

    Guards that do not hold are named in the comparison and do not refuse it: that another setting is
    in force is the point. Episodes that only one folder has are left out.
    """
    others: dict[str, list[EpisodeRecord]] = {}
    for episode in against:
        others.setdefault(episode.episode.episode_id, []).append(episode)
    pairs: list[AcrossPair] = []
    for ours in episodes:
        theirs = _counterpart(ours, others.get(ours.episode.episode_id, ()))
        if theirs is not None:
            pairs += _pairs(ours, theirs, options)
    return tuple(pairs)


def _counterpart(ours: EpisodeRecord, candidates: Sequence[EpisodeRecord]) -> EpisodeRecord | None:
    """The same episode under the same configuration; or under another one, when there is only one."""
    same = [
        c
        for c in candidates
        if c.arms and ours.arms and c.arms[0].configuration == ours.arms[0].configuration
    ]
    if same:
        return same[0]
    return candidates[0] if len(candidates) == 1 else None


def _pairs(ours: EpisodeRecord, theirs: EpisodeRecord, options: CollectOptions) -> Iterator[AcrossPair]:
    with TraceReader.open(ours.path) as reader_a, TraceReader.open(theirs.path) as reader_b:
        a, b = HeldTrace(reader_a), HeldTrace(reader_b)
        cold = next((r for r in theirs.arms if r.arm.state is CacheState.COLD and r.may_count), None)
        if cold is None:
            return
        for group in arm_groups(a):
            record = ours.arms[group.first]
            comparison = compare_across(
                (b, cold.arm.index),
                (a, group.first),
                anyway=True,
                near_tie=options.near_tie,
                detail=options.detail,
            )
            yield AcrossPair(
                episode_id=ours.episode.episode_id,
                baseline=cold,
                arm=record,
                comparison=comparison,
                differs=episode_differs(comparison),
                why_not=record.why_not or _not_repeated(ours, record) or _not_repeated(theirs, cold),
            )


def _not_repeated(episode: EpisodeRecord, record: ArmRecord) -> str:
    """Both arms must have repeated themselves once, as in every other rate."""
    first: Mapping[int, int] = {c.arm: c.baseline for c in episode.analysis.controls}
    home = first.get(record.arm.index, record.arm.index)
    own = [c for c in episode.analysis.controls if c.baseline == home]
    if not any(episode.arms[c.arm].may_count and episode.arms[c.baseline].may_count for c in own):
        return f"{record.arm.label} was not repeated, so there is no within-arm control"
    return ""
