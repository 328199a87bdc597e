"""Traces that are damaged, or whole and absurd: every format is written, or one error says why not."""

import random
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from stats.gates import parse_gate
from stats.renderers.choose import render
from stats.report.build import build_report, with_gates
from stats.report.collect import CollectOptions, collect
from stats.report.issue import render_issue
from tests.synthetic import ArmSpec, write_trace
from tracer.columns import Alternatives, PathColumns
from tracer.episode import CacheState, Carry, Outcome, Scale
from tracer.errors import CachetraceError
from tracer.tracefile import TraceReader, TraceWriter

FORMATS = ("table", "md", "csv", "json", "latex", "html")
WARM = {"state": "warm", "drift": 1e-3, "flips": {1: 3}}
ODD = (np.nan, np.inf, -np.inf, 3e38)


def source(path: Path) -> Path:
    arms = [ArmSpec(score=1.0), ArmSpec(repeat=1, score=1.0), ArmSpec(**WARM), ArmSpec(**WARM, repeat=1)]  # type: ignore[arg-type]
    snapshots = [ArmSpec(state="snapshot", drift=1e-3), ArmSpec(state="snapshot", drift=1e-3, repeat=1)]
    write_trace(path, requests=3, tokens=12, arms=[*arms, *snapshots])
    return path


def everything(file: Path) -> bool:
    """Whether the file could be reported; any error but our own is a failure."""
    options = CollectOptions(mechanism=True, state_pairs=((CacheState.WARM, CacheState.SNAPSHOT),))
    try:
        built = build_report(collect([file], options, workers=1))
    except CachetraceError:
        return False
    with_gates(built, [parse_gate("cross-arm<=1"), parse_gate("within-arm.requests.upper<=1")])
    for name in FORMATS:
        assert render(built, name, 100, draw=True)
    assert render_issue(built, "cachetrace report")
    return True


def test_damaged_bytes(tmp_path: Path) -> None:
    raw = source(tmp_path / "a.msgpack").read_bytes()
    picked = random.Random(1)
    reported = 0
    for _ in range(20):
        damaged = bytearray(raw)
        for _ in range(picked.choice((1, 20))):
            damaged[picked.randrange(len(raw))] = picked.randrange(256)
        if picked.random() < 0.3:
            del damaged[picked.randrange(len(raw)) :]
        (tmp_path / "m.msgpack").write_bytes(damaged)
        reported += everything(tmp_path / "m.msgpack")
    assert reported > 10


@pytest.mark.parametrize("seed", range(12))
def test_whole_traces_that_make_no_sense(tmp_path: Path, seed: int) -> None:
    """Numbers that are not finite, negative counts, arms that refer to nothing, times that are none."""
    picked = random.Random(seed)
    path = tmp_path / "absurd.msgpack"
    notes = {"experiment": picked.choice(("", "second-layer", "restored", "nonsense"))}
    with TraceReader.open(source(tmp_path / "a.msgpack")) as trace, new(path, trace, notes) as writer:
        for arm in trace.arms:
            writer.begin_arm(
                replace(
                    arm,
                    reference_arm=picked.choice((None, -5, 99, arm.index)),
                    source_arm=picked.choice((None, -1, 99)),
                    pass_index=picked.choice((0, 1, -3)),
                    note=picked.choice((None, "second layer on", "restored", "\x1b[31m")),
                    started_at=picked.choice((arm.started_at, float("nan"), float("inf"))),
                    place=replace(
                        arm.place, carry=picked.choice(list(Carry)), position=picked.choice((0, -4))
                    ),
                    engine=replace(arm.engine, weight_format=picked.choice(("F16", "", "9" * 30))),
                )
            )
            copy_requests(trace, writer, arm.index, picked)
            end = trace.end(arm)
            assert end is not None
            outcome = Outcome(score=float("nan"), solved=picked.choice((None, True)))
            writer.end_arm(arm.index, replace(end, requests=picked.choice((3, -1, 99)), outcome=outcome))
    assert everything(path)


def new(path: Path, trace: TraceReader, notes: dict[str, str]) -> TraceWriter:
    return TraceWriter.create(path, replace(trace.episode, notes=notes))


def copy_requests(trace: TraceReader, writer: TraceWriter, arm: int, picked: random.Random) -> None:
    for request in trace.requests(arm):
        path, table = trace.path(arm, request.index), trace.alternatives(arm, request.index)
        assert path.chosen_values is not None
        assert table is not None
        values, chosen = table.values.copy(), path.chosen_values.copy()
        values[picked.randrange(len(values)), picked.randrange(3)] = picked.choice(ODD)
        chosen[picked.randrange(len(chosen))] = picked.choice(ODD)
        exposure = replace(
            request.exposure,
            cached_tokens=picked.choice((request.exposure.cached_tokens, -3, 10**12, None)),
            prompt_tokens=picked.choice((request.exposure.prompt_tokens, 0, None, -1)),
        )
        writer.write_request(
            arm,
            replace(request, exposure=exposure, scale=picked.choice((None, Scale.LOGIT, Scale.LOGPROB))),
            prompt_ids=trace.prompt_ids(arm, request.index),
            path=PathColumns(path.token_ids, path.flags, chosen, path.log_sum_exp, path.fingerprints),
            alternatives=Alternatives(table.ids, values, table.counts),
        )
