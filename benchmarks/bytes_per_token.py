"""Bytes per output token: the trace file beside the server's JSON, compressed JSON Lines, and bare columns.

    python -m benchmarks.bytes_per_token

All of them hold the same observations, those of the recorded traces of `fixtures/`: token ids and the
top 20 with their values at every position. The server's JSON is in the form of llama.cpp's server (id,
text, bytes and log-probability of every alternative; such an answer is in `fixtures/wire/`), with the
prompt ids that a client sent. JSON Lines is one such answer a line, compressed as one stream: arms that
repeat each other then cost nothing twice, and nothing can be read or appended without the whole. The file
also has fingerprints of whole rows, cache counts, timings and checksums, which those do not.

Pairs are traces here: nothing is timed, so nothing has to be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks.children import ROOT
from benchmarks.command import Given, run
from benchmarks.rows import Row, against, missing
from benchmarks.turns import Effort
from tracer.tracefile import TraceReader

FEWEST_TOKENS = 100
"""Smaller traces (the sample of the format) are all description."""
ZSTD_LEVELS = (3, 19)


def rows(_: Given, effort: Effort) -> Iterator[Row]:
    del effort
    found = [sizes for file in sorted((ROOT / "fixtures").glob("*.msgpack")) if (sizes := bytes_of(file))]
    limits = {
        "columns": "the numbers alone: ids as int32, values as float32",
        "json": "no limit: the server's JSON as a client receives it, and the prompts",
        **{f"zstd -{level}": f"no limit: JSON Lines of it, zstd -{level}" for level in ZSTD_LEVELS},
        "zstd -3 by line": "no limit: the same, each request compressed by itself, as an append needs it",
    }
    for name, limit in limits.items():
        what = f"bytes a token, trace file beside {name}"
        if name in found[0]:
            yield against(what, "B", [s["file"] for s in found], limit, [s[name] for s in found])
        else:
            yield missing(what, "the package zstandard is not installed")


def bytes_of(file: Path) -> Mapping[str, float] | None:
    """What each way of keeping a trace takes, in bytes an output token; None for a trace of few tokens."""
    lines: list[bytes] = []
    tokens = numbers = 0
    with TraceReader.open(file) as trace:
        for arm in trace.arms:
            for request in trace.requests(arm):
                path, listed = trace.path(arm, request.index), trace.alternatives(arm, request.index)
                prompt = trace.prompt_ids(arm, request.index)
                if listed is None or prompt is None:
                    continue
                tokens += len(path)
                numbers += 8 * len(path) + 8 * int(listed.counts.sum())
                entries = [
                    _position(trace, int(token), ids[:count], values[:count])
                    for token, ids, values, count in zip(
                        path.token_ids, listed.ids, _logprobs(path, listed.values), listed.counts, strict=True
                    )
                ]
                answer = {
                    "prompt": prompt.tolist(),
                    "content": request.text,
                    "tokens": path.token_ids.tolist(),
                    "completion_probabilities": entries,
                }
                lines.append(json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode())
    if tokens < FEWEST_TOKENS:
        return None
    sizes = {
        "file": file.stat().st_size,
        "columns": numbers,
        "json": sum(len(line) + 1 for line in lines),
        **_compressed(lines),
    }
    return {name: size / tokens for name, size in sizes.items()}


def _logprobs(path: object, values: np.ndarray) -> np.ndarray:
    """What a server would have answered: its values are log-probabilities."""
    sums = getattr(path, "log_sum_exp", None)
    return values if sums is None else values - sums[:, None]


def _position(trace: TraceReader, chosen: int, ids: np.ndarray, values: np.ndarray) -> dict[str, object]:
    tops = [_entry(trace, int(token), float(value)) for token, value in zip(ids, values, strict=True)]
    own = next((top for top in tops if top["id"] == chosen), None)
    return {**(own or _entry(trace, chosen, float("-inf"))), "top_logprobs": tops}


def _entry(trace: TraceReader, token: int, value: float) -> dict[str, object]:
    piece = trace.piece(token) or b""
    return {"id": token, "token": piece.decode("utf-8", "replace"), "bytes": list(piece), "logprob": value}


def _compressed(lines: list[bytes]) -> dict[str, int]:
    try:
        from zstandard import ZstdCompressor
    except ImportError:
        return {}
    stream = b"\n".join(lines)
    whole = {f"zstd -{level}": len(ZstdCompressor(level=level).compress(stream)) for level in ZSTD_LEVELS}
    return {**whole, "zstd -3 by line": sum(len(ZstdCompressor(level=3).compress(line)) for line in lines)}


if __name__ == "__main__":
    run(rows, "bytes a token", __doc__)
