"""Margins, drift and gap changes of compared positions, read when the mechanism is asked for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from replay.divergence.numbers import gap_changes
from replay.divergence.readable import ReadableTrace, Side
from replay.divergence.request_verdict import Detail, RequestPair
from replay.verdicts import Comparison, DriftFrom, Verdict
from stats.mechanism import Positions
from tracer.columns import margins
from tracer.episode import Exposure, Request

_COMPARED = (Verdict.IDENTICAL, Verdict.DRIFTED, Verdict.FLIPPED)


class PositionSample(Struct, frozen=True, kw_only=True):
    """The compared positions of one pair of arms; columns are packed so that processes can send them.

    margins, gap_changes, drift, cached_share: float32 little-endian. token: int32. flags: uint8, bit
    0 flipped, bit 1 tool-call syntax. NaN = not observed.
    """

    baseline: int
    arm: int
    margins: bytes
    gap_changes: bytes
    drift: bytes
    cached_share: bytes
    token: bytes
    flags: bytes


def sample_positions(trace: ReadableTrace, comparison: Comparison) -> PositionSample:
    """Read the alternatives of both arms at every position where all tokens before agree.

    Requests without any cached token are left out: they cannot drift, and would only dilute.
    """
    a, b = Side(trace, comparison.baseline), Side(trace, comparison.arm)
    requests_a, requests_b = trace.requests(a.index), trace.requests(b.index)
    parts: list[tuple[NDArray[np.float32], ...]] = []
    tokens: list[NDArray[np.int32]] = []
    flags: list[NDArray[np.uint8]] = []
    for verdict in comparison.requests:
        if verdict.verdict not in _COMPARED or not verdict.compared_positions:
            continue
        if verdict.exposure_b is not None and verdict.exposure_b.cached_tokens == 0:
            continue
        i = verdict.request
        pair = RequestPair(a, b, requests_a[i], requests_b[i])
        n = pair.compared
        share = np.full(n, _share(verdict.exposure_b), np.float32)
        parts.append((*_numbers(pair, n), share))
        tokens.append(np.arange(n, dtype=np.int32))
        tool = _in_tool_call(trace, requests_a[i], pair.numbers_a.path.token_ids[:n])
        flipped = np.arange(n) == (-1 if pair.flip_position is None else pair.flip_position)
        flags.append((flipped | (tool.astype(np.uint8) << 1)).astype(np.uint8))
    columns = [b"".join(p[i].astype("<f4").tobytes() for p in parts) for i in range(4)]
    return PositionSample(
        baseline=a.index,
        arm=b.index,
        margins=columns[0],
        gap_changes=columns[1],
        drift=columns[2],
        cached_share=columns[3],
        token=b"".join(t.astype("<i4").tobytes() for t in tokens),
        flags=b"".join(f.tobytes() for f in flags),
    )


def joined_positions(samples: Iterable[tuple[str, PositionSample]]) -> Positions:
    """Samples of several episodes as one set of arrays; (episode id, sample) each."""
    named = list(samples)
    episodes = tuple(dict.fromkeys(name for name, _ in named))
    place = {name: i for i, name in enumerate(episodes)}
    flags = np.frombuffer(b"".join(s.flags for _, s in named), np.uint8)
    return Positions(
        margins=_floats(s.margins for _, s in named),
        gap_changes=_floats(s.gap_changes for _, s in named),
        drift=_floats(s.drift for _, s in named),
        flipped=(flags & 1).astype(bool),
        tool_call=(flags & 2).astype(bool),
        token=np.frombuffer(b"".join(s.token for _, s in named), "<i4").astype(np.int64),
        cached_share=_floats(s.cached_share for _, s in named),
        episode=np.repeat(
            np.array([place[name] for name, _ in named], dtype=np.int64), [len(s.flags) for _, s in named]
        ),
        episodes=episodes,
    )


def _floats(raw: Iterable[bytes]) -> NDArray[np.float64]:
    return np.frombuffer(b"".join(raw), "<f4").astype(np.float64)


def _numbers(pair: RequestPair, n: int) -> tuple[NDArray[np.float32], ...]:
    listed = pair.listed_a
    unobserved = np.full(n, np.nan)
    if listed.alternatives is None:
        margin = unobserved
    else:
        margin = margins(listed.alternatives, listed.path.flags)[:n]
    in_full = pair.drift_from(Detail.ALTERNATIVES) is DriftFrom.TOP_K
    drift = pair.drift(Detail.ALTERNATIVES)[:n] if in_full else unobserved
    with np.errstate(over="ignore"):
        return (
            margin.astype(np.float32),
            gap_changes(listed, pair.listed_b, n).astype(np.float32),
            drift.astype(np.float32),
        )


def _share(exposure: Exposure | None) -> float:
    if exposure is None or exposure.cached_tokens is None or not exposure.prompt_tokens:
        return np.nan
    return exposure.cached_tokens / exposure.prompt_tokens


def _in_tool_call(trace: ReadableTrace, request: Request, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
    """bool[n]: the token begins on a line of the answer that names a call which the agent parsed from it."""
    if not request.tool_calls:
        return np.zeros(len(ids), np.bool_)
    names = [call.name.encode("utf-8", "surrogatepass") for call in request.tool_calls if call.name]
    pieces = [trace.piece(int(token)) or b"" for token in ids]
    starts = np.cumsum([0, *map(len, pieces)])[:-1]
    whole = request.text.encode("utf-8", "surrogatepass")
    found = np.zeros(len(ids), np.bool_)
    begin = 0
    for line in whole.split(b"\n"):
        end = begin + len(line) + 1
        if any(name in line for name in names):
            found |= (starts >= begin) & (starts < end)
        begin = end
    return found
