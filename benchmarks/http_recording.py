"""Recording over HTTP against a minimal client that asks for the same fields: at most 3 % more wall time.

Run: ``python benchmarks/http_recording.py --server-bin FILE [--model FILE]``. Both talk to the same
server in turns (interleaved), cold, one request at a time; the recording side runs the whole arm
loop and writes the trace file. What is compared is the time outside the server (wall time less the
prompt and decode times that the server itself reports), since the server's own speed varies by more
than the limit; it is given as a part of the minimal client's wall time. Exits 1 when the limit is
missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Spent:
    """Seconds of one turn: in all, and within the server by its own account."""

    wall_s: float
    server_s: float

    @property
    def outside_s(self) -> float:
        return self.wall_s - self.server_s


def minimal(url: str, prompts: list[tuple[int, ...]], new_tokens: int) -> Spent:
    """A plain client with the same fields, whose answers are only read as JSON."""
    client = httpx.Client(timeout=600)
    started, server_ms = time.perf_counter(), 0.0
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
        timings = client.post(f"{url}/completion", json=body).raise_for_status().json()["timings"]
        server_ms += timings["prompt_ms"] + timings["predicted_ms"]
    wall_s = time.perf_counter() - started
    client.close()
    return Spent(wall_s, server_ms / 1000)


def recorded(engine: Any, prompts: list[tuple[int, ...]], new_tokens: int, folder: Path, turn: int) -> Spent:
    """An arm of the same requests, from the loop's start to the trace's end."""
    from tracer.arm_loop import execute_arm
    from tracer.arm_plan import ArmPlan, StartFrom
    from tracer.episode import CacheState, Episode, Priming, RunPlace, Sampling, Way, WorkloadSpec
    from tracer.tracefile import TraceReader, TraceWriter

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
    with TraceReader.open(folder / f"{turn}.msgpack") as trace:
        timings = [request.timing for request in trace.requests(trace.arms[0])]
    return Spent(elapsed, sum((t.prompt_s or 0.0) + (t.decode_s or 0.0) for t in timings))


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
    wall = [statistics.median(side.wall_s for side in sides) for sides in zip(*pairs, strict=True)]
    outside = [statistics.median(side.outside_s for side in sides) for sides in zip(*pairs, strict=True)]
    more = statistics.median((ours.outside_s - plain.outside_s) / plain.wall_s for plain, ours in pairs)
    print(f"medians of {len(pairs)} rounds")
    print(f"wall time: minimal client {wall[0]:.3f} s, recording {wall[1]:.3f} s")
    print(f"outside the server: minimal client {outside[0]:.3f} s, recording {outside[1]:.3f} s")
    print(f"recording costs {more:+.2%} of wall time (limit {LIMIT:.0%})")
    return 0 if more <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
