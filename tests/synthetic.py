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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.synthetic_numbers import (
    VOCABULARY,
    ArmSpec,
    RequestNumbers,
    arm_numbers,
    baseline_numbers,
    observed,
    whole_rows,
)
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
    base = baseline_numbers(requests, tokens, k, seed, prompt_tokens, prompt_growth, margin_scale, arms)
    place = RunPlace(run_id=run_id, position=run_position, predecessor=predecessor)
    info = EngineInfo(**{**_ENGINE, **dict(engine or {})})
    stored: list[Arm] = []
    numbers: list[tuple[RequestNumbers, ...]] = []
    with TraceWriter.create(path, episode) as writer:
        for position, spec in enumerate(arms):
            arm = writer.begin_arm(_arm(position, spec, info, place, requests, k, created_at))
            stored.append(arm)
            planned = requests if spec.requests is None else spec.requests
            made = arm_numbers(base, spec, arm, planned, k)
            numbers.append(tuple(made))
            for i, one in enumerate(made):
                request = _request(i, one, spec, arm, made, created_at, tool_calls, hostile_pieces)
                shown_path, shown_alternatives = observed(one, spec)
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
                    rows=whole_rows(one) if with_rows else None,
                    pieces=pieces,
                )
            if spec.complete and spec.requests is None:
                writer.end_arm(arm.index, _end(spec, planned))
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
    error = spec.error if i == len(made) - 1 else None
    call = ToolCall(name="find_mail", arguments=f'{{"query": "w{int(one.prompt[-1])}"}}')
    return Request(
        index=i,
        turn=i // 2,
        step=i % 2,
        scale=_SCALES[spec.observe],
        sampling=arm.sampling,
        exposure=_exposure(i, spec, arm, made),
        stop=StopReason.STOP if error is None else StopReason.ERROR,
        error=error,
        text=text,
        messages_added=(Message(role="user", content=f"Step {i}, please."),),
        tool_calls=(call,) if tool_calls and i % 2 == 0 else (),
        tool_results=(ToolResult(name="find_mail", content="2 messages"),)
        if tool_calls and i % 2 == 0
        else (),
        timing=Timing(started_at=created_at + i, wall_s=0.5, prompt_s=0.3, decode_s=0.2),
    )


def _end(spec: ArmSpec, planned: int) -> ArmEnd:
    if spec.error is not None:
        return ArmEnd(requests=planned, completed=False, reason=spec.error.message)
    outcome = None
    if spec.score is not None or spec.details:
        solved = None if spec.score is None else spec.score >= 1
        outcome = Outcome(score=spec.score, solved=solved, ended=spec.ended, details=dict(spec.details))
    return ArmEnd(requests=planned, completed=True, outcome=outcome, elapsed_s=1.5)


_SCALES = {
    "row": Scale.LOGIT,
    "top-k": Scale.LOGIT,
    "logprob": Scale.LOGPROB,
    "chosen": Scale.LOGPROB,
    "tokens": None,
}


def _exposure(i: int, spec: ArmSpec, arm: Arm, made: list[RequestNumbers]) -> Exposure:
    prompt = len(made[i].prompt)
    expected = prompt - 1 if arm.priming is Priming.SELF else 0
    if arm.state is not CacheState.COLD and arm.priming is not Priming.SELF and i:
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
