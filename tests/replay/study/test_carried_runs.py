"""Runs that hand their caches on, stopped anywhere and taken up again: as if nothing had happened."""

import json
from pathlib import Path

import pytest

from replay.study.cell_record import CellStatus
from tests.replay.study.test_study_run import report, run, write_study
from tracer.errors import EngineError
from tracer.tracefile import TraceReader

CLOSED = 'states = ["warm", "cold"]\nway = "closed-loop"\npasses = 2\ncarry = "carried-over"'
FIXED = 'states = ["cold", "warm"]\nrepeats = 2\ncarry = "carried-over"'
LAYERS = 'states = ["warm", "no-prompt-cache"]\npasses = 2\ncarry = "carried-over"'
SENTINEL = 'states = ["cold", "warm"]\nrepeats = 2\ncarry = "sentinel"'
PASSES = 'states = ["warm", "cold"]\npasses = 2'


def taken_up(tmp_path: Path, arms: str, dies_at: int) -> Path:
    """A study whose engine died at this request, and which was run again."""
    folder = tmp_path / f"dies-at-{dies_at}"
    folder.mkdir()
    faults = {"faults": [{"kind": "dies", "request": dies_at}]}
    path, out = write_study(folder, arms=arms, engines={"plain": faults}), folder / "out"
    with pytest.raises(EngineError):
        run(path, out)
    (folder / "plain.json").write_text("{}")
    run(path, out)
    return out


def observed(out: Path) -> dict[str, list[tuple[str, list[int | None], str | None, int]]]:
    """Per file and arm: label, cached tokens of every request, predecessor, position."""
    found = {}
    for file in sorted(out.rglob("*.msgpack")):
        with TraceReader.open(file) as trace:
            found[file.name] = [
                (
                    arm.label,
                    [request.exposure.cached_tokens for request in trace.requests(arm)],
                    arm.place.predecessor,
                    arm.place.position,
                )
                for arm in trace.arms
            ]
    return found


MOMENTS = (3, 8, 13, 18, 22)
"""In the recordings, in both passes of the first state, between the states, in the last pass."""


@pytest.mark.parametrize(
    ("arms", "moments"),
    [
        (CLOSED, (13,)),
        *(
            pytest.param(arms, MOMENTS, marks=pytest.mark.slow)
            for arms in (CLOSED, FIXED, LAYERS, SENTINEL, PASSES)
        ),
    ],
)
def test_a_run_that_was_stopped_anywhere_ends_as_one_that_was_not(
    tmp_path: Path, arms: str, moments: tuple[int, ...]
) -> None:
    run(write_study(tmp_path, arms=arms), tmp_path / "whole")
    wanted, its_report = observed(tmp_path / "whole"), report(tmp_path / "whole")
    for dies_at in moments:
        out = taken_up(tmp_path, arms, dies_at)
        assert observed(out) == wanted, dies_at
        assert report(out) == its_report, dies_at


def test_an_arm_that_grows_out_of_the_context_does_not_keep_its_cell_from_ending(tmp_path: Path) -> None:
    """A trajectory of its own can be longer than the recording, and would be so each time."""
    script = {"disturbance": 1.0, "answer_tokens": 10, "context_tokens": 96}
    path, out = write_study(tmp_path, arms=CLOSED, engines={"plain": script}), tmp_path / "out"
    texts = ("and now?", "and then?", "more", "again")
    talks = [
        {"id": f"talk{n}", "messages": [{"role": "user", "content": text} for text in (f"hello {n}", *texts)]}
        for n in range(3)
    ]
    (tmp_path / "talks.jsonl").write_text("".join(json.dumps(talk) + "\n" for talk in talks))
    path.write_text(path.read_text().replace("max_new_tokens = 8", "max_new_tokens = 16"))
    labels = ["recording", *(f"{s}/closed-loop{p}" for s in ("warm", "cold") for p in ("", "@1"))]
    before: dict[Path, bytes] = {}
    for _ in range(2):
        state = run(path, out).states()[0]
        assert (state.status, state.reason) == (CellStatus.DONE, None)
        assert state.too_long > 0
        whole, outgrown = 0, 0
        for file in out.rglob("*.msgpack"):
            with TraceReader.open(file) as trace:
                ends = [trace.end(arm) for arm in trace.arms]
                if all(end is not None and end.completed for end in ends[:1]):
                    assert [arm.label for arm in trace.arms] == labels
                    outgrown += any(end is not None and not end.completed for end in ends)
                whole += all(end is not None and end.completed for end in ends)
        assert whole == 3 - state.too_long
        assert outgrown > 0  # recorded to its end, and outgrew the context in a replay
        files = {file: file.read_bytes() for file in out.rglob("*.msgpack")}
        assert before in ({}, files)  # the second time there is nothing left to run
        before = files
        for record in out.rglob("cell.json"):
            record.unlink()  # as if it had been stopped before it could say that it is done
