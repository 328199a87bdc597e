"""What the recording proxy adds: a request without a stream, a chunk of one, and many clients at once.

    PYTHONPATH=. python benchmarks/proxy_cost.py [--pairs 200] [--seconds 60] [--clients 64]

A scripted upstream, the proxy and the clients are processes of their own. Each pair asks once directly
and once through the proxy, in turn first. The limit is the direct request: nothing added.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import numpy as np

from tests.tracer.proxy.serving import ScriptedUpstream, proxied, served
from tracer.tracefile import TraceReader

WORDS = " ".join(f"word{number}" for number in range(64))


def run_upstream(link: Connection) -> None:
    with served(ScriptedUpstream().app) as url:
        link.send(url)
        link.recv()


def run_proxy(link: Connection, folder: str, upstream: str) -> None:
    with proxied(Path(folder), upstream) as url:
        link.send(url)
        link.recv()
    link.send("closed")


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


def added(
    pairs: int, direct: str, through: str, measure: Callable[[httpx.Client, str], float]
) -> tuple[float, float, float, float]:
    """Medians direct and through the proxy, and the median difference of pairs with its 95 % interval."""
    differences, directs = [], []
    with httpx.Client(timeout=30) as client:
        for _ in range(10):
            measure(client, direct)
            measure(client, through)
        for number in range(pairs):
            first, second = (direct, through) if number % 2 else (through, direct)
            times = {first: measure(client, first), second: measure(client, second)}
            differences.append(times[through] - times[direct])
            directs.append(times[direct])
    drawn = np.random.default_rng(7).choice(differences, (2000, pairs))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return statistics.median(directs), statistics.median(differences), float(low), float(high)


def many(through: str, clients: int, seconds: float) -> tuple[int, int]:
    """Requests that ended, and those whose answer was not their own."""
    end, lock, counts = time.monotonic() + seconds, threading.Lock(), [0, 0]

    def one(number: int) -> None:
        with httpx.Client(timeout=60) as client:
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
        with TraceReader.open(folder / f"client-{number}.msgpack") as trace:
            requests = trace.requests(trace.arms[0])
            assert not trace.losses
            for round_, request in enumerate(requests):
                expected = f"client {number} round {round_}"
                assert request.text.replace(" ", "") == expected.replace(" ", ""), request.text
            total += len(requests)
    return total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=64)
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        upstream_link, upstream_end = context.Pipe()
        upstream = context.Process(target=run_upstream, args=(upstream_end,))
        upstream.start()
        direct = upstream_link.recv()
        proxy_link, proxy_end = context.Pipe()
        proxy = context.Process(target=run_proxy, args=(proxy_end, folder, direct))
        proxy.start()
        through = proxy_link.recv()
        print("what                 direct ms   added ms   95 %              limit")
        for name, measure, limit in (("request, no stream", once, 3.0), ("chunk of a stream", streamed, 2.0)):
            median, more, low, high = added(given.pairs, direct, through, measure)
            print(f"{name:20} {median:9.2f}  {more:9.3f}   [{low:.3f}, {high:.3f}]   at most {limit:g}")
        ended, mixed = many(through, given.clients, given.seconds)
        proxy_link.send("stop")
        proxy_link.recv()
        found = recorded(Path(folder), given.clients)
        lost = ended - found
        print(f"{given.clients} clients, {given.seconds:g} s: {ended} requests, {lost} lost, {mixed} mixed")
        proxy.join()
        upstream_link.send("stop")
        upstream.join()


if __name__ == "__main__":
    main()
