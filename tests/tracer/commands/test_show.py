import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import cachetrace
from tests.synthetic import ArmSpec, Truth, write_trace
from tracer.episode import WorkloadSpec
from tracer.errors import TraceFormatError, UsageError

ARMS = [
    ArmSpec(),
    ArmSpec(state="warm", drift=1e-3, flips={1: 2}),
    ArmSpec(observe="tokens", source="not-observed"),
]


@pytest.fixture
def truth(tmp_path: Path) -> Truth:
    return write_trace(tmp_path / "t.msgpack", requests=3, tokens=6, arms=ARMS)


def show(*arguments: object) -> str:
    result = CliRunner().invoke(cachetrace.build_app(), ["show", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_the_listing_names_episode_arms_and_requests(truth: Truth) -> None:
    out = show(truth.path)
    assert "episode  synthetic-0" in out
    for label in ("recording", "warm", "cold"):
        assert f" {label} " in out
    warm = out.split("arm 1 warm")[1].split("arm 2")[0]
    rows = [line.split() for line in warm.splitlines()[2:5]]
    cached = [r[3] for r in rows]
    assert cached == ["0", "69", "96"]  # the flip at position 2 ends what is in common
    assert [r[6] for r in rows] == ["6", "6", "6"]


def test_what_a_task_says_of_itself_is_shown(tmp_path: Path) -> None:
    workload = WorkloadSpec(name="bfcl", params={"note": "a subset,\x1b[1m not the paper's figure"})
    out = show(write_trace(tmp_path / "t.msgpack", requests=1, tokens=2, workload=workload).path)
    assert "a subset,\\x1b[1m not the paper's figure" in out


def test_what_was_not_observed_is_a_dash(truth: Truth) -> None:
    out = show(truth.path, "--arm", "cold", "--request", "1", "--tokens")
    row = next(line for line in out.splitlines() if "not-observed" in line)
    assert row.split()[3] == "–"
    lines = out.split("position")[1].splitlines()[1:]
    assert len(lines) == 6
    for line in lines:
        assert line.split()[3:] == ["–", "–", "–", "–"]


def test_tokens_show_values_and_margin(truth: Truth) -> None:
    out = show(truth.path, "--arm", "1", "--request", "1", "--tokens")
    line = out.split("position")[1].splitlines()[3]
    numbers = truth.numbers[1][1]
    assert str(numbers.path.token_ids[2]) == line.split()[1]
    assert f"{truth.margin(1, 1, 2):.4g}" in line
    assert "find_mail" not in out.split("arm 0")[0]


def test_json_holds_everything_and_only_finite_numbers(truth: Truth) -> None:
    described = json.loads(show(truth.path, "--json", "--tokens"), parse_constant=pytest.fail)
    assert [a["label"] for a in described["arms"]] == ["recording", "warm", "cold"]
    one = described["arms"][1]["requests"][2]
    assert one["request"]["index"] == 2
    numbers = truth.numbers[1][2]
    assert one["tokens"]["ids"] == numbers.path.token_ids.tolist()
    assert np.allclose(one["tokens"]["values"], numbers.path.chosen_values)
    assert one["tokens"]["alternatives"][0]["ids"] == numbers.alternatives.ids[0].tolist()
    hidden = described["arms"][2]["requests"][0]
    assert hidden["tokens"]["values"] is None
    assert hidden["tokens"]["alternatives"] is None
    assert hidden["request"]["exposure"]["cached_tokens"] is None


def test_json_of_one_request_of_one_arm(truth: Truth) -> None:
    described = json.loads(show(truth.path, "--json", "--arm", "warm", "--request", 1))
    assert [[r["request"]["index"] for r in a["requests"]] for a in described["arms"]] == [[1]]
    assert "tokens" not in described["arms"][0]["requests"][0]


def test_wrong_names_are_one_sentence(truth: Truth, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no arm 'hot'; the arms are: recording, warm, cold"):
        show(truth.path, "--arm", "hot")
    with pytest.raises(UsageError, match="no request 9; 3 are recorded"):
        show(truth.path, "--request", 9)
    with pytest.raises(TraceFormatError):
        show(tmp_path / "none.msgpack")


def test_hostile_tokens_do_not_reach_the_terminal(tmp_path: Path) -> None:
    truth = write_trace(
        tmp_path / "h.msgpack",
        requests=2,
        tokens=20,
        hostile_pieces=True,
        episode_id="\x1b[2J\u202e]0;title\x07",
    )
    for arguments in (["--tokens"], ["--request", 1, "--tokens"], ["--json", "--tokens"]):
        out = show(truth.path, *arguments)
        assert out.replace("\n", "").isprintable()
    assert "\\x1b[2J\\u202e" in show(truth.path)


def test_a_damaged_file_is_shown_with_what_is_lost(truth: Truth) -> None:
    content = bytearray(truth.path.read_bytes())
    content[-200] ^= 1
    truth.path.write_bytes(content)
    assert "lost: " in show(truth.path)
