import json
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import cachetrace
from tests.synthetic import ArmSpec, write_trace
from tests.tracer.tracefile.mutations import frames_of
from tests.tracer.tracefile.test_round_trip import ARM, EPISODE
from tracer.columns import Alternatives, PathColumns, PositionFlag
from tracer.episode import ArmEnd, Exposure, Message, Request, Scale
from tracer.errors import TraceFormatError, UsageError
from tracer.tracefile import TraceReader, TraceWriter
from tracer.tracefile.validation import Level
from tracer.tracefile.validation import validate as check

SECRET = "sk-abcdefghijklmnop1234"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cachetrace.build_app(), ["validate", *map(str, arguments)])


def findings(path: Path, level: Level) -> list[str]:
    return [f.sentence for f in check(path).findings if f.level is level]


def test_a_whole_file_passes_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    write_trace(path, requests=3, tokens=5, arms=[ArmSpec(), ArmSpec(state="warm", drift=1e-3, flips={1: 2})])
    result = run(path)
    assert result.exit_code == 0
    assert result.stdout.endswith("whole; format 1, 2 arms, 6 requests, 30 output tokens, 0 warnings.\n")


def test_a_torn_tail_is_a_warning_and_damage_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    write_trace(path, requests=3, tokens=5)
    content = path.read_bytes()
    path.write_bytes(content[:-700])
    assert run(path).exit_code == 0
    assert any("ends inside a frame" in s for s in findings(path, Level.WARNING))
    frames = frames_of(content)
    path.write_bytes(b"".join(frames[:3] + frames[4:]))
    result = run(path, "--json")
    assert isinstance(result.exception, TraceFormatError)
    described = json.loads(result.stdout)
    assert described["broken"] is True
    assert any(f["level"] == "broken" for f in described["result"]["findings"])


def test_exit_status_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    path.write_bytes(b"not a trace")
    program = [sys.executable, cachetrace.__file__, "validate", str(path)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "is no readable trace file" in done.stderr


def test_alternatives_that_are_damaged_are_found(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    write_trace(path, requests=1, tokens=5)
    frames = frames_of(path.read_bytes())
    at = next(i for i, raw in enumerate(frames) if raw[5] == 7)
    frames[at] = frames[at][:40] + bytes([frames[at][40] ^ 4]) + frames[at][41:]
    path.write_bytes(b"".join(frames))
    assert findings(path, Level.BROKEN) == [
        "arm 0, request 0: the alternatives columns do not have the checksum that was written."
    ]


def _file(target: Path, request: Request, **columns: object) -> Path:
    with TraceWriter.create(target, EPISODE) as writer:
        writer.begin_arm(ARM)
        writer.write_request(0, request, **columns)  # type: ignore[arg-type]
        writer.end_arm(0, ArmEnd(requests=1, completed=True))
    return target


def _columns(ids: list[int], values: list[float], chosen: int = 0) -> dict[str, object]:
    table = Alternatives(
        np.array([ids], np.int32), np.array([values], np.float32), np.array([len(ids)], np.uint8)
    )
    flags = np.array([PositionFlag.VALUE | PositionFlag.ALTERNATIVES], np.uint8)
    path = PathColumns(np.array([ids[chosen]], np.int32), flags, np.array([values[chosen]], np.float32))
    return {"path": path, "alternatives": table}


@pytest.mark.parametrize(
    ("ids", "values", "sentence"),
    [
        ([5, 6], [1.0, 2.0], "not best first"),
        ([6, 5], [1.0, 1.0], "not by ascending id"),
        ([5, 5], [2.0, 1.0], "listed twice"),
        ([5, 6], [float("nan"), 1.0], "not finite"),
    ],
)
def test_contradictions_in_alternatives(
    tmp_path: Path, ids: list[int], values: list[float], sentence: str
) -> None:
    path = _file(tmp_path / "t.msgpack", Request(index=0, scale=Scale.LOGIT), **_columns(ids, values))
    assert any(sentence in s and "first at 0" in s for s in findings(path, Level.WARNING))
    assert findings(path, Level.BROKEN) == []


def test_values_need_a_scale_and_exposure_must_be_possible(tmp_path: Path) -> None:
    exposure = Exposure(prompt_tokens=3, cached_tokens=5, expected_tokens=-1)
    request = Request(index=0, exposure=exposure)
    path = _file(tmp_path / "t.msgpack", request, **_columns([5, 6], [2.0, 1.0]))
    assert any("on which scale" in s for s in findings(path, Level.BROKEN))
    assert any("-1 expected tokens" in s for s in findings(path, Level.BROKEN))
    assert any("5 of 3 prompt tokens" in s for s in findings(path, Level.WARNING))


def test_arms_that_contradict_their_end(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    with TraceWriter.create(path, EPISODE) as writer:
        writer.begin_arm(msgspec.structs.replace(ARM, source_arm=4))
        writer.write_request(0, Request(index=0))
        writer.end_arm(0, ArmEnd(requests=2, completed=True))
        writer.begin_arm(ARM)
    broken = findings(path, Level.BROKEN)
    assert any("request 1 is lost" in s for s in broken)
    assert any("source arm 4" in s for s in broken)
    warnings = findings(path, Level.WARNING)
    assert any("share the label" in s for s in warnings)
    assert any("incomplete" in s for s in warnings)


def _with_secrets(path: Path) -> None:
    spelled = [ord(c) for c in f"my key {SECRET} ok"]
    request = Request(
        index=0,
        text=f"answer {SECRET}",
        messages_added=(Message(role="user", content=f'{{"password": "hunter22", "key": "{SECRET}"}}'),),
        http_body=SECRET.encode(),
        extra={"deep": [{"x": f"Authorization: Bearer {SECRET}"}]},
        scale=Scale.LOGIT,
    )
    n = len(spelled)
    flags = np.full(n, PositionFlag.VALUE | PositionFlag.ALTERNATIVES, np.uint8)
    ids = np.array(spelled, np.int32)
    values = np.tile(np.array([2, 1], np.float32), (n, 1))
    table = Alternatives(np.stack([ids, ids + 1000], 1), values, np.full(n, 2, np.uint8))
    its_path = PathColumns(ids, flags, values[:, 0].copy())
    with TraceWriter.create(path, EPISODE) as writer:
        writer.begin_arm(ARM)
        pieces = {i: bytes([i]) for i in range(128)}
        for i in range(2):
            writer.write_request(
                0,
                msgspec.structs.replace(request, index=i),
                prompt_ids=[*spelled, 33 + i],
                path=its_path,
                alternatives=table,
                pieces=pieces,
            )
        writer.end_arm(0, ArmEnd(requests=2, completed=True))


def test_likely_secrets_are_warned_about_without_repeating_them(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    _with_secrets(path)
    result = run(path)
    assert result.exit_code == 0
    assert "request 0 holds what looks like a key of a known form" in result.stdout
    assert "assigned password" in result.stdout
    assert SECRET not in result.stdout + result.stderr


def test_a_redacted_copy_holds_no_secret_in_text_tokens_or_bodies(tmp_path: Path) -> None:
    path, copy = tmp_path / "t.msgpack", tmp_path / "copy.msgpack"
    _with_secrets(path)
    result = run(path, "--redact", "-o", copy)
    assert result.exit_code == 0
    assert SECRET.encode() in path.read_bytes()
    assert SECRET.encode() not in copy.read_bytes()
    assert not [s for s in findings(copy, Level.WARNING) if "looks like" in s]
    assert findings(copy, Level.BROKEN) == []
    with TraceReader.open(copy) as trace:
        assert "redacted" in trace.episode.notes
        for i, request in enumerate(trace.requests(0)):
            assert request.http_body is None
            assert request.text == "answer [scrubbed]"
            output = trace.path(0, i).token_ids.tolist()
            prompt = trace.prompt_ids(0, i)
            assert prompt is not None
            for ids in (output, prompt.tolist()):
                shown = b"".join(trace.piece(t) or b"?" for t in ids)
                assert SECRET.encode() not in shown
                assert shown.startswith(b"my key ????")
            assert prompt.tolist()[-1] == 33 + i
            table = trace.alternatives(0, i)
            assert table is not None
            hidden = np.array(output) == -1
            assert hidden.sum() == len(SECRET)
            assert not table.counts[hidden].any()
            assert (table.counts[~hidden] == 2).all()


def test_redacting_an_ordinary_trace_changes_no_number(tmp_path: Path) -> None:
    path, copy = tmp_path / "t.msgpack", tmp_path / "copy.msgpack"
    write_trace(path, requests=3, tokens=5, arms=[ArmSpec(score=1.0), ArmSpec(state="warm", flips={1: 2})])
    assert run(path, "--redact", "-o", copy).exit_code == 0
    with TraceReader.open(path) as before, TraceReader.open(copy) as after:
        assert after.arms == before.arms
        for arm in before.arms:
            assert after.requests(arm) == before.requests(arm)
            assert after.end(arm) == before.end(arm)
            for i in range(3):
                for name in ("token_ids", "flags", "chosen_values", "log_sum_exp", "fingerprints"):
                    assert np.array_equal(
                        getattr(before.path(arm, i), name), getattr(after.path(arm, i), name)
                    )


def test_prompt_tokens_that_cannot_be_checked_are_hidden(tmp_path: Path) -> None:
    path, copy = tmp_path / "t.msgpack", tmp_path / "copy.msgpack"
    with TraceWriter.create(path, EPISODE) as writer:
        writer.begin_arm(ARM)
        its_path = PathColumns(np.array([8, 9], np.int32), np.zeros(2, np.uint8))
        writer.write_request(0, Request(index=0), prompt_ids=[1, 2, 3], path=its_path, pieces={2: b"two"})
        writer.write_request(0, Request(index=1, text=SECRET), path=its_path)
    assert run(path, "--redact", "-o", copy).exit_code == 0
    with TraceReader.open(copy) as trace:
        assert trace.prompt_ids(0, 0).tolist() == [-1, 2, -1]
        assert trace.path(0, 0).token_ids.tolist() == [8, 9]
        assert trace.path(0, 1).token_ids.tolist() == [-1, -1]


def test_redact_needs_a_new_name_and_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    write_trace(path, requests=1, tokens=2)
    assert isinstance(run(path, "--redact").exception, UsageError)
    assert isinstance(run(path, "-o", tmp_path / "x").exception, UsageError)
    assert isinstance(run(path, "--redact", "-o", path).exception, UsageError)
