"""A trace in memory, made from columns by hand, that counts what is read of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from tracer.columns import Alternatives, PathColumns, PositionFlag
from tracer.episode import (
    Arm,
    ArmEnd,
    CacheState,
    Capabilities,
    EngineInfo,
    Episode,
    Exposure,
    ExposureSource,
    Priming,
    PromptRef,
    Request,
    RunPlace,
    Sampling,
    Scale,
    StopReason,
    Way,
    WorkloadSpec,
    default_priming,
)


@dataclass
class Served:
    """One request with its columns."""

    request: Request
    path: PathColumns
    alternatives: Alternatives | None = None
    prompt: tuple[int, ...] = (1, 2, 3)
    rows: np.ndarray | None = None


@dataclass
class MemoryTrace:
    """Implements ``replay.divergence.ReadableTrace``."""

    arms: list[Arm] = field(default_factory=list)
    served: list[list[Served]] = field(default_factory=list)
    ends: list[ArmEnd | None] = field(default_factory=list)
    episode: Episode = field(
        default_factory=lambda: Episode(
            episode_id="e0", workload=WorkloadSpec(name="office"), created_at=0.0, writer="test"
        )
    )
    reads: Counter = field(default_factory=Counter)
    pieces: dict[int, bytes] | None = None

    def requests(self, arm):
        return tuple(one.request for one in self.served[arm])

    def end(self, arm):
        return self.ends[arm]

    def prompt_ids(self, arm, request):
        return np.array(self.served[arm][request].prompt, np.int32)

    def path(self, arm, request):
        self.reads["path"] += 1
        return self.served[arm][request].path

    def alternatives(self, arm, request):
        self.reads["alternatives"] += 1
        return self.served[arm][request].alternatives

    def rows(self, arm, request):
        return self.served[arm][request].rows

    def has_rows(self, arm, request):
        return self.served[arm][request].rows is not None

    def piece(self, token_id):
        if self.pieces is not None:
            return self.pieces.get(token_id)
        return b"t%d" % token_id

    def add_arm(self, served, *, state=CacheState.COLD, complete=True, **fields):
        """Append an arm; requests get their index, a prompt hash and an exposure that fits the state."""
        index = len(self.arms)
        way = fields.pop("way", Way.RECORDED if index == 0 else Way.FIXED)
        self.arms.append(
            Arm(
                index=index,
                state=state,
                priming=fields.pop("priming", default_priming(state)),
                way=way,
                engine=fields.pop("engine", EngineInfo(engine="fake", model_hash="sha256:a", threads=2)),
                capabilities=Capabilities(token_ids=True, top_k=20),
                sampling=fields.pop("sampling", Sampling()),
                place=RunPlace(run_id="r"),
                started_at=0.0,
                source_arm=fields.pop("source_arm", 0 if index and way is not Way.CLOSED_LOOP else None),
                **fields,
            )
        )
        placed = []
        for i, one in enumerate(served):
            request = replace(
                one.request,
                index=i,
                prompt=one.request.prompt or PromptRef(tail_tokens=len(one.prompt)),
                prompt_tokens=len(one.prompt),
                prompt_hash=one.request.prompt_hash or f"xxh3:{one.prompt}",
                output_tokens=len(one.path),
            )
            placed.append(Served(request, one.path, one.alternatives, one.prompt, one.rows))
        self.served.append(placed)
        self.ends.append(ArmEnd(requests=len(served), completed=True) if complete else None)
        return index


def exposure(cached, expected=None):
    return Exposure(
        prompt_tokens=3,
        cached_tokens=cached,
        expected_tokens=cached if expected is None else expected,
        source=ExposureSource.ENGINE,
    )


def served(tokens, *, values=None, lse=None, prints=None, lists=None, scale=Scale.LOGIT, cached=0, **fields):
    """A request by hand. A position has one {id: value} in ``lists``, best first, one int in ``prints``."""
    n = len(tokens)
    flags = np.zeros(n, np.uint8)
    if values is not None:
        flags |= np.uint8(PositionFlag.VALUE)
    alternatives = None
    if lists is not None:
        k = max([len(one) for one in lists], default=0)
        ids, numbers = np.zeros((n, k), np.int32), np.zeros((n, k), np.float32)
        counts = np.array([len(one) for one in lists], np.uint8)
        for p, one in enumerate(lists):
            ids[p, : len(one)] = list(one)
            numbers[p, : len(one)] = list(one.values())
        flags[counts > 0] |= np.uint8(PositionFlag.ALTERNATIVES)
        alternatives = Alternatives(ids, numbers, counts)
    path = PathColumns(
        np.array(tokens, np.int32),
        flags | np.uint8(fields.pop("flags", 0)),
        None if values is None else np.array(values, np.float32),
        None if lse is None else np.array(lse, np.float32),
        None if prints is None else np.array([(p, 0) for p in prints], np.uint64).reshape(n, 2),
    )
    prompt = fields.pop("prompt", (1, 2, 3))
    rows = fields.pop("rows", None)
    request = Request(
        index=0,
        scale=scale if values is not None or lists is not None else None,
        exposure=fields.pop("exposure", exposure(cached)),
        stop=fields.pop("stop", StopReason.STOP),
        **fields,
    )
    return Served(request, path, alternatives, prompt, rows)


def two_arms(a, b, **fields):
    """A trace of a cold recording and one warm fixed arm."""
    trace = MemoryTrace()
    trace.add_arm(a)
    trace.add_arm(b, state=CacheState.WARM, priming=Priming.OWN, **fields)
    return trace
