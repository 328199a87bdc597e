"""What divergence needs of a trace: the reading half of ``tracer.tracefile.TraceReader``.

A protocol, so that traces in memory (tests, merged views) can be compared like files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tracer.columns import Alternatives, PathColumns
from tracer.episode import Arm, ArmEnd, Episode, Request


class ReadableTrace(Protocol):
    """One episode with its arms; arms are named by index."""

    @property
    def episode(self) -> Episode: ...

    @property
    def arms(self) -> Sequence[Arm]: ...

    def requests(self, arm: int) -> Sequence[Request]: ...

    def end(self, arm: int) -> ArmEnd | None: ...

    def prompt_ids(self, arm: int, request: int) -> NDArray[np.int32] | None: ...

    def path(self, arm: int, request: int) -> PathColumns: ...

    def alternatives(self, arm: int, request: int) -> Alternatives | None: ...

    def rows(self, arm: int, request: int) -> NDArray[np.float32] | None: ...

    def has_rows(self, arm: int, request: int) -> bool: ...

    def piece(self, token_id: int) -> bytes | None: ...


@dataclass(frozen=True, slots=True)
class Side:
    """One arm of one trace, as a side of a comparison."""

    trace: ReadableTrace
    index: int

    @property
    def arm(self) -> Arm:
        return self.trace.arms[self.index]

    @property
    def complete(self) -> bool:
        """Whether the arm reached its end."""
        end = self.trace.end(self.index)
        return end is not None and end.completed
