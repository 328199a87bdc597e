"""Arms on the real engine: exposure, repeats, restored states, the second layer, hard kills."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.tracer.arm_runs import (
    assert_same_arm,
    cached,
    chat,
    expected,
    open_trace,
    plan,
    prompts,
    record,
    run_fixed,
)
from tracer.episode import CacheState, Way
from tracer.state_shelf import FileShelf
from tracer.workloads.office.handbook import SYSTEM_PROMPT
from tracer.workloads.registry import family

pytestmark = pytest.mark.llama

HOME = Path(__file__).parents[2]


def rows_equal(first, second):
    return [
        np.array_equal(first.path(0, r.index).fingerprints, second.path(0, r.index).fingerprints)
        for r in first.requests(0)
    ]


def test_an_office_episode_is_exposed_as_expected(tmp_path, llama_engine):
    (workload,) = family("office").episodes(turns=1)
    trace = record(tmp_path / "t.msgpack", llama_engine, workload=workload)
    asked = prompts(trace)
    assert len(llama_engine.tokenize(SYSTEM_PROMPT)) >= 1000
    assert cached(trace) == expected(trace)
    assert cached(trace)[0] == 0
    assert cached(trace)[1] >= len(asked[0])
    assert trace.end(0).completed
    # With the oracle, ids and messages make the same prompts: the template's remainder was right.
    (by_messages,) = family("office").episodes(turns=1, history="messages")
    source, remade = by_messages.start(llama_engine), []
    while (planned := source.next_request()) is not None:
        remade.append(planned.prompt_ids)
        source.digest(type("Answer", (), {"text": "", "token_ids": (), "stopped_by_length": False})())
    assert remade == asked


def test_generated_ids_come_back_in_the_next_prompt(tmp_path, llama_engine):
    trace = record(tmp_path / "t.msgpack", llama_engine)
    asked = prompts(trace)
    for index in range(3):
        held = asked[index] + tuple(trace.path(0, index).token_ids.tolist())
        assert asked[index + 1][: len(held)] == held
        assert trace.requests(0)[index + 1].prefix_break is None
    assert cached(trace) == expected(trace)


def test_repeats_are_identical_and_restored_states_repeat_the_warm_arm(tmp_path, llama_engine):
    shelf = FileShelf(tmp_path / "w.states", b"k" * 32)
    warm = record(tmp_path / "w.msgpack", llama_engine, plan(keep_states=shelf))
    again = record(tmp_path / "w2.msgpack", llama_engine)
    assert all(rows_equal(warm, again))
    asked = prompts(warm)
    cold = [
        run_fixed(tmp_path / f"c{i}.msgpack", llama_engine, plan(CacheState.COLD, way=Way.FIXED), asked)
        for i in range(2)
    ]
    assert all(rows_equal(*cold))
    assert cached(cold[0]) == [0, 0, 0, 0]
    same = rows_equal(warm, cold[0])
    assert same[0]  # nothing was cached yet
    assert not all(same)
    snapshot = plan(CacheState.SNAPSHOT, way=Way.FIXED, states_met=shelf, reference_arm=0)
    restored = run_fixed(tmp_path / "s.msgpack", llama_engine, snapshot, asked)
    assert all(rows_equal(warm, restored))
    assert cached(restored) == expected(restored) == cached(warm)


@pytest.mark.parametrize("state", [CacheState.WARM, CacheState.NO_PROMPT_CACHE])
def test_the_second_layer_counted(tmp_path, llama_engine, state):
    system = "You are a careful assistant that answers in short sentences. " * 3
    a = llama_engine.tokenize(
        f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\nExplain why the sky is blue.<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    b = llama_engine.tokenize("The following is a totally different text about ships. " * 8)
    trace = run_fixed(tmp_path / "t.msgpack", llama_engine, plan(state), [a, a, b, a, b])
    back = [len(a) - 1, len(b) - 1] if state is CacheState.WARM else [0, 0]
    assert cached(trace) == expected(trace) == [0, len(a) - 1, 0, *back]
    assert [r.exposure.prompt_cache_tokens for r in trace.requests(0)][3:] == back


def recording(tmp_path, smollm2, output, *more):
    arguments = ["--workload", "chat", "--file", "talk.jsonl", "--model", smollm2, "--max-new-tokens", "12"]
    return [
        sys.executable, str(HOME / "cachetrace.py"), "record", *map(str, arguments), "-o", output, *more
    ]  # fmt: skip


@pytest.mark.slow
def test_killed_at_5_random_moments(tmp_path, smollm2):
    messages = chat().spec.params["messages"]
    (tmp_path / "talk.jsonl").write_text(json.dumps({"id": "talk", "messages": messages}))
    environment = {**os.environ, "CACHETRACE_SETTINGS": str(tmp_path / "none")}
    run = {"cwd": tmp_path, "env": environment, "timeout": 200, "check": True, "capture_output": True}
    clock = time.monotonic()
    subprocess.run(recording(tmp_path, smollm2, "whole.msgpack"), **run)
    lasts = time.monotonic() - clock
    whole, dice = open_trace(tmp_path / "whole.msgpack"), random.Random(5)
    for attempt in range(5):
        name = f"killed-{attempt}.msgpack"
        child = subprocess.Popen(
            recording(tmp_path, smollm2, name), cwd=tmp_path, env=environment, stderr=subprocess.PIPE
        )
        time.sleep(dice.uniform(0.4, 1.0) * lasts)
        child.send_signal(signal.SIGKILL)
        reported = child.communicate()[1].count(b": request ")
        if (tmp_path / name).exists():
            cut = open_trace(tmp_path / name)
            written = len(cut.requests(0)) if cut.arms else 0
            assert written in (reported, reported + 1)
            assert all(loss.at_end for loss in cut.check())
        subprocess.run(recording(tmp_path, smollm2, name, "--resume"), **run)
        resumed = open_trace(tmp_path / name)
        assert resumed.check() == ()
        assert_same_arm(whole, resumed)
