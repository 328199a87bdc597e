"""Mutates a trace file many times and holds each reading against the original.

Run as a script in a process of its own, so that its peak memory is its own:
``python mutations.py SEED COUNT`` prints one JSON object.
"""

import json
import random
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.synthetic import ArmSpec, write_trace
from tracer.errors import TraceFormatError
from tracer.tracefile import LossKind, TraceReader
from tracer.tracefile.frames import HEAD_BYTES, Frame, pack_frame, parse_head

Columns = dict[str, Any]


def make_original(path: Path) -> bytes:
    """A small trace with several arms, one of them incomplete."""
    write_trace(
        path,
        requests=3,
        tokens=6,
        k=5,
        prompt_tokens=12,
        prompt_growth=5,
        arms=[
            ArmSpec(score=1.0),
            ArmSpec(state="warm", drift=1e-3, flips={1: 2}),
            ArmSpec(state="warm", way="closed-loop", drift=1e-3, flips={0: 3}, requests=2),
        ],
    )
    return path.read_bytes()


def frames_of(content: bytes) -> list[bytes]:
    """The frames of an intact file."""
    found: list[bytes] = []
    at = 0
    while at < len(content):
        frame = parse_head(content[at : at + HEAD_BYTES], at)
        assert frame is not None
        found.append(content[at : frame.end])
        at = frame.end
    return found


def reading(trace: TraceReader) -> dict[str, Any]:
    """Everything that a reader gives."""
    requests: dict[tuple[int, int], Columns] = {}
    trace.check()
    for arm in trace.arms:
        for request in trace.requests(arm):
            key = (arm.index, request.index)
            path = trace.path(*key)
            requests[key] = {
                "request": request,
                "prompt": _bytes(trace.prompt_ids(*key)),
                "path": tuple(
                    _bytes(c)
                    for c in (
                        path.token_ids,
                        path.flags,
                        path.chosen_values,
                        path.log_sum_exp,
                        path.fingerprints,
                    )
                ),
                "alternatives": _table(trace.alternatives(*key)),
            }
    return {
        "arms": trace.arms,
        "ends": [trace.end(arm) for arm in trace.arms],
        "requests": requests,
        "pieces": {i: trace.piece(i) for i in trace.piece_ids},
    }


def _bytes(column: np.ndarray | None) -> bytes | None:
    return None if column is None else column.tobytes()


def _table(table: Any) -> Any:
    return None if table is None else (_bytes(table.ids), _bytes(table.values), _bytes(table.counts))


def check_against(original: dict[str, Any], trace: TraceReader, is_prefix: bool) -> None:
    """Whatever differs from the original must be named in the losses."""
    now = reading(trace)
    losses = trace.losses
    named = {(loss.kind, loss.arm, loss.request) for loss in losses}
    columns = {(loss.arm, loss.request, loss.column) for loss in losses if loss.kind is LossKind.COLUMN}
    kinds = {loss.kind for loss in losses}
    gap = kinds & {
        LossKind.TORN_TAIL,
        LossKind.DAMAGED_BYTES,
        LossKind.MISSING_FRAMES,
        LossKind.UNCOMMITTED,
    }
    if not losses and not is_prefix:
        assert now == original
    for i, arm in enumerate(original["arms"]):
        if i >= len(now["arms"]):
            assert gap or is_prefix, f"arm {i} vanished"
        elif now["arms"][i] != arm:
            assert (LossKind.ARM, i, None) in named, f"the description of arm {i} changed"
        if i < len(now["arms"]) and now["ends"][i] != original["ends"][i]:
            assert now["ends"][i] is None
            assert gap or is_prefix or (LossKind.ARM, i, None) in named
    for key, then in original["requests"].items():
        seen = now["requests"].get(key)
        if seen is None:
            assert gap or is_prefix, f"request {key} vanished"
            arm_index = key[0]
            if arm_index < len(now["arms"]):
                assert now["ends"][arm_index] is None, f"request {key} vanished from a finished arm"
            continue
        error = seen["request"].error
        if error is not None and error.kind == "lost":
            assert (LossKind.REQUEST, *key) in named, f"request {key} is lost and not named"
            continue
        assert seen["request"] == then["request"]
        for column in ("prompt", "path", "alternatives"):
            if seen[column] != then[column]:
                assert (*key, column) in columns, f"{column} of {key} changed and is not named"
                assert seen[column] is None or column == "path"
    assert now["requests"].keys() <= original["requests"].keys()
    if now["pieces"] != original["pieces"]:
        assert now["pieces"].items() <= original["pieces"].items()
        assert gap or is_prefix or LossKind.PIECES in kinds


# ---- mutations that leave checksums alone: the whole oracle holds ----


def truncate(rng: random.Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content))]


def flip_bits(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(rng: random.Random, content: bytes) -> bytes:
    at = rng.randrange(len(content))
    length = rng.choice((1, 7, 64, 600))
    return content[:at] + rng.randbytes(min(length, len(content) - at)) + content[at + length :]


def cut_out(rng: random.Random, content: bytes) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + content[at + rng.choice((1, 3, 40, 700)) :]


def insert(rng: random.Random, content: bytes) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + rng.randbytes(rng.choice((1, 5, 90))) + content[at:]


def drop_frames(rng: random.Random, content: bytes) -> bytes:
    frames = frames_of(content)
    at = rng.randrange(len(frames))
    del frames[at : at + rng.choice((1, 1, 1, 2, 5))]
    return b"".join(frames)


def double_frame(rng: random.Random, content: bytes) -> bytes:
    frames = frames_of(content)
    frames.insert(rng.randrange(len(frames) + 1), rng.choice(frames))
    return b"".join(frames)


def swap_frames(rng: random.Random, content: bytes) -> bytes:
    frames = frames_of(content)
    a, b = rng.randrange(len(frames)), rng.randrange(len(frames))
    frames[a], frames[b] = frames[b], frames[a]
    return b"".join(frames)


def huge_length(rng: random.Random, content: bytes) -> bytes:
    frames = frames_of(content)
    at = rng.randrange(len(frames))
    length = rng.choice((0, 1, 19, 2**31, 2**32 - 1, rng.randrange(2**32)))
    frames[at] = frames[at][:1] + struct.pack(">I", length) + frames[at][5:]
    return b"".join(frames)


# ---- mutations with repaired checksums: somebody meant it; only the form of the answer is held ----


def _repacked(frame: Frame, payload: bytes, **changes: int) -> bytes:
    head = {"kind": frame.kind, "sequence": frame.sequence, "arm": frame.arm, "request": frame.request}
    return pack_frame(**{**head, **changes}, payload=payload)


def crafted(rng: random.Random, content: bytes) -> bytes:
    frames = frames_of(content)
    at = rng.randrange(len(frames))
    frame = parse_head(frames[at][:HEAD_BYTES], 0)
    assert frame is not None
    payload = frames[at][HEAD_BYTES:]
    choice = rng.randrange(7)
    if choice == 0:
        payload = b"\x91" * rng.choice((100, 100_000)) + b"\xc0"
    elif choice == 1:
        payload = b"\x81\xa1a" * 50_000 + b"\xc0"
    elif choice == 2:
        payload = rng.choice((b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9")) + b"\xff\xff\xff\xff" + payload
    elif choice == 3 and payload:
        changed = bytearray(payload)
        for _ in range(3):
            changed[rng.randrange(len(changed))] = rng.choice(
                (0, 1, 0x7F, 0x80, 0xFF, 0xC1, rng.randrange(256))
            )
        payload = bytes(changed)
    elif choice == 4:
        payload = (
            struct.pack("<IBxxx", rng.choice((0, 1, 2**31, 2**32 - 1)), rng.randrange(256)) + payload[8:]
        )
    changes: dict[str, int] = {}
    if choice >= 5:
        name = rng.choice(("kind", "sequence", "arm", "request"))
        top = 127 if name == "kind" else 2**31 - 1
        changes[name] = (
            rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 40, 64, 99, top))
            if name != "arm"
            else rng.choice((-(2**31), -1, 0, 1, 2, 3, 4000, 5000, top))
        )
    frames[at] = _repacked(frame, payload, **changes)
    return b"".join(frames)


def long_frame(rng: random.Random, content: bytes) -> bytes:
    """A head with a valid checksum whose length swallows what follows, or goes past the end."""
    frames = frames_of(content)
    at = rng.randrange(len(frames))
    rest = b"".join(frames[at + 1 :])
    frame = parse_head(frames[at][:HEAD_BYTES], 0)
    assert frame is not None
    payload = frames[at][HEAD_BYTES:] + rest[: rng.randrange(len(rest) + 1)]
    whole = _repacked(frame, payload)
    return b"".join(frames[:at]) + whole[: rng.randrange(HEAD_BYTES, len(whole) + 1)] + rest


HONEST: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    truncate,
    flip_bits,
    flip_bits,
    overwrite,
    cut_out,
    insert,
    drop_frames,
    double_frame,
    swap_frames,
    huge_length,
)
CRAFTED: tuple[Callable[[random.Random, bytes], bytes], ...] = (crafted, crafted, long_frame)


def run(seed: int, count: int) -> dict[str, Any]:
    """Read ``count`` mutated files; raises AssertionError at the first wrong reading."""
    rng = random.Random(seed)
    answers: Counter[str] = Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutated.msgpack"
        content = make_original(path)
        with TraceReader.open(path) as trace:
            assert trace.losses == ()
            original = reading(trace)
        for number in range(count):
            mutate = rng.choice(HONEST if number % 4 else CRAFTED)
            mutated = mutate(rng, content)
            path.write_bytes(mutated)
            started = time.perf_counter()
            try:
                with TraceReader.open(path) as trace:
                    if mutate in CRAFTED:
                        reading(trace)
                    else:
                        check_against(original, trace, content.startswith(mutated))
                    answer = "read with losses" if trace.losses else "read whole"
            except TraceFormatError:
                answer = "refused"
            except Exception as error:
                (Path(tempfile.gettempdir()) / "cachetrace-mutated.msgpack").write_bytes(mutated)
                raise AssertionError(f"seed {seed}, file {number}, {mutate.__name__}: {error!r}") from error
            slowest = max(slowest, time.perf_counter() - started)
            answers[f"{mutate.__name__}: {answer}"] += 1
            answers[answer] += 1
    return {"answers": dict(answers), "slowest_s": slowest}


def peak_bytes() -> int:
    """Most memory that this process held. On Linux ``ru_maxrss`` would count the parent's before exec."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [each for each in status.read_text().splitlines() if each.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    outcome = run(int(sys.argv[1]), int(sys.argv[2]))
    outcome["peak_bytes"] = peak_bytes()
    print(json.dumps(outcome))
