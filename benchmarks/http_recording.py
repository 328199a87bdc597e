"""Recording over HTTP against a minimal client that asks for the same fields.

    python -m benchmarks.http_recording [--server-bin FILE] [--model FILE] [--pairs 30]

Both talk to the same server in turns, cold, one request at a time; the recording side runs the whole arm
loop and writes the trace file. The server's own speed varies by more than recording costs, so what is
compared is the time outside the server (wall time less the prompt and decode times that the server itself
reports): by itself, and added to the minimal client's wall time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.command import Given, run
from benchmarks.rows import NotMeasured, Row, against
from benchmarks.turns import Effort, in_turns
from tracer.errors import CachetraceError

MOST_MORE = 0.03
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


def rows(given: Given, effort: Effort) -> Iterator[Row]:
    from tracer.engines.choice import EngineChoice
    from tracer.engines.registry import open_engine

    server = given.server_bin or os.environ.get("CACHETRACE_LLAMA_SERVER") or shutil.which("llama-server")
    if server is None:
        raise NotMeasured("no llama-server: give --server-bin or CACHETRACE_LLAMA_SERVER")
    try:
        engine = open_engine(
            EngineChoice(engine="llama-server", server_bin=server, model=given.model, threads=given.threads)
        )
    except CachetraceError as error:
        raise NotMeasured(str(error)) from error
    found: dict[str, list[Spent]] = {"minimal": [], "ours": []}
    try:
        engine.set_layers(prefix_cache=True, prompt_cache=False)
        url = engine._backend.endpoint.url
        text = "The ledger of the harbour lists every ship, its cargo and the hour of its arrival. "
        ids = engine.tokenize(text * (given.prompt_tokens // 16 + 1))[: given.prompt_tokens]
        prompts = [tuple(ids[place:] + ids[:place]) for place in range(given.requests)]
        with tempfile.TemporaryDirectory() as folder:

            def plain() -> float:
                found["minimal"].append(minimal(url, prompts, given.new_tokens))
                return found["minimal"][-1].wall_s

            def ours() -> float:
                turn = len(found["ours"])
                found["ours"].append(recorded(engine, prompts, given.new_tokens, Path(folder), turn))
                return found["ours"][-1].wall_s

            in_turns(effort, {"minimal": plain, "ours": ours})
    finally:
        engine.close()
    plain_spent, ours_spent = found["minimal"][1:], found["ours"][1:]  # without the warm-up
    outside = [[side.outside_s / given.requests for side in sides] for sides in (ours_spent, plain_spent)]
    wall = [side.wall_s / given.requests for side in plain_spent]
    at_equal_speed = [w + ours - plain for w, ours, plain in zip(wall, *outside, strict=True)]
    what = f"record a request over HTTP ({given.prompt_tokens} + {given.new_tokens} tokens)"
    yield against(
        what,
        "ms",
        at_equal_speed,
        "httpx: the same requests, answers only parsed as JSON",
        wall,
        scale=1000,
        target=f"at most {MOST_MORE:.0%} more",
        ratio_at_most=1 + MOST_MORE,
        note="ours is the client's wall time plus what ours took longer outside the server",
    )
    yield against(
        f"{what}, outside the server",
        "ms",
        outside[0],
        "httpx: the same requests, answers only parsed as JSON",
        outside[1],
        scale=1000,
    )


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--server-bin", help="default: CACHETRACE_LLAMA_SERVER, or llama-server on the path")
    parser.add_argument("--model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--requests", type=int, default=1, help="in one turn")
    parser.add_argument("--prompt-tokens", type=int, default=300)
    parser.add_argument("--new-tokens", type=int, default=48)


if __name__ == "__main__":
    run(rows, "record over HTTP", __doc__, options)
