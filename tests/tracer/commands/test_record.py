"""``cachetrace record`` from end to end, with the engine ``fake``."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cachetrace import build_app
from tests.tracer.arm_runs import assert_same_arm, open_trace
from tracer.episode import CacheState, Carry, Priming, Way

HOME = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _own_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("CACHETRACE_SETTINGS", str(tmp_path / "no-settings.toml"))
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return CliRunner().invoke(build_app(), ["record", "--engine", "fake", *map(str, arguments)])


def error_of(result):
    assert result.exit_code != 0
    return f"{result.stderr} {result.exception}"


@pytest.fixture
def talks(tmp_path):
    path = tmp_path / "talks.jsonl"
    users = (("a/b", "What is rain?"), ("../c", "What is snow?"), ("A/B", "What is hail?"))
    lines = [{"id": name, "messages": [{"role": "user", "content": text}]} for name, text in users]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_an_office_episode(tmp_path):
    result = run("-o", "office.msgpack", "--turns", 2)
    assert result.exit_code == 0, result.exception
    assert result.stdout == "office.msgpack\n"
    assert "the oracle drives" in result.stderr
    assert "request 3 of 4" in result.stderr
    trace = open_trace(tmp_path / "office.msgpack")
    (arm,) = trace.arms
    assert (arm.state, arm.way, arm.priming) == (CacheState.WARM, Way.RECORDED, Priming.OWN)
    assert (arm.sampling.max_new_tokens, arm.sampling.seed, arm.top_k) == (48, 42, 20)
    assert arm.requests_planned == len(trace.requests(arm)) == 4
    assert trace.episode.workload.agent == "oracle"
    assert [c.name for r in trace.requests(arm) for c in r.tool_calls] == ["list_files", "read_file"]
    assert trace.end(arm).completed
    assert trace.check() == ()


def test_defaults_name_the_file_after_the_workload(tmp_path):
    assert run("--turns", 1, "--quiet").exit_code == 0
    assert (tmp_path / "office.msgpack").exists()


def test_quiet_and_json():
    result = run("-o", "x.msgpack", "--turns", 1, "--quiet", "--json")
    assert result.stderr == ""
    line = json.loads(result.stdout)
    assert (line["path"], line["requests"], line["completed"]) == ("x.msgpack", 2, True)


def test_options_reach_the_arm(tmp_path):
    run(
        "-o", "x.msgpack", "--turns", 1, "--agent", "model", "--history", "messages", "--state", "cold",
        "--max-new-tokens", 5, "--seed", 7, "--top-k", 3, "--logits", "full", "--temperature", "0.5",
    )  # fmt: skip
    trace = open_trace(tmp_path / "x.msgpack")
    (arm,) = trace.arms
    assert arm.state is CacheState.COLD
    assert (arm.sampling.max_new_tokens, arm.sampling.seed, arm.sampling.greedy) == (5, 7, False)
    assert trace.alternatives(arm, 0).k == 3
    assert trace.rows(arm, 0).shape == (len(trace.path(arm, 0)), 512)
    assert (trace.episode.workload.agent, trace.episode.workload.history) == ("model", "messages")


def test_several_conversations_go_into_a_folder(tmp_path, talks):
    result = run("--workload", "chat", "--file", talks, "-o", "runs")
    assert result.exit_code == 0, result.exception
    files = [Path(line) for line in result.stdout.split()]
    assert [f.name for f in files] == ["00000-a_b.msgpack", "00001-_c.msgpack", "00002-A_B.msgpack"]
    assert all(f.parent == Path("runs") for f in files)
    arms = [open_trace(tmp_path / f).arms[0] for f in files]
    assert len({arm.place.run_id for arm in arms}) == 1
    assert [arm.place.position for arm in arms] == [0, 1, 2]
    assert [arm.place.predecessor for arm in arms] == [None, "a/b", "../c"]


def cached(tmp_path, *options):
    result = run("--workload", "chat", "--file", "talks.jsonl", "-o", "runs", *options)
    assert result.exit_code == 0, result.exception
    traces = [open_trace(tmp_path / line) for line in result.stdout.split()]
    return [t.requests(0)[0].exposure.cached_tokens for t in traces], [t.arms[0].place.carry for t in traces]


def test_episodes_start_empty_unless_carried_over(tmp_path, talks):
    counts, carry = cached(tmp_path)
    assert counts == [0, 0, 0]
    assert set(carry) == {Carry.EMPTIED}
    counts, carry = cached(tmp_path, "--force", "--carry-over")
    assert counts[0] == 0
    assert min(counts[1:]) > 0
    assert set(carry) == {Carry.CARRIED_OVER}
    with_sentinel, carry = cached(tmp_path, "--force", "--sentinel", "--state", "no-prompt-cache")
    assert len(set(with_sentinel)) == 1  # the same start, whatever came before
    assert set(carry) == {Carry.SENTINEL}


def test_a_file_that_exists_is_kept_unless_forced(tmp_path):
    run("-o", "x.msgpack", "--turns", 1)
    before = (tmp_path / "x.msgpack").read_bytes()
    assert "--force" in error_of(run("-o", "x.msgpack", "--turns", 1))
    assert (tmp_path / "x.msgpack").read_bytes() == before
    assert run("-o", "x.msgpack", "--turns", 2, "--force").exit_code == 0
    assert len(open_trace(tmp_path / "x.msgpack").requests(0)) == 4


def test_force_never_removes_what_is_no_trace(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    error_of(run("-o", "thesis.txt", "--force"))
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--state", "lukewarm"), "--state takes one of"),
        (("--state", "snapshot"), "--state takes one of"),
        (("--agent", "me"), "--agent takes one of"),
        (("--logits", "all"), "--logits takes one of"),
        (("--workload", "golf"), "no workload"),
        (("--workload", "chat"), "--file"),
        (("--turns", "11"), "1 to 10"),
        (("--carry-over", "--sentinel"), "choose one"),
        (("--subset", "paper"), "subset"),
        (("--fake-script", "none.json"), "none.json"),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(tmp_path, arguments, word):
    assert word in error_of(run("-o", "x.msgpack", *arguments))
    assert list(tmp_path.glob("*.msgpack")) == []


def test_several_episodes_do_not_go_into_one_file(talks):
    assert "folder" in error_of(run("--workload", "chat", "--file", talks, "-o", "x.msgpack"))


def script(tmp_path, **fields):
    path = tmp_path / "script.json"
    path.write_text(json.dumps(fields))
    return path


def test_a_failed_arm_is_an_error_and_its_file_stays(tmp_path):
    broken = script(tmp_path, faults=[{"kind": "error", "request": 1}])
    result = run("-o", "x.msgpack", "--turns", 1, "--fake-script", broken)
    assert "request 1" in error_of(result)
    assert result.stdout == "x.msgpack\n"
    assert not open_trace(tmp_path / "x.msgpack").end(0).completed


def test_a_failed_episode_does_not_stop_the_others_but_a_dead_engine_does(tmp_path, talks):
    arguments = ("--workload", "chat", "--file", talks, "--force")
    broken = script(tmp_path, faults=[{"kind": "error", "request": 1}])
    result = run("-o", "one", *arguments, "--fake-script", broken)
    assert "1 of 3 episodes failed" in error_of(result)
    assert len(result.stdout.split()) == 3
    dead = script(tmp_path, faults=[{"kind": "dies", "request": 1}])
    assert len(run("-o", "two", *arguments, "--fake-script", dead).stdout.split()) == 2


def test_the_command_is_stored_without_secrets(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["cachetrace", "record", "--url", "http://me:pw@host/v1?key=abc"])
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("MY_API_KEY", "hunter2")
    run("-o", "x.msgpack", "--turns", 1)
    (arm,) = open_trace(tmp_path / "x.msgpack").arms
    assert arm.command == "cachetrace record --url http://host/v1"
    assert arm.environment["OMP_NUM_THREADS"] == "2"
    assert b"hunter2" not in (tmp_path / "x.msgpack").read_bytes()


def start(tmp_path, *arguments):
    environment = {**os.environ, "CACHETRACE_SETTINGS": str(tmp_path / "none")}
    return subprocess.Popen(
        [sys.executable, str(HOME / "cachetrace.py"), "record", "--engine", "fake", *map(str, arguments)],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for_requests(child, count):
    """Read progress until that many requests are written."""
    seen = 0
    while seen < count:
        seen += ": request " in child.stderr.readline()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_recording_is_taken_up_and_equals_an_undisturbed_one(tmp_path, how):
    slow = script(tmp_path, token_seconds=0.01)
    child = start(tmp_path, "-o", "x.msgpack", "--turns", 2, "--fake-script", slow)
    wait_for_requests(child, 2)
    child.send_signal(how)
    _, told = child.communicate(timeout=60)
    trace = open_trace(tmp_path / "x.msgpack")
    assert len(trace.requests(0)) in (2, 3)
    assert trace.end(0) is None
    if how is signal.SIGINT:
        assert child.returncode == 130
        assert "Traceback" not in told
        assert "record --engine fake -o x.msgpack" in told
        assert "--resume" in told
    result = run("-o", "x.msgpack", "--resume", "--fake-script", slow)
    assert result.exit_code == 0, result.exception
    run("-o", "whole.msgpack", "--turns", 2)
    assert_same_arm(open_trace(tmp_path / "x.msgpack"), open_trace(tmp_path / "whole.msgpack"))
    again = run("-o", "x.msgpack", "--resume")
    assert again.exit_code == 0
    assert "is complete" in again.stderr


def test_a_folder_is_resumed_where_it_stopped(tmp_path, talks):
    arguments = ("--workload", "chat", "--file", talks, "-o", "runs")
    run(*arguments, "--first", 2)
    kept = (tmp_path / "runs" / "a_b.msgpack").read_bytes()
    result = run(*arguments, "--first", 2, "--resume")
    assert result.exit_code == 0
    assert (tmp_path / "runs" / "a_b.msgpack").read_bytes() == kept
    (tmp_path / "runs" / "_c.msgpack").unlink()
    assert run(*arguments, "--first", 2, "--resume").stdout == "runs/_c.msgpack\n"


def test_help_has_examples():
    result = CliRunner().invoke(build_app(), ["record", "--help"])
    assert "cachetrace record --resume" in result.stdout
    assert "--gpu-layers" in result.stdout
