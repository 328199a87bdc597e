"""What capturing every row costs, against a bare decode-and-argmax loop on the same engine.

    python -m benchmarks.capture_cost [--model FILE] [--gpu-layers N] [--pairs 30]

Three loops decode the same tokens after the same prompt: bare (decode, argmax of the row), ours
(top-k, log-sum-exp, fingerprint as ``record`` takes them) and ours with full rows kept. A machine is
never quiet, so the loops take turns in short chunks of one pass over the same positions: in each
round every loop does one chunk, in an order that rotates, and a pair is the time of all chunks of
two loops in the same stretch. Bare against itself says what the noise alone is.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from benchmarks.command import Given, run
from benchmarks.rows import NotMeasured, Row, against
from benchmarks.turns import Effort, progress, seconds
from tracer.engines.choice import EngineChoice
from tracer.engines.registry import preload
from tracer.errors import CachetraceError

CHUNK_TOKENS = 8
LOOPS = ("bare", "bare again", "ours", "ours, full rows")
SHARE = 0.97
"""Of the bare loop's speed that capture must leave."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model")
    parser.add_argument("--gpu-layers", type=int, default=0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--tokens", type=int, default=32, help="output tokens of each loop in one pair")
    parser.add_argument("--prompt-tokens", type=int, default=400)
    parser.add_argument("--capture", choices=["inline", "overlapped", "thread"])


class Bench:
    """One engine; every loop decodes the same tokens at the same positions."""

    def __init__(self, given: Given) -> None:
        from tracer.capture import CaptureMode, RowCapture
        from tracer.engines.llama.engine import LlamaEngine

        choice = EngineChoice(
            engine="llama", model=given.model, gpu_layers=given.gpu_layers, threads=given.threads
        )
        self.engine = LlamaEngine(choice, CaptureMode(given.capture) if given.capture else None)
        self.mode = self.engine._capture_mode
        self.context = self.engine._context
        vocabulary = self.engine._model.vocabulary_tokens
        prompt = self.engine.tokenize("The ships of the old harbour were counted every morning. " * 400)
        self.context.decode(prompt[: given.prompt_tokens])
        self.start = len(self.context.held)
        if given.tokens < CHUNK_TOKENS or given.tokens % CHUNK_TOKENS:
            raise NotMeasured(f"--tokens must be a multiple of {CHUNK_TOKENS}")
        self.tokens = given.tokens
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
        return seconds(lambda: body(tokens[1:], capture))()

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
        """Seconds per loop and token over the same positions, chunk by chunk in turns."""
        spent = dict.fromkeys(LOOPS, 0.0)
        for capture in self.captures.values():
            capture.clear()
        for turn, position in enumerate(range(0, self.tokens, CHUNK_TOKENS)):
            shift = (number + turn) % len(LOOPS)
            for loop in LOOPS[shift:] + LOOPS[:shift]:
                spent[loop] += self.chunk(loop, position)
        decoded = self.tokens // CHUNK_TOKENS * (CHUNK_TOKENS - 1)
        return {loop: time / decoded for loop, time in spent.items()}


def rows(given: Given, effort: Effort) -> Iterator[Row]:
    preload(EngineChoice(engine="llama"))  # before numpy, as the engine's own process does
    try:
        bench = Bench(given)
    except CachetraceError as error:
        raise NotMeasured(str(error)) from error
    pairs = []
    bench.pair(0)  # warm up
    for number in range(effort.pairs):
        pairs.append(bench.pair(number))
        progress(f"{number + 1} of {effort.pairs} rounds")
    progress("")
    info = bench.engine.info
    bench.engine.close()
    bare = [pair["bare"] for pair in pairs]
    machine = f"{info.device}, {info.threads} threads, capture {bench.mode}"
    for loop, what, note in (
        ("bare again", "capture: the bare loop against itself (noise)", ""),
        ("ours", "capture: top 20, log-sum-exp, fingerprint", machine),
        ("ours, full rows", "capture: the same with full rows", ""),
    ):
        capture_itself = loop == "ours"
        yield against(
            f"{what}, {info.weight_format}",
            "ms a token",
            [pair[loop] for pair in pairs],
            "decode and argmax",
            bare,
            scale=1000,
            target=f"{SHARE} of the bare speed" if capture_itself else "",
            ratio_at_most=1 / SHARE if capture_itself else None,
            note=note,
        )


if __name__ == "__main__":
    run(rows, "capture cost", __doc__, options)
