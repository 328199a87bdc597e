"""Where prompts depart from what the cache holds after the request before, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stats.report.configuration import Key
from stats.report.records import ArmRecord, EpisodeRecord
from stats.tables.basis import basis
from stats.tables.table import Cell, Column, Table
from tracer.episode import PrefixBreak, Way

SHOWN = 40
NOT_GUESSED = "no guess"


def prefix_stability_table(episodes: Sequence[EpisodeRecord], names: Mapping[Key, str]) -> Table | None:
    """One row a request whose prompt breaks the prefix; None when every prompt only appends.

    Arms that follow recorded prompts break where the recording does, so each episode is told once.
    """
    rows = [
        _row(episode, arm, request, found, names)
        for episode in episodes
        if (arm := _own_prompts(episode)) is not None
        for request, found in arm.facts.prefix_breaks
    ]
    if not rows:
        return None
    return Table(
        name="prefix_stability",
        title="Prompts that break the prefix",
        columns=(
            Column(key="configuration", title="configuration", common=True),
            Column(key="episode", title="episode", common=True),
            Column(key="request", title="request", kind="count"),
            Column(key="token", title="first token that departs", kind="count"),
            Column(key="lost", title="reuse lost", kind="count", unit="tokens"),
            Column(key="cause", title="likely cause", kind="sentence"),
            Column(key="before", title="after"),
            Column(key="was", title="was"),
            Column(key="now", title="is"),
        ),
        rows=tuple(rows),
        basis=basis(
            (arm.arm.place.carry for episode in episodes for arm in episode.arms),
            counts="requests and tokens count from 0",
        ),
        notes=(
            "A prompt is held against the previous prompt plus the ids generated for it; causes are guesses "
            "from the two texts.",
        ),
        shown_rows=SHOWN,
    )


def _own_prompts(episode: EpisodeRecord) -> ArmRecord | None:
    """The first arm whose prompts are its own: the recording, or one in closed loop."""
    own = [arm for arm in episode.arms if arm.arm.way in (Way.RECORDED, Way.CLOSED_LOOP)]
    return next(iter(own or episode.arms), None)


def _row(
    episode: EpisodeRecord, arm: ArmRecord, request: int, found: PrefixBreak, names: Mapping[Key, str]
) -> tuple[Cell, ...]:
    return (
        names[arm.configuration],
        episode.episode.episode_id,
        request,
        found.position,
        found.reuse_lost_tokens,
        found.cause or NOT_GUESSED,
        found.context_before[-24:],
        found.was[:24],
        found.now[:24],
    )
