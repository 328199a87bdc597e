"""The trace file: one episode under one engine configuration, with all its arms.

Public surface of the package (docs/trace-format.md describes the bytes)::

    with TraceWriter.create(path, episode) as writer: ...      # new file, takes the writer's lock
    with TraceWriter.append(path) as writer: ...               # truncates a torn tail first
        arm = writer.begin_arm(arm)                            # Arm with its index set
        writer.write_request(arm.index, request, prompt_ids=…, path=…, alternatives=…, rows=…, pieces=…)
        writer.end_arm(arm.index, ArmEnd(...))

    trace = TraceReader.open(path)       # never raises on a torn tail: see trace.losses
    trace.episode, trace.arms, trace.losses
    trace.requests(arm)                  # tuple[Request, ...] in order
    trace.end(arm)                       # ArmEnd | None (None = incomplete)
    trace.prompt_ids(arm, i)             # int32[prompt] | None
    trace.path(arm, i)                   # PathColumns
    trace.alternatives(arm, i)           # Alternatives | None
    trace.rows(arm, i)                   # float32[n, vocabulary] | None
    trace.piece(token_id)                # bytes | None
    trace.has_rows(arm, i); trace.refresh()   # follow a file that is being written
    read_header(path)                    # TraceHead: episode, arms, numbers of requests; no columns

Names are looked up on first use: reading and writing import numpy, scrubbing does not, and on
some GPU hosts the llama library has to be loaded before numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.tracefile.head import ArmHead, TraceHead, read_header
    from tracer.tracefile.losses import Loss, LossKind
    from tracer.tracefile.reader import TraceReader
    from tracer.tracefile.writer import TraceWriter

_HOMES = {
    "ArmHead": "head",
    "Loss": "losses",
    "LossKind": "losses",
    "TraceHead": "head",
    "TraceReader": "reader",
    "TraceWriter": "writer",
    "read_header": "head",
}

__all__ = ["ArmHead", "Loss", "LossKind", "TraceHead", "TraceReader", "TraceWriter", "read_header"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
