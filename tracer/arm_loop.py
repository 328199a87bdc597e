"""THE loop that executes an arm. Recording and every kind of replay call it, nothing else serves requests.

For each request of the source: bring the cache to the arm's state, compute the exposure to expect,
let the engine serve it, let the agent digest the answer, and write the request. ``serve_again``
runs a recorded arm once more without writing, holding each request to its record; it is how a
reference arm's states are made anew for ``snapshot``.

What is on disk after a hard kill: every request whose ``write_request`` returned. The arm then has
no end and is incomplete; ``execute_arm(…, committed=…)`` takes it up again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from tracer import cache_states
from tracer.engines.base import Engine, GenerateCall, Generation
from tracer.episode import (
    DEFAULT_TOP_K,
    Arm,
    ArmEnd,
    CacheState,
    Exposure,
    Priming,
    Request,
    RequestError,
    RunPlace,
    Sampling,
    StopReason,
    Timing,
    Way,
)
from tracer.errors import CachetraceError, EngineDied, EngineError, UsageError
from tracer.prefix_break import PreviousRequest, find_prefix_break
from tracer.progress import ArmProgress, Silent
from tracer.request_source import Answer, AnswerDigest, PlannedRequest, RequestSource
from tracer.resume import CommittedArm, CommittedRequest, check_same_answer, check_same_prompt
from tracer.state_shelf import StateShelf

if TYPE_CHECKING:
    from tracer.tracefile import TraceWriter


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
    sampling: Sampling = Sampling()
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


def execute_arm(
    engine: Engine,
    plan: ArmPlan,
    source: RequestSource,
    writer: TraceWriter,
    progress: ArmProgress | None = None,
    *,
    committed: CommittedArm | None = None,
) -> ArmEnd:
    """Run one arm to its end and write it; returns the end that was written.

    A request that the engine fails is written with its error and ends the arm as failed
    (``completed=False``, one sentence in ``reason``); the earlier requests stay. Before the arm is
    begun ``StateRefused`` and ``EngineError`` are raised and nothing is written. On Ctrl-C the arm
    stays without an end and ``KeyboardInterrupt`` goes on. With ``committed`` that arm is taken up
    after its last request instead of beginning a new one; raises ``UsageError`` if that cannot
    give the arm that an undisturbed run would have given.
    """
    raise NotImplementedError


def serve_again(
    engine: Engine,
    plan: ArmPlan,
    source: RequestSource,
    committed: CommittedArm,
    progress: ArmProgress | None = None,
) -> None:
    """Serve a recorded arm again without writing; fills ``plan.keep_states``.

    Raises ``UsageError`` if any request gives other tokens or other numbers than its record.
    """
    raise NotImplementedError
