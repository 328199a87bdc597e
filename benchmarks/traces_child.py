"""The parts of benchmarks that need numpy or much memory; each runs in a process of its own.

python -m benchmarks.traces_child traces DIR ARMS     traces of 4 arms each, as studies write them
python -m benchmarks.traces_child one DIR ARMS        a single trace of so many arms
python -m benchmarks.traces_child grid DIR C E        C configurations of E episodes of the paper's grid
python -m benchmarks.traces_child times DIR           JSON: seconds of opening and of verdicts, and limits
python -m benchmarks.traces_child read DIR            import numpy and read all bytes
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

ARMS_IN_A_TRACE = 4
DRIFT = 2e-2
"""Flips lie within it, as real ones mostly do. Beyond it the triage reads the lists of other tokens too."""
DIFFERENT = 40
"""Traces that are really made; the others are their frames under another episode."""
_SHAPE = {"requests": 2, "tokens": 8, "k": 4, "prompt_tokens": 32, "with_pieces": False}


def make_traces(folder: Path, arms: int) -> None:
    """Cold and warm, each twice; half of the episodes flip."""
    from msgspec.structs import replace

    from tests.synthetic import ArmSpec, write_trace
    from tracer.tracefile import TraceReader
    from tracer.tracefile.frames import HEAD_BYTES, NO_ARM, NO_REQUEST, Kind, pack_frame, parse_head
    from tracer.tracefile.payloads import FileHeader, encode

    folder.mkdir(parents=True)
    made = []
    for number in range(DIFFERENT):
        path = folder / f"{number}.made"
        warm = {"state": "warm", "drift": DRIFT, "flips": {1: 3} if number % 2 else {}}
        specs = [ArmSpec(), ArmSpec(repeat=1, way="fixed"), ArmSpec(**warm), ArmSpec(**warm, repeat=1)]
        write_trace(path, arms=specs, seed=number, **_SHAPE)
        with TraceReader.open(path) as trace:
            header = FileHeader(writer=trace.writer, episode=trace.episode)
        content = path.read_bytes()
        first = parse_head(content[:HEAD_BYTES], 0)
        assert first is not None
        made.append((header, content[first.end :]))
        path.unlink()
        path.with_name(path.name + ".lock").unlink(missing_ok=True)
    for number in range(arms // ARMS_IN_A_TRACE):
        header, frames = made[number % DIFFERENT]
        episode = replace(header.episode, episode_id=f"episode-{number:05}")
        head = pack_frame(Kind.HEADER, 0, NO_ARM, NO_REQUEST, encode(replace(header, episode=episode)))
        (folder / f"episode-{number:05}.msgpack").write_bytes(head + frames)


def make_one(folder: Path, arms: int) -> None:
    """Repeats of cold and of warm in turns, as a long ``replay --repeat`` leaves them."""
    from tests.synthetic import ArmSpec, write_trace

    folder.mkdir(parents=True)
    specs = []
    for repeat in range(arms // 2):
        specs.append(ArmSpec(repeat=repeat, way="fixed" if repeat else "recorded"))
        specs.append(ArmSpec(state="warm", drift=DRIFT, flips={1: 3}, repeat=repeat))
    write_trace(folder / "many.msgpack", arms=specs, **_SHAPE)


def make_grid(folder: Path, configurations: int, episodes: int) -> None:
    """One trace a configuration and episode, 10 requests of 100 tokens; about half of the episodes flip."""
    from tests.synthetic import ArmSpec, write_trace

    folder.mkdir(parents=True, exist_ok=True)
    for c in range(configurations):
        engine = {
            "model_name": f"model-{c // 4}",
            "model_hash": f"sha256:{c:064x}",
            "weight_format": ("F16", "Q8_0", "Q4_K_M", "Q3_K_M")[c % 4],
        }
        for e in range(episodes):
            warm = {"state": "warm", "drift": DRIFT, "flips": {3: 20} if (e + c) % 2 else {}}
            write_trace(
                folder / f"c{c}-e{e:03}.msgpack",
                requests=10,
                tokens=100,
                k=4,
                seed=1000 * c + e,
                episode_id=f"episode-{e}",
                run_id=f"run-{c}",
                run_position=e,
                engine=engine,
                with_pieces=False,
                arms=[ArmSpec(), ArmSpec(repeat=1, way="fixed"), ArmSpec(**warm), ArmSpec(**warm, repeat=1)],
            )


def times(folder: Path) -> dict[str, float]:
    """Seconds over all traces of the folder: each thing we do, and what nothing could do without."""
    from replay.divergence import Detail, analyse
    from stats.report.held_trace import HeldTrace
    from tracer.tracefile import TraceReader

    files = sorted(folder.glob("*.msgpack"))
    found = dict.fromkeys(("read", "open", "verdicts", "compare"), 0.0)
    for file in files:
        begun = time.perf_counter()
        file.read_bytes()
        opening = time.perf_counter()
        with TraceReader.open(file) as reader:
            opened = time.perf_counter()
            trace = HeldTrace(reader)
            analyse(trace, detail=Detail.PATH)
            judged = time.perf_counter()
            paths = [[trace.path(a, r.index) for r in trace.requests(a)] for a in range(len(trace.arms))]
        columns = [
            [
                np.concatenate([getattr(path, name) for path in arm])
                for name in ("token_ids", "chosen_values", "log_sum_exp", "fingerprints")
            ]
            for arm in paths
        ]
        comparing = time.perf_counter()
        for arm in columns[1:]:
            for ours, others in zip(columns[0], arm, strict=True):
                np.count_nonzero(ours != others)
        found["compare"] += time.perf_counter() - comparing
        found["read"] += opening - begun
        found["open"] += opened - opening
        found["verdicts"] += judged - opened
    return found


def read(folder: Path) -> None:
    for file in sorted(folder.glob("*.msgpack")):
        file.read_bytes()


def main() -> None:
    what, folder, *numbers = sys.argv[1:]
    make = {"traces": make_traces, "one": make_one, "grid": make_grid}
    if what in make:
        make[what](Path(folder), *map(int, numbers))
    elif what == "read":
        read(Path(folder))
    else:
        print(json.dumps(times(Path(folder))))


if __name__ == "__main__":
    main()
