"""What the recording proxy adds: a request without a stream, a chunk of one, and many clients at once.

    python -m benchmarks.proxy_cost [--pairs 30] [--seconds 10] [--clients 64]

A scripted upstream, the proxy and the clients are processes of their own. Each side of a pair is the median
of a few requests, direct or through the proxy. The limit is the direct request: nothing added.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import httpx

from benchmarks.command import Given, run
from benchmarks.rows import Figure, NotMeasured, Row, against
from benchmarks.turns import Effort, in_turns
from tracer.tracefile import TraceReader

try:
    from tests.tracer.proxy.serving import ScriptedUpstream, proxied, served
except ImportError:  # the extra "proxy" is not installed; `rows` says so
    served = None

REQUESTS_IN_A_TURN = 7
SHUTDOWN_S = 60
MOST_ADDED_MS = {"a request": 3.0, "a chunk of a stream": 2.0}
WORDS = " ".join(f"word{number}" for number in range(64))


def run_upstream(link: Connection) -> None:
    with served(ScriptedUpstream().app) as url:
        link.send(url)
        link.recv()


def run_proxy(link: Connection, folder: str, upstream: str) -> None:
    with proxied(Path(folder), upstream) as url:
        link.send(url)
        link.recv()


def body(text: str, *, stream: bool) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "stream": stream}


def once(client: httpx.Client, url: str) -> float:
    started = time.perf_counter()
    client.post(url + "/v1/chat/completions", json=body(WORDS, stream=False)).raise_for_status()
    return (time.perf_counter() - started) * 1e3


def streamed(client: httpx.Client, url: str) -> float:
    """Milliseconds per event of one stream."""
    started, events = time.perf_counter(), 0
    with client.stream("POST", url + "/v1/chat/completions", json=body(WORDS, stream=True)) as answer:
        events = sum(line.startswith("data:") for line in answer.iter_lines())
    return (time.perf_counter() - started) * 1e3 / events


def many(through: str, clients: int, seconds: float) -> tuple[int, int]:
    """Requests that ended, and those whose answer was not their own."""
    end, lock, counts = time.monotonic() + seconds, threading.Lock(), [0, 0]

    def one(number: int) -> None:
        # Without certificates: loading them for every client would take most of the time.
        with httpx.Client(timeout=60, verify=False) as client:
            round_ = 0
            while time.monotonic() < end:
                text = f"client {number} round {round_}"
                headers = {"x-cachetrace-episode": f"client-{number}"}
                stream = round_ % 2 == 1
                answer = client.post(
                    through + "/v1/chat/completions", json=body(text, stream=stream), headers=headers
                )
                if stream:
                    events = [json.loads(e[6:]) for e in answer.text.split("\n\n") if e.startswith("data: {")]
                    seen = " ".join(e["choices"][0]["delta"].get("content", "") for e in events).strip()
                else:
                    seen = answer.json()["choices"][0]["message"]["content"]
                with lock:
                    counts[0] += 1
                    counts[1] += seen != text
                round_ += 1

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, range(clients)))
    return counts[0], counts[1]


def recorded(folder: Path, clients: int) -> int:
    """Requests in the traces of the many clients, each in its own client's trace and in order."""
    total = 0
    for number in range(clients):
        file = folder / f"client-{number}.msgpack"
        if not file.exists():
            continue
        with TraceReader.open(file) as trace:
            requests = trace.requests(trace.arms[0])
            assert not trace.losses
            for round_, request in enumerate(requests):
                expected = f"client {number} round {round_}"
                assert request.text.replace(" ", "") == expected.replace(" ", ""), request.text
            total += len(requests)
    return total


@contextmanager
def process(run: Callable[..., None], *arguments: object) -> Iterator[tuple[str, Callable[[], None]]]:
    """The address that a server process says, and what closes it; it is gone when the block ends."""
    context = multiprocessing.get_context("spawn")
    link, end = context.Pipe()
    child = context.Process(target=run, args=(end, *arguments), daemon=True)
    child.start()

    def close() -> None:
        link.send("close")
        child.join(SHUTDOWN_S)

    try:
        yield link.recv(), close
    finally:
        if child.is_alive():
            child.kill()


def added(client: httpx.Client, direct: str, through: str, effort: Effort) -> Iterator[Row]:
    """What one client waits longer."""
    for name, one in (("a request", once), ("a chunk of a stream", streamed)):

        def several(url: str, one: Callable[[httpx.Client, str], float] = one) -> float:
            return median(one(client, url) for _ in range(REQUESTS_IN_A_TURN))

        found = in_turns(effort, {"proxy": lambda: several(through), "direct": lambda: several(direct)})
        most = MOST_ADDED_MS[name]
        more = median(a - b for a, b in zip(found["proxy"], found["direct"], strict=True))
        row = against(f"proxy, {name}", "ms", found["proxy"], "the same, asked directly", found["direct"])
        yield replace(row, target=f"at most {most:g} ms more", missed=more > most, note=f"adds {more:.2f} ms")


def rows(given: Given, effort: Effort) -> Iterator[Row]:
    if served is None:
        raise NotMeasured("starlette and uvicorn are not installed (the extra proxy)")
    with (
        tempfile.TemporaryDirectory() as folder,
        process(run_upstream) as (direct, _),
        process(run_proxy, folder, direct) as (through, close_proxy),
    ):
        with httpx.Client(timeout=30) as client:
            yield from added(client, direct, through, effort)
        seconds = 2.0 if effort.quick else given.seconds
        ended, mixed = many(through, given.clients, seconds)
        close_proxy()
        lost = ended - recorded(Path(folder), given.clients)
    wrong = lost + mixed
    yield Row(
        f"proxy, {given.clients} clients at once for {seconds:g} s",
        "lost or mixed",
        Figure(wrong, None, None, 1),
        "none: every answer its own, all recorded",
        target="none",
        missed=wrong > 0,
        note=f"{ended:,} requests, {lost} lost, {mixed} mixed",
    )


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=64)


if __name__ == "__main__":
    run(rows, "the proxy", __doc__, options)
