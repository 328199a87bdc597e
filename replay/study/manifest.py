"""``manifest.json``: what the paper asks every study to disclose, gathered from what was observed."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from replay.study.cells import Cell
from replay.study.study_file import Study
from tracer.episode import Arm
from tracer.errors import TraceFormatError
from tracer.tracefile import TraceReader
from tracer.tracefile.writer import writer_name

MANIFEST_FILE = "manifest.json"
_NEVER_OBSERVED = "no trace yet"


def write_manifest(study: Study, cells: Sequence[Cell], folder: Path) -> Path:
    """Write the manifest of everything that is in the folder now."""
    path = folder / MANIFEST_FILE
    half = folder / f".{MANIFEST_FILE}.{os.getpid()}"
    half.write_bytes(msgspec.json.format(msgspec.json.encode(manifest_of(study, cells, folder)), indent=1))
    half.replace(path)
    return path


def manifest_of(study: Study, cells: Sequence[Cell], folder: Path) -> dict[str, Any]:
    """The study as it was asked for, and each cell as its traces say it was run."""
    asked_for = msgspec.to_builtins(study)
    del asked_for["folder"]  # a place on this machine, which says nothing about the result
    return {
        "written_by": writer_name(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "study": asked_for,
        "workload_file_sha256": cells[0].data_sha256 if cells else None,
        "cells": {cell.cell_id: _of_cell(cell, folder) for cell in cells},
    }


def _of_cell(cell: Cell, folder: Path) -> dict[str, Any] | str:
    """Engine, layers, sampling, order and hashes; what nothing observed is absent.

    A hash that is the same in all episodes stands once; others stand episode by episode.
    """
    order = []
    hashes: dict[str, dict[str, str]] = {}
    first: dict[str, Any] | None = None
    for path in sorted((folder / cell.cell_id).glob("*.msgpack")):
        try:
            with TraceReader.open(path) as trace:
                if not trace.arms:
                    continue
                order.append((trace.arms[0].place.position, trace.episode.episode_id))
                for name, value in trace.episode.workload.params.items():
                    if "sha256" in name:
                        hashes.setdefault(name, {})[trace.episode.episode_id] = str(value)
                first = first or _of_trace(trace)
        except TraceFormatError:
            continue
    if first is None:
        return _NEVER_OBSERVED
    workload = first["workload"] | {name: _once_or_each(values) for name, values in hashes.items()}
    return {
        **first,
        "workload": workload,
        "carry": str(cell.arms.carry),
        "order": [name for _, name in sorted(order)],
    }


def _once_or_each(values: dict[str, str]) -> str | dict[str, str]:
    different = set(values.values())
    return different.pop() if len(different) == 1 else dict(sorted(values.items()))


def _of_trace(trace: TraceReader) -> dict[str, Any]:
    engine = msgspec.to_builtins(trace.arms[0].engine)
    workload = msgspec.to_builtins(trace.episode.workload)
    telling = {k: v for k, v in workload["params"].items() if k in ("subset", "note")}
    return {
        "engine": {key: value for key, value in engine.items() if value is not None},
        "arms": [_of_arm(arm) for arm in trace.arms],
        "sampling": msgspec.to_builtins(trace.arms[0].sampling),
        "alternatives": trace.arms[0].top_k,
        "workload": {**{key: workload[key] for key in ("name", "version", "history", "agent")}, **telling},
    }


def _of_arm(arm: Arm) -> dict[str, Any]:
    """The cache layers of one arm, on or off; None = not observed."""
    return {
        "label": arm.label,
        "state": str(arm.state),
        "priming": str(arm.priming),
        "way": str(arm.way),
        "prefix_cache": arm.engine.prefix_cache,
        "prompt_cache_bytes": arm.engine.prompt_cache_bytes,
    }
