"""What is decided about an arm before its first request."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tracer.episode import DEFAULT_TOP_K, Arm, CacheState, Priming, RunPlace, Sampling, Way
from tracer.state_shelf import StateShelf


class StartFrom(StrEnum):
    """How the caches stand when an arm begins."""

    FRESH = "fresh"
    """Every layer is emptied first."""
    AS_LEFT = "as left"
    """As the arm, pass or episode before left them (``--passes``, ``--carry-over``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmPlan:
    """Everything that is decided about an arm before its first request."""

    state: CacheState
    priming: Priming
    way: Way
    place: RunPlace
    sampling: Sampling = field(default_factory=Sampling)
    top_k: int = DEFAULT_TOP_K
    keep_rows: bool = False
    repeat: int = 0
    pass_index: int = 0
    start_from: StartFrom = StartFrom.FRESH
    source_arm: int | None = None
    reference_arm: int | None = None
    states_met: StateShelf | None = None
    """``snapshot``: the state that each request met in the reference arm."""
    keep_states: StateShelf | None = None
    """Where to put the state that each request of THIS arm meets; None = nowhere."""
    sentinel_ids: tuple[int, ...] | None = None
    """Served once, unrecorded, before the first request (``--sentinel``)."""
    command: str | None = None
    """Already scrubbed."""
    environment: dict[str, str] | None = None
    """Already reduced to the allow-list."""
    note: str | None = None

    @classmethod
    def of(
        cls,
        arm: Arm,
        *,
        keep_rows: bool = False,
        states_met: StateShelf | None = None,
        keep_states: StateShelf | None = None,
    ) -> ArmPlan:
        """The plan of an arm that was begun, to take it up again or to serve it again from a fresh start."""
        return cls(
            state=arm.state,
            priming=arm.priming,
            way=arm.way,
            place=arm.place,
            sampling=arm.sampling,
            top_k=arm.top_k,
            keep_rows=keep_rows,
            repeat=arm.repeat,
            pass_index=arm.pass_index,
            start_from=StartFrom.AS_LEFT if arm.pass_index else StartFrom.FRESH,
            source_arm=arm.source_arm,
            reference_arm=arm.reference_arm,
            states_met=states_met,
            keep_states=keep_states,
            command=arm.command,
            environment=arm.environment,
            note=arm.note,
        )
