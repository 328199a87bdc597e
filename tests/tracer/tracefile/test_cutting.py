"""Arms taken off the end of a file."""

from pathlib import Path

import pytest

from tests.synthetic import ArmSpec, write_trace
from tracer.episode import ArmEnd, Request
from tracer.errors import TraceFormatError, UsageError
from tracer.tracefile import TraceReader, TraceWriter
from tracer.tracefile.cutting import cut_arms

ARMS = [ArmSpec(), ArmSpec(state="warm"), ArmSpec(state="warm", repeat=1)]


def write(path: Path, arms: list[ArmSpec]) -> bytes:
    write_trace(path, requests=3, tokens=5, arms=arms)
    return path.read_bytes()


@pytest.mark.parametrize("first", [1, 2])
def test_what_is_left_is_the_file_before_those_arms(tmp_path: Path, first: int) -> None:
    path = tmp_path / "t.msgpack"
    whole = write(path, ARMS)
    cut_arms(path, first)
    left = path.read_bytes()
    assert whole.startswith(left)
    with TraceReader.open(path) as trace:
        assert trace.check() == ()
        assert [arm.index for arm in trace.arms] == list(range(first))
        assert all(trace.end(arm) is not None for arm in trace.arms)
        assert trace.has_alternatives(first - 1, 2)


def test_without_such_an_arm_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    whole = write(path, ARMS)
    cut_arms(path, 3)
    assert path.read_bytes() == whole


def test_a_torn_file_is_cut_and_can_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    path.write_bytes(write(path, ARMS)[:-7])
    cut_arms(path, 2)
    with TraceReader.open(path) as trace:
        again = trace.arms[1]
    with TraceWriter.append(path) as writer:
        arm = writer.begin_arm(again)
        assert arm.index == 2
        writer.write_request(2, Request(index=0), prompt_ids=[1, 2, 3])
        writer.end_arm(2, ArmEnd(requests=1, completed=True))
    with TraceReader.open(path) as trace:
        assert trace.check() == ()
        assert trace.prompt_ids(2, 0).tolist() == [1, 2, 3]  # type: ignore[union-attr]


def test_an_arm_that_goes_on_behind_the_cut_keeps_it_from_being_made(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    write(path, [ArmSpec(), ArmSpec(state="warm", complete=False)])
    with TraceReader.open(path) as trace:
        warm = trace.arms[1]
    with TraceWriter.append(path) as writer:
        writer.begin_arm(warm)
        writer.end_arm(1, ArmEnd(requests=3, completed=True))
    whole = path.read_bytes()
    with pytest.raises(TraceFormatError, match=r"arm 1 of .* goes on behind arm 2"):
        cut_arms(path, 2)
    assert path.read_bytes() == whole


def test_a_file_that_is_being_written_or_damaged_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    whole = write(path, ARMS)
    with TraceWriter.append(path), pytest.raises(UsageError):
        cut_arms(path, 1)
    path.write_bytes(whole[: len(whole) // 2] + b"?" + whole[len(whole) // 2 + 1 :])
    with pytest.raises(TraceFormatError):
        cut_arms(path, 1)
