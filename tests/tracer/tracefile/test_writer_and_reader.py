"""One writer, appending, following a growing file, reading heads of many files."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.synthetic import ArmSpec, write_trace
from tests.tracer.tracefile.mutations import frames_of
from tests.tracer.tracefile.test_round_trip import ARM, EPISODE
from tests.work import calls_of
from tracer.columns import PathColumns
from tracer.episode import ArmEnd, Request
from tracer.errors import TraceFormatError, UsageError
from tracer.tracefile import TraceReader, TraceWriter, read_header
from tracer.tracefile.frames import Kind, pack_frame


def _path(*ids: int) -> PathColumns:
    return PathColumns(np.array(ids, np.int32), np.zeros(len(ids), np.uint8))


def test_a_second_writer_is_told_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    with TraceWriter.create(path, EPISODE) as writer:
        for start in (TraceWriter.append, lambda p: TraceWriter.create(p, EPISODE)):
            with pytest.raises(UsageError, match="another cachetrace"):
                start(path)
        writer.begin_arm(ARM)
    with TraceWriter.append(path) as writer:
        assert len(writer.arms) == 1


def test_the_lock_holds_across_processes(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    code = f"from tracer.tracefile import TraceWriter\nTraceWriter.append({str(path)!r})"
    with TraceWriter.create(path, EPISODE):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "another cachetrace" in done.stderr


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    path.write_bytes(b"precious")
    with pytest.raises(UsageError, match="exists already"):
        TraceWriter.create(path, EPISODE)
    assert path.read_bytes() == b"precious"


def test_append_needs_a_trace(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        TraceWriter.append(tmp_path / "none.msgpack")
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(TraceFormatError):
        TraceWriter.append(tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == b"something else"


def test_folders_are_made_and_those_that_cannot_be_are_one_sentence(tmp_path: Path) -> None:
    with TraceWriter.create(tmp_path / "new" / "folder" / "t.msgpack", EPISODE):
        pass
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="cannot be written"):
        TraceWriter.create(tmp_path / "file" / "t.msgpack", EPISODE)


def test_misuse_of_the_writer_is_refused(tmp_path: Path) -> None:
    with TraceWriter.create(tmp_path / "t.msgpack", EPISODE) as writer:
        writer.begin_arm(ARM)
        with pytest.raises(ValueError, match="request 0 is next"):
            writer.write_request(0, Request(index=1))
        writer.end_arm(0, ArmEnd(requests=0, completed=True))
        with pytest.raises(ValueError, match="not open"):
            writer.write_request(0, Request(index=0))
        with pytest.raises(UsageError, match="has ended"):
            writer.resume_arm(0)
        with pytest.raises(UsageError, match="no arm 5"):
            writer.resume_arm(5)
    with pytest.raises(ValueError, match="closed"):
        writer.begin_arm(ARM)


def test_a_full_disk_leaves_a_whole_file_that_can_be_continued(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "t.msgpack"
    with TraceWriter.create(path, EPISODE) as writer:
        writer.begin_arm(ARM)
        writer.write_request(0, Request(index=0), path=_path(1))
        whole = path.read_bytes()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 500, limits[1]))
        try:
            with pytest.raises(UsageError, match="cannot be written"):
                writer.write_request(0, Request(index=1), path=_path(2), pieces={1: b"x" * 400})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_bytes() == whole
        writer.write_request(0, Request(index=1), path=_path(3), pieces={1: b"y"})
    with TraceReader.open(path) as trace:
        assert trace.check() == ()
        assert [trace.path(0, i).token_ids.tolist() for i in range(2)] == [[1], [3]]
        assert trace.piece(1) == b"y"


def test_a_request_that_cannot_be_encoded_leaves_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    with TraceWriter.create(path, EPISODE) as writer:
        writer.begin_arm(ARM)
        with pytest.raises(TypeError):
            writer.write_request(0, Request(index=0, extra={"x": object()}), prompt_ids=[1, 2], path=_path(1))
        writer.write_request(0, Request(index=0), prompt_ids=[1, 2], path=_path(2))
    with TraceReader.open(path) as trace:
        assert trace.check() == ()
        assert trace.prompt_ids(0, 0).tolist() == [1, 2]


def test_pieces_are_stored_once_a_file(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    with TraceWriter.create(path, EPISODE) as writer:
        writer.begin_arm(ARM)
        writer.write_request(0, Request(index=0), pieces={1: b"one", 2: b""})
    size = path.stat().st_size
    with TraceWriter.append(path) as writer:
        writer.write_request(0, Request(index=1), pieces={1: b"one", 2: b""})
    content = path.read_bytes()
    assert content[size + 5] == Kind.REQUEST
    with TraceReader.open(path) as trace:
        assert (trace.piece(1), trace.piece(2), trace.piece(3)) == (b"one", b"", None)


def test_refresh_follows_a_growing_file(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    with TraceWriter.create(path, EPISODE) as writer, TraceReader.open(path) as trace:
        assert trace.arms == ()
        assert trace.refresh() is False
        writer.begin_arm(ARM)
        assert trace.refresh() is True
        for i in range(5):
            writer.write_request(0, Request(index=i), prompt_ids=range(10 * i), path=_path(i))
            assert trace.refresh() is True
            assert len(trace.requests(0)) == i + 1
            assert trace.path(0, i).token_ids.tolist() == [i]
            assert trace.prompt_ids(0, i).tolist() == list(range(10 * i))
        assert trace.end(0) is None
        writer.end_arm(0, ArmEnd(requests=5, completed=True))
        trace.refresh()
        assert trace.end(0) is not None
        assert trace.losses == ()


def test_refresh_sees_a_torn_tail_replaced_by_a_resumed_writer(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    with TraceWriter.create(path, EPISODE) as writer:
        writer.begin_arm(ARM)
        writer.write_request(0, Request(index=0), path=_path(1))
    whole = path.read_bytes()
    columns = pack_frame(Kind.PATH, 4, 0, 1, b"\x01\0\0\0\0\0\0\0" + b"\x09\0\0\0\0")
    path.write_bytes(whole + columns + b"\xc9\x00\x00")
    with TraceReader.open(path) as trace:
        assert [loss.at_end for loss in trace.losses] == [True, True]
        with TraceWriter.append(path) as writer:
            assert path.read_bytes() == whole
            writer.write_request(0, Request(index=1), path=_path(7, 8))
        assert trace.refresh() is True
        assert trace.losses == ()
        assert trace.path(0, 1).token_ids.tolist() == [7, 8]


def test_refresh_notices_another_file_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    write_trace(path, requests=1, tokens=2)
    other = tmp_path / "other.msgpack"
    write_trace(other, requests=3, tokens=4, seed=9, episode_id="another")
    with TraceReader.open(path) as trace:
        other.replace(path)
        assert trace.refresh() is True
        assert trace.episode.episode_id == "another"
        assert len(trace.requests(0)) == 3


def test_arms_can_be_named_by_index_or_by_themselves(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    write_trace(path, requests=2, tokens=3, arms=[ArmSpec(), ArmSpec(state="warm")])
    with TraceReader.open(path) as trace:
        assert trace.requests(trace.arms[1]) == trace.requests(1)
        with pytest.raises(TraceFormatError, match="has no arm 2"):
            trace.requests(2)


def test_the_work_of_reading_heads_depends_on_frames_and_not_on_tokens(tmp_path: Path) -> None:
    arms = [ArmSpec(), ArmSpec(state="warm"), ArmSpec(state="warm", repeat=1, requests=4)]
    for tokens in (30, 500):
        path = tmp_path / f"{tokens}.msgpack"
        write_trace(path, requests=8, tokens=tokens, arms=arms, with_pieces=False)
        frames = len(frames_of(path.read_bytes()))
        assert calls_of(partial(read_header, path)) < 80 * frames  # counted: 45 and 23
    head = read_header(path)
    assert [a.requests for a in head.arms] == [8, 8, 4]
    assert [a.complete for a in head.arms] == [True, True, False]
    assert [a.arm.label for a in head.arms] == ["recording", "warm", "warm#1"]
    assert head.episode.episode_id == "synthetic-0"


def test_verdict_reading_of_100_000_tokens_leaves_alternatives_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.msgpack"
    write_trace(path, requests=100, tokens=500, arms=[ArmSpec(), ArmSpec(state="warm")], with_pieces=False)
    from tracer.tracefile.file_window import FileWindow

    read_bytes = 0
    plain = FileWindow._read_fully

    def counting(self: FileWindow, size: int) -> bytes:
        nonlocal read_bytes
        chunk = plain(self, size)
        read_bytes += len(chunk)
        return chunk

    monkeypatch.setattr(FileWindow, "_read_fully", counting)

    def read_paths() -> None:
        with TraceReader.open(path) as trace:
            tokens = sum(len(trace.path(arm, r.index)) for arm in trace.arms for r in trace.requests(arm))
        assert tokens == 100_000

    assert calls_of(read_paths) < 100_000  # counted: 32,000, by request and none by token
    assert path.stat().st_size > 19e6
    assert read_bytes < 17e6  # windows read ahead a little; the 16 MB of alternatives are skipped


def test_importing_the_package_for_scrubbing_does_not_import_numpy() -> None:
    code = "import sys, tracer.tracefile.scrub, tracer.episode; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
