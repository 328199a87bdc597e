"""Parse a server's answer of 4,096 tokens with 20 alternatives each into columns.

    python -m benchmarks.http_parse [--pairs 30]

The limit is one pass of the fastest JSON parser here over the same bytes, its result thrown away.
Memory is what parsing adds to the peak of a process that holds the body already.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.children import ROOT
from benchmarks.command import Given, run
from benchmarks.rows import Row, against
from benchmarks.turns import Effort, in_turns, seconds

WIDTH = 20
LIMIT_MS, LIMIT_MB = 300, 150
HERE = [sys.executable, "-m", "benchmarks.http_parse"]


def native_body(tokens: int, width: int) -> bytes:
    """An answer in llama.cpp's native form with pseudo-random ids and values."""
    source = random.Random(7)  # the content only has to vary

    def entry(token: int, value: float) -> dict[str, object]:
        text = f" t{token}"
        return {"id": token, "token": text, "bytes": list(text.encode()), "logprob": value}

    entries = []
    for _ in range(tokens):
        value = -source.random()
        drawn = source.sample(range(49152), width)
        tops = [entry(token, value - 0.1 * rank) for rank, token in enumerate(drawn)]
        entries.append(tops[0] | {"top_logprobs": tops})
    body = {
        "content": "x",
        "tokens": [chosen["id"] for chosen in entries],
        "stop": True,
        "timings": {"cache_n": 0, "prompt_n": 10, "prompt_ms": 1.0, "predicted_ms": 1.0},
        "completion_probabilities": entries,
    }
    return json.dumps(body).encode()


def peak_mb() -> float:
    """The peak of this process image alone; what ``getrusage`` says begins at the starting process's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def grown_mb(how: str) -> float:
    """What parsing the body on stdin adds to the peak of this process."""
    import msgspec

    from tracer.engines.http.answer import Asked, parse_body

    parse_body(native_body(4, 2), Asked(top_k=2))
    body = sys.stdin.buffer.read()
    before = peak_mb()
    if how == "ours":
        parse_body(body, Asked(top_k=WIDTH))
    else:
        msgspec.json.decode(body)
    return peak_mb() - before


def rows(_: Given, effort: Effort) -> Iterator[Row]:
    import msgspec

    from tracer.engines.http.answer import Asked, parse_body

    tokens = 256 if effort.quick else 4096
    body = native_body(tokens, WIDTH)

    def ours() -> None:
        choice = parse_body(body, Asked(top_k=WIDTH)).choices[0]
        assert choice.alternatives is not None
        assert choice.alternatives.counts.sum() == tokens * WIDTH

    def grown(how: str) -> float:
        ended = subprocess.run(
            [*HERE, "grown", how], input=body, stdout=subprocess.PIPE, check=True, cwd=ROOT
        )
        return float(ended.stdout)

    time = in_turns(effort, {"ours": seconds(ours), "json": seconds(lambda: msgspec.json.decode(body))})
    memory = in_turns(effort, {how: (lambda how=how: grown(how)) for how in ("ours", "json")}, warm_up=0)
    what = f"parse an answer of {tokens:,} tokens, top {WIDTH}"
    limit = f"msgspec: parsing the {len(body) / 1e6:.0f} MB of JSON to objects"
    yield against(
        what,
        "ms",
        time["ours"],
        limit,
        time["json"],
        scale=1000,
        target=f"under {LIMIT_MS} ms",
        at_most=LIMIT_MS,
    )
    yield against(
        f"{what}, memory beyond the body",
        "MB",
        memory["ours"],
        limit,
        memory["json"],
        target=f"under {LIMIT_MB} MB",
        at_most=LIMIT_MB,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["grown"]:
        print(grown_mb(sys.argv[2]))
    else:
        run(rows, "parse an answer", __doc__)
