"""What the rules of a study file let pass can be run, and what they refuse could not be."""

import json
from pathlib import Path

import pytest

from replay.study import study_file
from replay.study.cell_run import CellOutcome, run_cell
from replay.study.cells import cells_of
from replay.study.study_file import load_study, parse_study
from tracer.episode import Way
from tracer.errors import StateRefused, UsageError
from tracer.progress import Silent
from tracer.tracefile import TraceReader

CAN_BE_RUN = [
    'states = ["warm", "snapshot"]',
    'states = ["warm", "snapshot"]\npriming = ["self"]',  # the recording is the reference
    'states = ["snapshot"]',
    'states = ["cold", "warm", "snapshot"]\npasses = 2',
    'states = ["cold", "warm", "snapshot"]\npriming = ["self", "lockstep"]',
    'states = ["warm", "snapshot"]\nway = "closed-loop"',
    'states = ["no-prompt-cache", "warm", "snapshot"]',
    'states = ["cold", "no-prompt-cache"]\npriming = ["self"]',
]
CANNOT_BE_RUN = [
    'states = ["cold", "snapshot"]',
    'states = ["cold", "snapshot", "warm"]',
    'states = ["no-prompt-cache", "snapshot"]',
    'states = ["cold", "warm", "snapshot"]\npriming = ["self"]',
    'states = ["cold", "warm", "snapshot"]\nway = "closed-loop"',
    'states = ["cold", "warm", "snapshot"]\nway = "forced"',
    'states = ["warm", "snapshot"]\ncarry = "carried-over"',
    'states = ["warm", "snapshot"]\ncarry = "sentinel"',
]


def study_of(folder: Path, arms: str) -> Path:
    messages = [{"role": "user", "content": text} for text in ("What is rain?", "And snow?")]
    talk = {"id": "talk", "messages": messages}
    (folder / "talks.jsonl").write_text(json.dumps(talk))
    path = folder / "study.toml"
    path.write_text(
        f"""name = "mine"
[workload]
name = "chat"
file = "talks.jsonl"
[[engine]]
engine = "fake"
[[arms]]
{arms}
[sampling]
max_new_tokens = 8
"""
    )
    return path


def run(path: Path, out: Path) -> CellOutcome:
    (cell,) = cells_of(load_study(str(path)))
    return run_cell(cell, out, Silent())


@pytest.mark.parametrize("arms", CAN_BE_RUN)
def test_arms_that_pass_can_be_run(tmp_path: Path, arms: str) -> None:
    path = study_of(tmp_path, arms)
    outcome = run(path, tmp_path / "out")
    assert (outcome.episodes, outcome.failed) == (1, [])
    (trace_file,) = (tmp_path / "out").rglob("*.msgpack")
    with TraceReader.open(trace_file) as trace:
        assert trace.arms[0].way is Way.RECORDED
        assert trace.arms[0].state is load_study(str(path)).arms[0].recorded_state
        assert {arm.state for arm in trace.arms} >= set(load_study(str(path)).arms[0].states)


@pytest.mark.parametrize("arms", CANNOT_BE_RUN)
def test_arms_that_are_refused_would_fail_after_recording(
    tmp_path: Path, arms: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = study_of(tmp_path, arms)
    with pytest.raises(UsageError, match=r"study\.toml, line 8, arms\[0\]\.states: snapshot restores"):
        parse_study(path.read_text())
    monkeypatch.setattr(study_file, "arms_mistakes", lambda arms: ())
    with pytest.raises((StateRefused, UsageError), match="snapshot"):
        run(path, tmp_path / "out")
    assert list((tmp_path / "out").rglob("*.msgpack"))
