"""Parse an answer of 4,096 tokens with 20 alternatives each: at most 0.3 s and 150 MB.

Run: ``python benchmarks/http_parse.py``. Prints wall and CPU seconds of several runs (parsing is one
thread, so CPU time is what an idle machine needs; the limit holds for its median) and the peak of
memory beyond the body itself; exits 1 when a limit is missed.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import time

TOKENS, WIDTH, RUNS = 4096, 20, 7
LIMIT_S, LIMIT_MB = 0.3, 150.0


def native_body(tokens: int = TOKENS, width: int = WIDTH) -> bytes:
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
        chosen = tops[0]
        entries.append(chosen | {"top_logprobs": tops})
    ids = [chosen["id"] for chosen in entries]
    timings = {"cache_n": 0, "prompt_n": 10, "prompt_ms": 1.0, "predicted_ms": 1.0}
    body = {
        "content": "x",
        "tokens": ids,
        "stop": True,
        "timings": timings,
        "completion_probabilities": entries,
    }
    return json.dumps(body).encode()


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    if sys.argv[1:] == ["body"]:
        sys.stdout.buffer.write(native_body())
        return 0
    from tracer.engines.http.answer import Asked, parse_body

    # Another process makes the body, so that making it does not count as parsing it.
    body = subprocess.run([sys.executable, __file__, "body"], stdout=subprocess.PIPE, check=True).stdout
    parse_body(native_body(4, 2), Asked(top_k=2))
    before = peak_mb()
    wall, cpu = [], []
    for _ in range(RUNS):
        started, used = time.perf_counter(), time.process_time()
        choice = parse_body(body, Asked(top_k=WIDTH)).choices[0]
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - used)
    assert choice.alternatives is not None
    assert choice.alternatives.counts.sum() == TOKENS * WIDTH
    grown = peak_mb() - before
    median = statistics.median(cpu)
    print(f"body {len(body) / 1e6:.1f} MB, {RUNS} runs: CPU {median:.3f} s (limit {LIMIT_S})")
    print(f"wall {statistics.median(wall):.3f} s, best {min(wall):.3f} s")
    print(f"memory beyond the body: {grown:.0f} MB (limit {LIMIT_MB:.0f})")
    return 0 if median < LIMIT_S and grown < LIMIT_MB else 1


if __name__ == "__main__":
    sys.exit(main())
