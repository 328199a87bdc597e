"""Which of several changes is the smaller one, and which came nearer to agreement."""

from __future__ import annotations

from collections.abc import Sequence

from replay.bisect.outcome import Agreement, Trial

ABOUT_THE_SAME = 1.25
"""Times within this factor are equal: two runs of one configuration were seen 17 % apart."""


def smallest_first(trials: Sequence[Trial], default: Trial) -> list[Trial]:
    """The changes in the order in which one would rather make them: least time first.

    Where the time is about the same, the one that moves the default's cold numbers least comes first.
    """
    cheapest = min((_seconds(trial, default) for trial in trials), default=0.0)

    def size(trial: Trial) -> tuple[bool, int, float, float]:
        seconds, moved = _seconds(trial, default), trial.cold_moved
        if seconds > cheapest * ABOUT_THE_SAME or moved is None:
            return (True, 0, 0.0, seconds)
        return (False, moved.flipped, moved.max_drift or 0.0, seconds)

    return sorted(trials, key=size)


def _seconds(trial: Trial, default: Trial) -> float:
    """Time that the default's warm tokens would take under this configuration; unknown comes last."""
    needed = trial.warm_speed.seconds(default.prompt_tokens, default.output_tokens)
    return float("inf") if needed is None else needed


def distance(trial: Trial) -> tuple[int, int, float]:
    """How far a configuration alone was from agreement: refused ones last."""
    cross = trial.cross
    if cross is None or trial.agreement is Agreement.NOT_VERIFIED:
        return (1, 0, 0.0)
    return (0, cross.flipped, cross.max_drift or 0.0)
