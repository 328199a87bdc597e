"""A trace whose descriptions and paths are read once, since an arm stands in several comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tracer.columns import Alternatives, PathColumns
from tracer.episode import Arm, ArmEnd, Episode, Request
from tracer.tracefile import TraceReader


class HeldTrace:
    """The reading half of ``TraceReader``, with what verdicts read again and again kept in memory."""

    def __init__(self, reader: TraceReader) -> None:
        self._reader = reader
        self.episode: Episode = reader.episode
        self.arms: Sequence[Arm] = reader.arms
        self._requests = [reader.requests(arm.index) for arm in self.arms]
        self._ends = [reader.end(arm.index) for arm in self.arms]
        self._paths: dict[tuple[int, int], PathColumns] = {}

    def requests(self, arm: int) -> Sequence[Request]:
        return self._requests[arm]

    def end(self, arm: int) -> ArmEnd | None:
        return self._ends[arm]

    def path(self, arm: int, request: int) -> PathColumns:
        found = self._paths.get((arm, request))
        if found is None:
            found = self._paths[arm, request] = self._reader.path(arm, request)
        return found

    def prompt_ids(self, arm: int, request: int) -> NDArray[np.int32] | None:
        return self._reader.prompt_ids(arm, request)

    def alternatives(self, arm: int, request: int) -> Alternatives | None:
        return self._reader.alternatives(arm, request)

    def rows(self, arm: int, request: int) -> NDArray[np.float32] | None:
        return self._reader.rows(arm, request)

    def has_rows(self, arm: int, request: int) -> bool:
        return self._reader.has_rows(arm, request)

    def piece(self, token_id: int) -> bytes | None:
        return self._reader.piece(token_id)
