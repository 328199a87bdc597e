"""How an arm went through its episode: what its outcome's details and its end say, whatever the workload."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from stats.report.records import ArmRecord
from tracer.episode import ArmEnd

LONGEST_TEXT = 200
"""What a sandbox refused bears a model's own words."""


class Ending(StrEnum):
    """Why an episode ended."""

    COMPLETED = "completed"
    FORCE_TERMINATED = "force_terminated"
    """By the workload's own limit of steps."""
    WORKER_LOST = "worker lost"
    """The process that ran the tools was ended, or ended itself."""
    CONTEXT_EXCEEDED = "context exceeded"
    ENDED_OTHERWISE = "ended otherwise"


class Course(Struct, frozen=True, kw_only=True):
    """One arm's way through its episode. None = not observed, or not a thing of this workload."""

    ending: Ending
    has_outcome: bool
    """False for an arm that was cut off before its workload could say how it went."""
    steps: int
    decoded: int | None
    """Steps whose answer could be decoded into calls."""
    like_oracle: int | None
    """Steps at which the model did what the transcript does."""
    blocked: int | None
    """Calls that a gate refused to execute."""
    refused: tuple[str, ...] | None
    """What the sandbox refused."""
    solved: bool | None
    not_scored: str | None
    """Why the workload gave no score, in its words."""
    isolation: tuple[tuple[str, str], ...]
    """What kept the tools apart from the machine, by name."""


def course_of(record: ArmRecord) -> Course | None:
    """None for an arm that has no end, or that ended as planned without an outcome to tell of."""
    end = record.end
    if end is None or (end.completed and end.outcome is None):
        return None
    outcome = end.outcome
    details: Mapping[str, Any] = {} if outcome is None else outcome.details
    solved = None if outcome is None else outcome.solved
    course = Course(
        ending=_ending(end, grew_too_long=record.facts.grew_too_long),
        has_outcome=outcome is not None,
        steps=record.facts.requests,
        decoded=None
        if "decoder_lost" in details
        else _count(details, "decoded_steps", record.facts.requests),
        like_oracle=_count(details, "steps_like_oracle", record.facts.requests),
        blocked=_count(details, "blocked_calls"),
        refused=_texts(details.get("refused_by_sandbox")),
        solved=solved,
        not_scored=_text(details.get("not_scored")),
        isolation=_named_texts(details.get("isolation")),
    )
    tells = solved is not None or "steps" in details or course.ending is not Ending.COMPLETED
    return course if tells else None


def _ending(end: ArmEnd, *, grew_too_long: bool) -> Ending:
    if not end.completed:
        return Ending.CONTEXT_EXCEEDED if grew_too_long else Ending.ENDED_OTHERWISE
    word = "" if end.outcome is None else end.outcome.ended.partition(":")[0]
    return next((ending for ending in Ending if ending == word), Ending.ENDED_OTHERWISE)


def _count(details: Mapping[str, Any], name: str, most: int | None = None) -> int | None:
    """A trace may say anything: what cannot be such a count was not observed."""
    value = details.get(name)
    if type(value) is not int or value < 0 or (most is not None and value > most):
        return None
    return value


def _text(value: object) -> str | None:
    return value[:LONGEST_TEXT] if isinstance(value, str) and value else None


def _texts(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, (list, tuple)):
        return None
    return tuple(item[:LONGEST_TEXT] for item in value if isinstance(item, str))


def _named_texts(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        return ()
    named = ((str(name), said) for name, said in value.items() if isinstance(said, str))
    return tuple((name[:LONGEST_TEXT], said[:LONGEST_TEXT]) for name, said in named)
