"""What a stopped arm already holds, and the check that serving it again gives the same.

A resumed arm must equal an undisturbed one. The source is fed the stored answers; where the cache
depends on the arm's own history, the engine serves the committed requests again, unrecorded, and
its tokens and numbers have to be the recorded ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracer.engines.base import Generation
from tracer.episode import Arm, EngineInfo, Request, StopReason
from tracer.errors import UsageError
from tracer.request_source import Answer, PlannedRequest
from tracer.resolved import side_by_side

if TYPE_CHECKING:
    from tracer.columns import PathColumns
    from tracer.tracefile import TraceReader


@dataclass(frozen=True, slots=True)
class CommittedRequest:
    """One request that is already in the file, with the columns that a second serving must repeat."""

    request: Request
    prompt_ids: tuple[int, ...]
    path: PathColumns

    @property
    def answer(self) -> Answer:
        """What the agent is told, as the engine's answer was told to it."""
        return Answer(
            token_ids=tuple(int(i) for i in self.path.token_ids),
            text=self.request.text,
            stopped_by_length=self.request.stop is StopReason.LENGTH,
        )


@dataclass(frozen=True, slots=True)
class CommittedArm:
    """An arm as far as it was written."""

    arm: Arm
    requests: tuple[CommittedRequest, ...]

    @classmethod
    def read(cls, trace: TraceReader, arm: Arm) -> CommittedArm:
        """All committed requests of ``arm``."""
        committed = []
        for request in trace.requests(arm):
            ids = trace.prompt_ids(arm, request.index)
            if ids is None:
                raise UsageError(
                    f"arm {arm.label} cannot be taken up again: request {request.index} has no prompt ids."
                )
            prompt = tuple(int(i) for i in ids)
            committed.append(CommittedRequest(request, prompt, trace.path(arm, request.index)))
        return cls(arm=arm, requests=tuple(committed))


def check_same_engine(arm: Arm, info: EngineInfo) -> None:
    """An arm can only be taken up by the engine configuration that began it."""
    begun, at_hand = side_by_side(arm.engine, info)
    for name in info.__struct_fields__:
        before, now = getattr(begun, name), getattr(at_hand, name)
        if before != now:
            raise UsageError(
                f"this arm was begun with {name} {before!r} and the engine now has {now!r}; "
                "take it up with the engine and settings that it was begun with."
            )


def check_same_prompt(committed: CommittedRequest, planned: PlannedRequest) -> None:
    """The task must ask the same again; it does not if it reads a clock or a changed file."""
    if committed.prompt_ids != planned.prompt_ids:
        raise UsageError(
            f"request {committed.request.index} has another prompt than the one recorded, so this arm cannot "
            "be taken up again; record the episode anew."
        )


def check_same_answer(committed: CommittedRequest, generation: Generation) -> None:
    """A second serving must give the recorded tokens and, where both are observed, the recorded rows."""
    import numpy as np

    index = committed.request.index
    before, now = committed.path, generation.path
    if not np.array_equal(before.token_ids, now.token_ids):
        raise UsageError(
            f"request {index} gave other tokens when it was served again, so its cache cannot be built "
            "again; run this arm anew."
        )
    for name in ("fingerprints", "chosen_values", "log_sum_exp"):
        old, new = getattr(before, name), getattr(now, name)
        if (
            old is not None
            and new is not None
            and not np.array_equal(old, new, equal_nan=name != "fingerprints")
        ):
            raise UsageError(
                f"request {index} gave the same tokens but other numbers when it was served again, so its "
                "cache cannot be built again; run this arm anew, with the same engine and settings."
            )
