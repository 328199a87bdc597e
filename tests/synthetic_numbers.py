"""The numbers of synthetic traces: what each arm observes, from a seed and an ``ArmSpec``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.columns import Alternatives, PathColumns, PositionFlag
from tracer.episode import Arm, CacheState, Priming, RequestError, Way

VOCABULARY = 4096


@dataclass(frozen=True)
class ArmSpec:
    """One arm to be made up. ``flips``: request → output position of the first changed token."""

    state: str = "cold"
    way: str = "recorded"
    """Only the first arm keeps this default; later arms become ``fixed``."""
    priming: str | None = None
    repeat: int = 0
    pass_index: int = 0
    drift: float = 0.0
    """About the largest drift at a position; 0 = the rows are the baseline's, bit by bit.

    Request 0 of an arm that is not cold meets an empty cache and so does not drift, unless it
    has a flip or the priming is ``self`` or ``previous``.
    """
    noise: int | None = None
    """Seed of this arm's drift; None = one per (state, way, priming): repeats agree bit by bit."""
    flips: Mapping[int, int] = field(default_factory=dict)
    flip_margin: float = 0.01
    """The baseline's margin at those positions (the baseline is built with it)."""
    cached: int | Sequence[int | None] | None = None
    """Cached tokens per request; None = what the state makes one expect."""
    source: str = "engine"
    complete: bool = True
    requests: int | None = None
    """Fewer requests than planned (an arm that was cut off)."""
    length_changes: Mapping[int, int] = field(default_factory=dict)
    """Request → number of output tokens in this arm (a flip at the end)."""
    temperature: float = 0.0
    score: float | None = None
    ended: str = "completed"
    details: Mapping[str, Any] = field(default_factory=dict)
    """Of the outcome; with a score or details the arm has one."""
    error: RequestError | None = None
    """The last request failed with it, and the arm with that."""
    engine: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ``EngineInfo`` to change."""
    observe: str = "row"
    """``row``: everything; ``top-k``: no fingerprint; ``logprob``: top-k logprobs, no log-sum-exp;
    ``chosen``: only the chosen logprob; ``tokens``: no numbers."""
    forced: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Request → positions whose token a grammar forced."""


@dataclass(frozen=True)
class RequestNumbers:
    """What one arm observed in one request, before anything is hidden."""

    prompt: NDArray[np.int32]
    path: PathColumns
    alternatives: Alternatives


def baseline_numbers(
    requests: int,
    tokens: int,
    k: int,
    seed: int,
    prompt_tokens: int,
    growth: int,
    margin_scale: float,
    arms: Sequence[ArmSpec],
) -> list[RequestNumbers]:
    rng = np.random.default_rng(seed)
    made: list[RequestNumbers] = []
    prompt = rng.integers(3, VOCABULARY, prompt_tokens).astype(np.int32)
    for i in range(requests):
        ids = _distinct_ids(rng, tokens, max(k, 2))
        gaps = rng.gamma(2.0, margin_scale, (tokens, max(k, 2)))
        gaps[:, 0] = 0
        for spec in arms:
            position = spec.flips.get(i)
            if position is not None and position < tokens:
                gaps[position, 1] = spec.flip_margin
        values = (20.0 - np.cumsum(gaps, axis=1)).astype(np.float32)
        lse = _log_sum_exp(values, rng.uniform(0.01, 0.3, tokens))
        made.append(_numbers(prompt, ids[:, :k], values[:, :k], lse, seed * 1000 + i, np.zeros(tokens)))
        answer = made[-1].path.token_ids
        prompt = np.concatenate((prompt, answer, rng.integers(3, VOCABULARY, growth).astype(np.int32)))
    return made


def _distinct_ids(rng: np.random.Generator, tokens: int, k: int) -> NDArray[np.int32]:
    """k different ids a position: a random start and steps of 1 or 2 modulo the vocabulary."""
    start = rng.integers(3, VOCABULARY - 2 * k - 3, (tokens, 1))
    ids = start + np.cumsum(rng.integers(1, 3, (tokens, k)), axis=1)
    return rng.permuted(ids, axis=1).astype(np.int32)


def _log_sum_exp(values: NDArray[np.float32], excess: NDArray[np.float64]) -> NDArray[np.float32]:
    wide = values.astype(np.float64)
    top = wide.max(axis=1)
    return (top + np.log(np.exp(wide - top[:, None]).sum(axis=1)) + excess).astype(np.float32)


def _numbers(
    prompt: NDArray[np.int32],
    ids: NDArray[np.int32],
    values: NDArray[np.float32],
    lse: NDArray[np.float32],
    row_seed: int,
    change: NDArray[np.float64],
) -> RequestNumbers:
    n, k = ids.shape
    flags = np.full(n, PositionFlag.VALUE | PositionFlag.ALTERNATIVES, np.uint8)
    if k > 1:
        flags[values[:, 0] == values[:, 1]] |= np.uint8(PositionFlag.EXACT_TIE)
    fingerprints = np.empty((n, 2), np.uint64)
    mix = np.random.default_rng(row_seed).integers(0, 2**63, (n, 2), dtype=np.uint64)
    fingerprints[:] = mix
    fingerprints[:, 0] ^= np.ascontiguousarray(change).view(np.uint64)
    path = PathColumns(ids[:, 0].copy(), flags, values[:, 0].copy(), lse, fingerprints)
    return RequestNumbers(prompt, path, Alternatives(ids, values, np.full(n, k, np.uint8)))


def arm_numbers(
    base: list[RequestNumbers], spec: ArmSpec, arm: Arm, planned: int, k: int
) -> list[RequestNumbers]:
    # Repeats share their noise unless one is named, so that an arm repeats itself bit by bit.
    noise = spec.noise
    if noise is None:
        noise = sum(ord(c) << (i % 13) for i, c in enumerate(f"{spec.state}/{arm.way}/{arm.priming}"))
    made: list[RequestNumbers] = []
    for i, one in enumerate(base[:planned]):
        rng = np.random.default_rng([noise, i])
        filled = arm.priming in (Priming.SELF, Priming.PREVIOUS)
        meets_empty_cache = i == 0 and arm.state is not CacheState.COLD and not filled
        drift = 0.0 if meets_empty_cache and 0 not in spec.flips else spec.drift
        made.append(_perturb(one, replace(spec, drift=drift), i, rng, noise))
    if arm.way is Way.CLOSED_LOOP:
        return _closed_loop(base, made)
    return made


def _perturb(
    one: RequestNumbers, spec: ArmSpec, i: int, rng: np.random.Generator, noise: int
) -> RequestNumbers:
    table, path = one.alternatives, one.path
    assert path.log_sum_exp is not None
    assert path.fingerprints is not None
    n, k = table.ids.shape
    ids, values = table.ids.copy(), table.values.astype(np.float64)
    lse = path.log_sum_exp.astype(np.float64)
    # A change is at most a third of the margin, so that it flips nothing by itself.
    change = rng.uniform(-0.5, 0.5, (n, k)) * spec.drift
    if k > 1:
        smallest_gap = np.abs(np.diff(values, axis=1)).min(axis=1, keepdims=True)
        change = np.clip(change, -smallest_gap / 3, smallest_gap / 3)
    position = spec.flips.get(i)
    if position is not None and k > 1 and position < n:
        gap = values[position, 0] - values[position, 1]
        change[position, :2] = (-0.75 * gap, 0.75 * gap) if gap else (0.0, 1e-3)
    if position is not None and position < n:
        _other_continuation(rng, ids, position)
    values = (values + change).astype(np.float32).astype(np.float64)
    if position is not None and k > 1 and position < n:
        ids[position, :2] = ids[position, 1::-1]
        values[position, :2] = values[position, 1::-1]
    length = spec.length_changes.get(i, n)
    shown = slice(0, min(length, n))
    drifted = bool(spec.drift) or position is not None
    row_change = np.abs(change).sum(axis=1) + (noise % 97 + 1) * 1e-9 * drifted
    if not spec.drift:
        row_change = np.where(np.arange(n) >= (n if position is None else position), row_change, 0.0)
    fingerprints = path.fingerprints.copy()
    fingerprints[:, 0] ^= np.ascontiguousarray(row_change).view(np.uint64)
    flags = path.flags.copy()
    flags[list(spec.forced.get(i, ()))] |= np.uint8(PositionFlag.FORCED)
    small = values.astype(np.float32)
    new_path = PathColumns(
        ids[shown, 0].copy(),
        flags[shown],
        small[shown, 0].copy(),
        lse[shown].astype(np.float32),
        fingerprints[shown],
    )
    return RequestNumbers(one.prompt, new_path, Alternatives(ids[shown], small[shown], table.counts[shown]))


def _other_continuation(rng: np.random.Generator, ids: NDArray[np.int32], position: int) -> None:
    """After a flip another text follows: other ids at all later positions."""
    later = len(ids) - position - 1
    if later > 0:
        ids[position + 1 :] = _distinct_ids(rng, later, ids.shape[1])


def _closed_loop(base: list[RequestNumbers], made: list[RequestNumbers]) -> list[RequestNumbers]:
    """Later prompts hold this arm's own answers; after a changed prompt the texts differ too."""
    result: list[RequestNumbers] = []
    for i, one in enumerate(made):
        if i == 0:
            result.append(one)
            continue
        before, own = base[i - 1], result[-1]
        rest = base[i].prompt[len(before.prompt) + len(before.path) :]
        prompt = np.concatenate((own.prompt, own.path.token_ids, rest))
        result.append(RequestNumbers(prompt, one.path, one.alternatives))
    return result


def observed(one: RequestNumbers, spec: ArmSpec) -> tuple[PathColumns, Alternatives | None]:
    path, table = one.path, one.alternatives
    if spec.observe == "row":
        return path, table
    if spec.observe == "top-k":
        return PathColumns(path.token_ids, path.flags, path.chosen_values, path.log_sum_exp), table
    if spec.observe == "tokens":
        return PathColumns(path.token_ids, np.zeros_like(path.flags)), None
    assert path.log_sum_exp is not None
    assert path.chosen_values is not None
    logprobs = (table.values - path.log_sum_exp[:, None]).astype(np.float32)
    chosen = PathColumns(path.token_ids, path.flags.copy(), logprobs[:, 0].copy())
    if spec.observe == "logprob":
        return chosen, Alternatives(table.ids, logprobs, table.counts)
    assert spec.observe == "chosen"
    flags = path.flags & np.uint8(0xFF ^ PositionFlag.ALTERNATIVES)
    return PathColumns(path.token_ids, flags, logprobs[:, 0].copy()), None


def whole_rows(one: RequestNumbers) -> NDArray[np.float32]:
    """Whole rows whose best k are the alternatives."""
    n = len(one.path)
    rows = np.full((n, VOCABULARY), -30.0, np.float32)
    np.put_along_axis(rows, one.alternatives.ids.astype(np.int64), one.alternatives.values, axis=1)
    return rows
