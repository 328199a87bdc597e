"""What capturing every row costs, against a bare decode-and-argmax loop on the same engine.

    python benchmarks/capture_cost.py [--model FILE] [--gpu-layers N] [--pairs 40] [--json]

Three loops decode the same tokens after the same prompt: bare (decode, argmax of the row), ours
(top-k, log-sum-exp, fingerprint as ``record`` takes them) and ours with full rows kept. A machine is
never quiet, so the loops take turns in short chunks of one pass over the same positions: in each
round every loop does one chunk, in an order that rotates, and a pair is the time of all chunks of
two loops in the same stretch. The ratio bare/ours (1 = capture is free) is given as the median over
pairs with an interval (order statistics, 95 %), beside bare against itself: what the noise alone is.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from tracer.engines.choice import EngineChoice
from tracer.engines.registry import preload

CHUNK_TOKENS = 8
LOOPS = ("bare", "bare again", "ours", "ours, full rows")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model")
    parser.add_argument("--gpu-layers", type=int, default=0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=32, help="output tokens of each loop in one pair")
    parser.add_argument("--prompt-tokens", type=int, default=400)
    parser.add_argument("--capture", choices=["inline", "overlapped", "thread"])
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


class Bench:
    """One engine; every loop decodes the same tokens at the same positions."""

    def __init__(self, options: argparse.Namespace) -> None:
        from tracer.capture import CaptureMode, RowCapture
        from tracer.engines.llama.engine import LlamaEngine

        choice = EngineChoice(
            engine="llama", model=options.model, gpu_layers=options.gpu_layers, threads=options.threads
        )
        self.engine = LlamaEngine(choice, CaptureMode(options.capture) if options.capture else None)
        self.mode = self.engine._capture_mode
        self.context = self.engine._context
        vocabulary = self.engine._model.vocabulary_tokens
        prompt = self.engine.tokenize("The ships of the old harbour were counted every morning. " * 400)
        self.context.decode(prompt[: options.prompt_tokens])
        self.start = len(self.context.held)
        self.tokens = options.tokens
        self.captures = {
            "ours": RowCapture(vocabulary, 20, mode=self.mode),
            "ours, full rows": RowCapture(vocabulary, 20, mode=self.mode, keep_rows=True),
        }
        self.path = self._first_path()

    def _first_path(self) -> list[int]:
        """The greedy path, found once, so that all loops decode equal tokens."""
        path = []
        for _ in range(self.tokens + 1):
            path.append(int(self.context.row().argmax()))
            self.context.decode_one(path[-1])
        return path

    def chunk(self, loop: str, position: int) -> float:
        """Seconds for one chunk of a loop from ``position``; what is held before it is the same."""
        self.context.cut(self.start + position)
        capture = self.captures.get(loop)
        body = self._bare if capture is None else self._ours
        tokens = self.path[position : position + CHUNK_TOKENS]
        self.context.decode_one(tokens[0])
        self.context.row()
        begun = time.perf_counter()
        body(tokens[1:], capture)
        return time.perf_counter() - begun

    def _bare(self, tokens: list[int], _: Any) -> None:
        for token in tokens:
            int(self.context.row().argmax())
            self.context.decode_one(token)
        self.context.row()

    def _ours(self, tokens: list[int], capture: Any) -> None:
        for token in tokens:
            capture.take(self.context.row())
            self.context.decode_one(token)
            capture.overlap()
        self.context.row()
        capture.finish()

    def pair(self, number: int) -> dict[str, float]:
        """Seconds per loop over the same positions, chunk by chunk in turns."""
        spent = dict.fromkeys(LOOPS, 0.0)
        for capture in self.captures.values():
            capture.clear()
        for turn, position in enumerate(range(0, self.tokens, CHUNK_TOKENS)):
            shift = (number + turn) % len(LOOPS)
            for loop in LOOPS[shift:] + LOOPS[:shift]:
                spent[loop] += self.chunk(loop, position)
        return spent


def interval(values: list[float]) -> tuple[float, float, float]:
    """Median with a distribution-free 95 % interval from order statistics."""
    import numpy as np
    from scipy.stats import binom

    ordered = np.sort(values)
    n = len(ordered)
    low = max(int(binom.ppf(0.025, n, 0.5)) - 1, 0)
    return float(np.median(ordered)), float(ordered[low]), float(ordered[n - 1 - low])


def measure(options: argparse.Namespace) -> dict[str, Any]:
    bench = Bench(options)
    bench.pair(0)  # warm up
    pairs = []
    for number in range(options.pairs):
        pairs.append(bench.pair(number))
        print(f"\rpair {number + 1} of {options.pairs}", end="", file=sys.stderr)
    print(file=sys.stderr)
    decoded = options.tokens // CHUNK_TOKENS * (CHUNK_TOKENS - 1)
    rows = [
        {
            "loop": loop,
            "ms_per_token": interval([pair[loop] for pair in pairs])[0] / decoded * 1000,
            "ratio": interval([pair["bare"] / pair[loop] for pair in pairs]),
        }
        for loop in LOOPS
    ]
    info = bench.engine.info
    bench.engine.close()
    return {
        "device": info.device,
        "threads": info.threads,
        "weight_format": info.weight_format,
        "capture": str(bench.mode),
        "pairs": len(pairs),
        "tokens_per_loop_and_pair": decoded,
        "loops": rows,
    }


def main() -> None:
    options = arguments()
    preload(EngineChoice(engine="llama"))
    result = measure(options)
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(
        f"{result['weight_format']} on {result['device']}, {result['threads']} threads, "
        f"capture {result['capture']}, {result['pairs']} pairs of {result['tokens_per_loop_and_pair']} "
        "tokens; limit: the bare loop, ratio 1"
    )
    print(f"{'loop':18}{'ms/token':>10}{'bare/loop':>11}   95 % interval")
    for row in result["loops"]:
        median, low, high = row["ratio"]
        print(f"{row['loop']:18}{row['ms_per_token']:10.3f}{median:11.4f}   [{low:.4f}, {high:.4f}]")


if __name__ == "__main__":
    main()
