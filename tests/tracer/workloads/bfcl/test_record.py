"""Episodes through ``record`` and ``replay`` on the fake engine: closed loop, repeats, gates on file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tracer.episode import Way
from tracer.tracefile import TraceReader

pytestmark = pytest.mark.bfcl
MAIN = [sys.executable, str(Path(__file__).resolve().parents[4] / "cachetrace.py")]
ANSWERS = [
    {"after": "[{'role': 'tool'", "text": "That is done now."},
    {"after": "Make sure to create the directory", "text": "[cd(folder='document'), mkdir(dir_name='temp')]"},
    {
        "after": "pertaining to 'budget analysis'",
        "text": "[grep(file_name=open('/etc/passwd'), pattern='x'), pwd()]",
    },
]


def cachetrace(folder: Path, *words: str) -> str:
    script = folder / "script.json"
    script.write_text(json.dumps({"answers": ANSWERS, "context_tokens": 100_000}))
    engine = ["--engine", "fake", "--fake-script", str(script), "-q"]
    done = subprocess.run([*MAIN, *words, *engine], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_arms_of_a_closed_loop_repeat_their_tool_results(wheel: Path, tmp_path: Path) -> None:
    cachetrace(tmp_path, "record", "--workload", "bfcl", "--first", "1", "--state", "cold", "-o", "e.msgpack")
    cachetrace(tmp_path, "replay", "e.msgpack", "--closed-loop", "--state", "cold", "--repeat", "2")
    with TraceReader.open(tmp_path / "e.msgpack") as trace:
        assert [arm.way for arm in trace.arms] == [Way.RECORDED, Way.CLOSED_LOOP, Way.CLOSED_LOOP]
        seen = [
            [(r.text, r.tool_calls, r.tool_results, r.prompt_hash) for r in trace.requests(arm.index)]
            for arm in trace.arms
        ]
        assert seen[0] == seen[1] == seen[2]
        calls = [call for request in trace.requests(0) for call in request.tool_calls]
        results = [result for request in trace.requests(0) for result in request.tool_results]
        assert [(call.name, call.blocked is None) for call in calls] == [
            ("cd", True), ("mkdir", True), ("grep", False), ("pwd", True)
        ]  # fmt: skip
        assert json.loads(results[3].content) == {"current_working_directory": "/workspace/document"}
        assert results[2].is_error
        outcomes = [trace.end(arm.index).outcome for arm in trace.arms]
        assert {outcome.solved for outcome in outcomes} == {False}
        assert {outcome.details["blocked_calls"] for outcome in outcomes} == {1}
        assert outcomes[0].details == outcomes[1].details
