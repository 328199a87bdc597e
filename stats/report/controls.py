"""Every arm against itself: repeats and passes, over the episodes that count."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.verdicts import Comparison
from stats.report.configuration import Key
from stats.report.records import ArmRecord, EpisodeRecord
from stats.report.series import Control, episode_differs
from tracer.episode import CacheState, Carry


class ControlKey(Struct, frozen=True):
    """What the episodes of one within-arm rate have in common."""

    configuration: Key
    workload: str
    arm: str
    state: CacheState
    carry: Carry
    control: Control
    prompt_cache: bool | None
    """The second layer on or off; None = not known."""
    recompute_between: bool | None
    """Passes only: a cold pass over the same episode ran between the two."""


class ControlPair(Struct, frozen=True, kw_only=True):
    """One episode of a within-arm rate."""

    episode_id: str
    position: int
    comparison: Comparison
    differs: bool | None
    why_not: str


class ControlSeries(Struct, frozen=True, kw_only=True):
    """One arm against its own first repeat or first further pass, over episodes in execution order."""

    key: ControlKey
    pairs: tuple[ControlPair, ...]

    @property
    def counted(self) -> tuple[ControlPair, ...]:
        return tuple(pair for pair in self.pairs if not pair.why_not)


def control_series(episodes: Sequence[EpisodeRecord]) -> tuple[ControlSeries, ...]:
    """All within-arm comparisons; of several repeats the first one speaks, so that n counts episodes."""
    gathered: dict[ControlKey, dict[str, ControlPair]] = {}
    for episode in sorted(episodes, key=lambda e: (e.started_at, e.path)):
        for comparison in episode.analysis.controls:
            key, pair = _control_pair(episode, comparison)
            gathered.setdefault(key, {}).setdefault(pair.episode_id, pair)
    return tuple(
        ControlSeries(key=key, pairs=tuple(sorted(pairs.values(), key=lambda p: p.position)))
        for key, pairs in gathered.items()
    )


def _control_pair(episode: EpisodeRecord, comparison: Comparison) -> tuple[ControlKey, ControlPair]:
    first, again = episode.arms[comparison.baseline], episode.arms[comparison.arm]
    second_layer = first.arm.engine.prompt_cache_bytes
    key = ControlKey(
        configuration=first.configuration,
        workload=episode.episode.workload.name,
        arm=first.group_label,
        state=first.arm.state,
        carry=first.arm.place.carry,
        control=Control.PASSES if again.arm.pass_index else Control.REPEATS,
        prompt_cache=None if second_layer is None else second_layer > 0,
        recompute_between=_recompute_between(episode, first, again) if again.arm.pass_index else None,
    )
    differs = episode_differs(comparison)
    excluded = next((f"{r.arm.label}: {r.why_not}" for r in (first, again) if not r.may_count), "")
    if not excluded and comparison.refused:
        excluded = comparison.mismatches[0]
    if not excluded and differs is None:
        excluded = "whether it differs is not known"
    return key, ControlPair(
        episode_id=episode.episode.episode_id,
        position=first.arm.place.position,
        comparison=comparison,
        differs=differs,
        why_not=excluded,
    )


def _recompute_between(episode: EpisodeRecord, first: ArmRecord, again: ArmRecord) -> bool:
    return any(
        other.arm.state is CacheState.COLD
        and first.arm.started_at < other.arm.started_at < again.arm.started_at
        for other in episode.arms
    )
