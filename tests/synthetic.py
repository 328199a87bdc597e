"""Synthetic traces with known flips, margins and drift, built quickly with numpy.

    truth = write_trace(path, requests=4, tokens=32, arms=[
        ArmSpec(),                                                       # the recording, cold
        ArmSpec(state="cold"), ArmSpec(state="cold", repeat=1),
        ArmSpec(state="warm", drift=1e-3, flips={2: 5}),
    ])
    truth.flips[3] == {2: 5};  truth.margin(3, 2, 5);  truth.drift(3, 2)[5]

What the numbers obey: values are logits; the chosen token is the best alternative except at
forced positions; log-sum-exp is above that of the top-k; equal rows have equal fingerprints and
different rows different ones; exposures fit the state; the bytes of every token are stored.
In way ``fixed`` a flip leaves later prompts alone; in ``closed-loop`` they follow the answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    Message,
    Outcome,
    Priming,
    Request,
    RunPlace,
    Sampling,
    Scale,
    StopReason,
    Timing,
    ToolCall,
    ToolResult,
    Way,
    WorkloadSpec,
    default_priming,
)
from tracer.tracefile import TraceWriter

VOCABULARY = 4096
SPREAD = 8.0
"""Natural-log units by which log-sum-exp exceeds that of the top-k alone at most."""

HOSTILE_PIECES: tuple[bytes, ...] = (
    b"\x1b[31mred\x1b[0m",
    b"\x1b]8;;http://example.invalid\x07link\x1b]8;;\x07",
    b"\xf0\x9f\x98",  # half a character
    b"\xff\xfe",
    "\u202eright to left".encode(),
    "a\u200db\u200cc\u2060d".encode(),
    b"\r\n\x00\x07\x08",
    b"<script>alert(1)</script>",
    b'=HYPERLINK("http://example.invalid")',
    b"|`*_[x](javascript:1)",
    b"\\input{/etc/passwd}$#%&",
    b"",
    "表\u3000計".encode(),
    "\U0001f468\u200d\U0001f469\u200d\U0001f467".encode(),
    b"[bold]markup[/bold]",
    b"\xed\xa0\x80",  # a lone surrogate as bytes
)


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
    has a flip or the priming is not ``own``.
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


@dataclass(frozen=True)
class Truth:
    """What was built into a synthetic trace."""

    path: Path
    arms: tuple[Arm, ...]
    specs: tuple[ArmSpec, ...]
    numbers: tuple[tuple[RequestNumbers, ...], ...]
    """[arm][request], with everything observed."""

    @property
    def flips(self) -> tuple[dict[int, int], ...]:
        """[arm] → request → position of the first token that differs from arm 0's."""
        found: list[dict[int, int]] = []
        for requests in self.numbers:
            changed: dict[int, int] = {}
            for i, (base, other) in enumerate(zip(self.numbers[0], requests, strict=False)):
                if not np.array_equal(base.prompt, other.prompt):
                    continue
                a, b = base.path.token_ids, other.path.token_ids
                n = min(len(a), len(b))
                different = np.flatnonzero(a[:n] != b[:n])
                if len(different):
                    changed[i] = int(different[0])
                elif len(a) != len(b):
                    changed[i] = n
            found.append(changed)
        return tuple(found)

    def margin(self, arm: int, request: int, position: int) -> float:
        """Best value minus second best."""
        values = self.numbers[arm][request].alternatives.values[position].astype(np.float64)
        return float(values[0] - values[1])

    def drift(self, arm: int, request: int, baseline: int = 0) -> NDArray[np.float64]:
        """Per position up to the flip: max over ids in both lists of |Δ(value − log-sum-exp)|."""
        a, b = self.numbers[baseline][request], self.numbers[arm][request]
        n = min(len(a.path), len(b.path))
        different = np.flatnonzero(a.path.token_ids[:n] != b.path.token_ids[:n])
        n = int(different[0]) + 1 if len(different) else n
        result = np.zeros(n)
        for p in range(n):
            left = _normalised(a, p)
            right = _normalised(b, p)
            result[p] = max((abs(left[i] - right[i]) for i in left.keys() & right.keys()), default=np.nan)
        return result


def _normalised(numbers: RequestNumbers, p: int) -> dict[int, float]:
    assert numbers.path.log_sum_exp is not None
    lse = float(numbers.path.log_sum_exp[p])
    ids, values = numbers.alternatives.ids[p], numbers.alternatives.values[p]
    return {int(i): float(v) - lse for i, v in zip(ids, values, strict=True)}


def piece_of(token_id: int, *, hostile: bool = False) -> bytes:
    """The bytes of a synthetic token."""
    if hostile:
        return HOSTILE_PIECES[token_id % len(HOSTILE_PIECES)]
    return b" w%d" % token_id if token_id % 7 else b".\n"


def write_trace(
    path: Path | str,
    *,
    requests: int = 4,
    tokens: int = 32,
    arms: Sequence[ArmSpec] = (ArmSpec(),),
    k: int = 20,
    seed: int = 0,
    prompt_tokens: int = 64,
    prompt_growth: int = 24,
    margin_scale: float = 1.0,
    hostile_pieces: bool = False,
    tool_calls: bool = True,
    episode_id: str = "synthetic-0",
    run_id: str = "run-0",
    run_position: int = 0,
    predecessor: str | None = None,
    workload: WorkloadSpec | None = None,
    engine: Mapping[str, Any] | None = None,
    created_at: float = 1_760_000_000.0,
    with_rows: bool = False,
    with_pieces: bool = True,
) -> Truth:
    """Write a trace and return what is in it. The first arm is the baseline of all flips."""
    path = Path(path)
    episode = Episode(
        episode_id=episode_id,
        workload=workload or WorkloadSpec(name="office", params={"seed": seed}),
        created_at=created_at,
        writer="synthetic",
    )
    base = _baseline(requests, tokens, k, seed, prompt_tokens, prompt_growth, margin_scale, arms)
    place = RunPlace(run_id=run_id, position=run_position, predecessor=predecessor)
    info = EngineInfo(**{**_ENGINE, **dict(engine or {})})
    stored: list[Arm] = []
    numbers: list[tuple[RequestNumbers, ...]] = []
    with TraceWriter.create(path, episode) as writer:
        for position, spec in enumerate(arms):
            arm = writer.begin_arm(_arm(position, spec, info, place, requests, k, created_at))
            stored.append(arm)
            planned = requests if spec.requests is None else spec.requests
            made = _perturbed(base, spec, arm, planned, k)
            numbers.append(tuple(made))
            for i, one in enumerate(made):
                request = _request(i, one, spec, arm, made, created_at, tool_calls, hostile_pieces)
                shown_path, shown_alternatives = _observed(one, spec)
                pieces = None
                if with_pieces:
                    ids = np.unique(
                        np.concatenate((one.alternatives.ids.ravel(), one.prompt, one.path.token_ids))
                    )
                    pieces = {int(t): piece_of(int(t), hostile=hostile_pieces) for t in ids}
                writer.write_request(
                    arm.index,
                    request,
                    prompt_ids=one.prompt,
                    path=shown_path,
                    alternatives=shown_alternatives,
                    rows=_rows(one) if with_rows else None,
                    pieces=pieces,
                )
            if spec.complete and spec.requests is None:
                outcome = None if spec.score is None else Outcome(score=spec.score, solved=spec.score >= 1)
                writer.end_arm(
                    arm.index, ArmEnd(requests=planned, completed=True, outcome=outcome, elapsed_s=1.5)
                )
    return Truth(path, tuple(stored), tuple(arms), tuple(numbers))


_ENGINE: dict[str, Any] = {
    "engine": "fake",
    "version": "1",
    "model_name": "synthetic",
    "model_hash": "sha256:" + "0" * 64,
    "weight_format": "Q4_1",
    "template_hash": "sha256:" + "1" * 64,
    "vocabulary_tokens": VOCABULARY,
    "context_tokens": 8192,
    "threads": 2,
    "threads_batch": 2,
    "batch_tokens": 512,
    "ubatch_tokens": 512,
    "prefix_cache": True,
    "prompt_cache_bytes": 0,
}


def _baseline(
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


def _perturbed(
    base: list[RequestNumbers], spec: ArmSpec, arm: Arm, planned: int, k: int
) -> list[RequestNumbers]:
    # Repeats share their noise unless one is named, so that an arm repeats itself bit by bit.
    noise = spec.noise
    if noise is None:
        noise = sum(ord(c) << (i % 13) for i, c in enumerate(f"{spec.state}/{arm.way}/{arm.priming}"))
    made: list[RequestNumbers] = []
    for i, one in enumerate(base[:planned]):
        rng = np.random.default_rng([noise, i])
        meets_empty_cache = i == 0 and arm.state is not CacheState.COLD and arm.priming is Priming.OWN
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


def _arm(
    index: int, spec: ArmSpec, info: EngineInfo, place: RunPlace, requests: int, k: int, created_at: float
) -> Arm:
    state = CacheState(spec.state)
    way = Way.FIXED if index and spec.way == "recorded" else Way(spec.way)
    priming = default_priming(state) if spec.priming is None else Priming(spec.priming)
    engine = EngineInfo(**{**{f: getattr(info, f) for f in info.__struct_fields__}, **dict(spec.engine)})
    return Arm(
        index=index,
        state=state,
        priming=priming,
        way=way,
        engine=engine,
        capabilities=Capabilities(
            token_ids=True,
            chosen_logprob=spec.observe != "tokens",
            top_k=0 if spec.observe in ("tokens", "chosen") else k,
            full_row=spec.observe == "row",
            cached_tokens=True,
            states=tuple(CacheState),
        ),
        sampling=Sampling(temperature=spec.temperature),
        place=place,
        started_at=created_at + index,
        repeat=spec.repeat,
        pass_index=spec.pass_index,
        source_arm=0 if index else None,
        requests_planned=requests,
        top_k=k,
    )


def _request(
    i: int,
    one: RequestNumbers,
    spec: ArmSpec,
    arm: Arm,
    made: list[RequestNumbers],
    created_at: float,
    tool_calls: bool,
    hostile: bool,
) -> Request:
    text = b"".join(piece_of(int(t), hostile=hostile) for t in one.path.token_ids).decode("utf-8", "replace")
    call = ToolCall(name="find_mail", arguments=f'{{"query": "w{int(one.prompt[-1])}"}}')
    return Request(
        index=i,
        turn=i // 2,
        step=i % 2,
        scale=_SCALES[spec.observe],
        sampling=arm.sampling,
        exposure=_exposure(i, spec, arm, made),
        stop=StopReason.STOP,
        text=text,
        messages_added=(Message(role="user", content=f"Step {i}, please."),),
        tool_calls=(call,) if tool_calls and i % 2 == 0 else (),
        tool_results=(ToolResult(name="find_mail", content="2 messages"),)
        if tool_calls and i % 2 == 0
        else (),
        timing=Timing(started_at=created_at + i, wall_s=0.5, prompt_s=0.3, decode_s=0.2),
    )


_SCALES = {
    "row": Scale.LOGIT,
    "top-k": Scale.LOGIT,
    "logprob": Scale.LOGPROB,
    "chosen": Scale.LOGPROB,
    "tokens": None,
}


def _exposure(i: int, spec: ArmSpec, arm: Arm, made: list[RequestNumbers]) -> Exposure:
    prompt = len(made[i].prompt)
    expected = 0
    if arm.state is not CacheState.COLD and i:
        before = made[i - 1]
        held = before.prompt
        if arm.priming is not Priming.PROMPT_ONLY:
            # The last sampled token was never decoded, so the cache lacks it.
            held = np.concatenate((held, before.path.token_ids[:-1]))
        n = min(len(held), prompt)
        different = np.flatnonzero(held[:n] != made[i].prompt[:n])
        expected = min(int(different[0]) if len(different) else n, prompt - 1)
    cached: int | None = expected
    if isinstance(spec.cached, int):
        cached = spec.cached
    elif spec.cached is not None:
        cached = spec.cached[i]
    source = ExposureSource(spec.source)
    if source in (ExposureSource.NOT_OBSERVED, ExposureSource.DECLARED):
        cached = None
    return Exposure(
        prompt_tokens=prompt,
        cached_tokens=cached,
        source=source,
        expected_tokens=expected,
        restored_tokens=expected if arm.state is CacheState.SNAPSHOT else None,
    )


def _observed(one: RequestNumbers, spec: ArmSpec) -> tuple[PathColumns, Alternatives | None]:
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


def _rows(one: RequestNumbers) -> NDArray[np.float32]:
    """Whole rows whose best k are the alternatives."""
    n = len(one.path)
    rows = np.full((n, VOCABULARY), -30.0, np.float32)
    np.put_along_axis(rows, one.alternatives.ids.astype(np.int64), one.alternatives.values, axis=1)
    return rows
