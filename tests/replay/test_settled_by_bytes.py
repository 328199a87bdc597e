"""Equal stored bytes settle a request without a look at its numbers, and say what that look would say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from replay.divergence import request_verdict
from replay.divergence.analyse import analyse
from tests.synthetic import ArmSpec, write_trace
from tracer.tracefile import TraceReader


@pytest.mark.parametrize("detail", ["path", "alternatives"])
def test_the_short_way_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, detail: str) -> None:
    warm = ArmSpec(state="warm", drift=1e-3, flips={2: 5})
    write_trace(tmp_path / "t.msgpack", arms=[ArmSpec(), ArmSpec(repeat=1), warm, ArmSpec(state="warm")])
    with TraceReader.open(tmp_path / "t.msgpack") as trace:
        short = analyse(trace, detail=detail)
    settled = []

    def never(pair: request_verdict.RequestPair) -> None:
        settled.append(pair)

    monkeypatch.setattr(request_verdict, "_settled_by_bytes", never)
    with TraceReader.open(tmp_path / "t.msgpack") as trace:
        assert analyse(trace, detail=detail) == short
    assert settled


def test_a_changed_copy_of_a_path_is_not_taken_for_the_stored_one(tmp_path: Path) -> None:
    write_trace(tmp_path / "t.msgpack", arms=[ArmSpec(), ArmSpec(repeat=1)])
    with TraceReader.open(tmp_path / "t.msgpack") as trace:
        path, again = trace.path(0, 0), trace.path(1, 0)
    assert path.stored is not None
    assert path.stored == again.stored
    assert np.array_equal(path.token_ids, again.token_ids)
    assert replace(path, token_ids=path.token_ids + 1).stored is None
