"""Plain JSON Lines of requests and answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from replay.artifact_import.importing import import_logs
from replay.divergence.analyse import analyse
from replay.verdicts import Verdict
from tracer.episode import CacheState, ExposureSource, Identity
from tracer.errors import UsageError
from tracer.tracefile import TraceReader


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def line(**changes: Any) -> dict[str, Any]:
    return {"episode": "e", "request": 0, "prompt_ids": [1, 2, 3], "output_ids": [7, 8, 9]} | changes


def test_ids_give_a_trace_that_compares_and_keeps_its_prompt(tmp_path: Path) -> None:
    source = write(
        tmp_path / "log.jsonl",
        line(state="cold", cached_tokens=0, prompt_tokens=3, logprobs=[-0.1, -0.2, -0.3]),
        line(state="warm", cached_tokens=2, prompt_tokens=3, output_ids=[7, 4, 9], expected_cached_tokens=2),
    )
    assert import_logs(source, tmp_path / "out").written == {"log.jsonl": 1}
    with TraceReader.open(tmp_path / "out/00000.msgpack") as trace:
        assert [arm.state for arm in trace.arms] == [CacheState.COLD, CacheState.WARM]
        assert trace.prompt_ids(0, 0).tolist() == [1, 2, 3]
        analysis = analyse(trace)
    (cross,) = analysis.comparisons
    assert cross.requests[0].verdict is Verdict.FLIPPED
    assert cross.requests[0].flip.position == 1


def test_strings_and_texts_are_marked_as_what_they_are(tmp_path: Path) -> None:
    strings = {
        "episode": "s",
        "request": 0,
        "prompt": "hello",
        "tokens": ["a", "b"],
        "logprobs": [-1.0, None],
        "top_logprobs": [[["a", -1.0], ["c", -1.5]], [["b", -0.1]]],
    }
    text = {"episode": "t", "request": 0, "prompt_sha256": "0" * 64, "text": "whole answer"}
    import_logs(write(tmp_path / "log.jsonl", strings, text), tmp_path / "out")
    with TraceReader.open(tmp_path / "out/00000.msgpack") as trace:
        request = trace.requests(0)[0]
        assert request.identity is Identity.TOKEN_STRING
        assert request.prompt_hash.startswith("sha256:2cf24dba")
        assert trace.prompt_ids(0, 0) is None
        assert request.exposure.source is ExposureSource.NOT_OBSERVED
        assert trace.alternatives(0, 0).counts.tolist() == [2, 1]
        assert trace.piece(int(trace.path(0, 0).token_ids[1])) == b"b"
        assert trace.path(0, 0).flags.tolist()[1] & 1 == 0
    with TraceReader.open(tmp_path / "out/00001.msgpack") as trace:
        assert trace.requests(0)[0].identity is Identity.TEXT


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"request": 1}, "where 0 is next"),
        ({"output_ids": None}, "neither output_ids nor tokens nor text"),
        ({"tokens": ["a"]}, "not both"),
        ({"logprobs": [-1.0]}, "not as long"),
        ({"output_ids": [-4]}, "token id"),
        ({"cached_tokens": 9, "prompt_tokens": 3}, "more cached tokens"),
        ({"cached_tokens": -1}, "negative"),
        ({"state": "snapshot"}, "snapshot"),
        ({"state": "lukewarm"}, "line 1"),
        ({"finish": "abort"}, "not stop or length"),
        ({"typo": 1}, "typo"),
        ({"episode": 3}, "episode"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    source = write(tmp_path / "log.jsonl", {k: v for k, v in line(**changes).items() if v is not None})
    with pytest.raises(UsageError) as caught:
        import_logs(source, tmp_path / "out")
    assert why in str(caught.value)
    assert "line 1" in str(caught.value)


def test_hostile_names_stay_inside_the_output_folder(tmp_path: Path) -> None:
    source = write(tmp_path / "log.jsonl", line(episode="../../etc/passwd"), line(episode="\x1b[31m"))
    import_logs(source, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").glob("*.msgpack")) == ["00000.msgpack", "00001.msgpack"]
    assert not (tmp_path.parent / "etc").exists()
