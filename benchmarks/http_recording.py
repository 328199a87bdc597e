"""Recording over HTTP against a minimal client that asks for the same fields: at most 3 % more wall time.

Run: ``python benchmarks/http_recording.py --server-bin FILE [--model FILE]``. Both talk to the same
server in turns (interleaved), cold, one request at a time; the recording side runs the whole arm
loop and writes the trace file. Exits 1 when the limit is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

LIMIT = 0.03
TOP_K = 20


class _Prompts:
    """A source of recorded prompts: nothing is digested, so only serving and writing are timed."""

    def __init__(self, prompts: list[tuple[int, ...]]) -> None:
        self._left = list(prompts)
        self.planned: int | None = len(prompts)

    def next_request(self) -> Any:
        from tracer.request_source import PlannedRequest

        return PlannedRequest(self._left.pop(0)) if self._left else None

    def digest(self, _answer: Any) -> Any:
        from tracer.request_source import AnswerDigest

        return AnswerDigest()

    def outcome(self) -> None:
        return None


def minimal(url: str, prompts: list[tuple[int, ...]], new_tokens: int) -> float:
    """Seconds of a plain client with the same fields, whose answers are only read as JSON."""
    started = time.perf_counter()
    for prompt in prompts:
        body = {
            "prompt": list(prompt),
            "n_predict": new_tokens,
            "temperature": 0,
            "seed": 42,
            "n_probs": TOP_K,
            "return_tokens": True,
            "cache_prompt": False,
        }
        with httpx.Client(timeout=600) as client:
            client.post(f"{url}/completion", json=body).raise_for_status().json()
    return time.perf_counter() - started


def recorded(engine: Any, prompts: list[tuple[int, ...]], new_tokens: int, folder: Path, turn: int) -> float:
    """Seconds of an arm of the same requests, from the loop's start to the trace's end."""
    from tracer.arm_loop import execute_arm
    from tracer.arm_plan import ArmPlan, StartFrom
    from tracer.episode import CacheState, Episode, Priming, RunPlace, Sampling, Way, WorkloadSpec
    from tracer.tracefile import TraceWriter

    plan = ArmPlan(
        state=CacheState.COLD,
        priming=Priming.NONE,
        way=Way.FIXED,
        sampling=Sampling(max_new_tokens=new_tokens),
        place=RunPlace(run_id="benchmark"),
        top_k=TOP_K,
        start_from=StartFrom.AS_LEFT,
    )
    episode = Episode(
        episode_id=f"turn-{turn}", workload=WorkloadSpec(name="benchmark"), created_at=0.0, writer="benchmark"
    )
    with TraceWriter.create(folder / f"{turn}.msgpack", episode) as writer:
        started = time.perf_counter()
        end = execute_arm(engine, plan, _Prompts(prompts), writer)
        elapsed = time.perf_counter() - started
    assert end.completed, end.reason
    return elapsed


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--server-bin", required=True)
    parser.add_argument("--model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--prompt-tokens", type=int, default=300)
    parser.add_argument("--new-tokens", type=int, default=48)
    given = parser.parse_args()

    from tracer.engines.choice import EngineChoice
    from tracer.engines.registry import open_engine

    choice = EngineChoice(
        engine="llama-server", server_bin=given.server_bin, model=given.model, threads=given.threads
    )
    engine = open_engine(choice)
    try:
        engine.set_layers(prefix_cache=True, prompt_cache=False)
        url = engine._backend.endpoint.url
        text = "The ledger of the harbour lists every ship, its cargo and the hour of its arrival. "
        ids = engine.tokenize(text * (given.prompt_tokens // 16 + 1))[: given.prompt_tokens]
        prompts = [tuple(ids[place:] + ids[:place]) for place in range(given.requests)]
        with tempfile.TemporaryDirectory() as folder:
            minimal(url, prompts[:1], 4)
            pairs = []
            for turn in range(given.rounds):
                first = minimal(url, prompts, given.new_tokens)
                pairs.append((first, recorded(engine, prompts, given.new_tokens, Path(folder), turn)))
    finally:
        engine.close()
    ratios = [ours / plain - 1 for plain, ours in pairs]
    plain, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    more = statistics.median(ratios)
    print(f"minimal client {plain:.3f} s, recording {ours:.3f} s (medians of {len(pairs)} rounds)")
    print(f"recording costs {more:+.2%} (median of the rounds; limit {LIMIT:.0%})")
    return 0 if more <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
