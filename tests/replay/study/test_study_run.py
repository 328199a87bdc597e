"""Studies on the fake engine: resumed, interrupted, killed, failing, spread over processes."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.study.cell_record import CellStatus
from replay.study.cells import cells_of
from replay.study.study_file import Study, load_study
from replay.study.study_run import StudyRun
from tracer.episode import CacheState, Way
from tracer.errors import EngineError, TraceFormatError, UsageError
from tracer.progress import Silent
from tracer.tracefile import TraceReader

ROOT = Path(__file__).resolve().parents[3]
MAIN = [sys.executable, str(ROOT / "cachetrace.py")]


def write_study(folder: Path, *, arms: str = 'states = ["cold", "warm"]', engines: Any = None) -> Path:
    """A study of three conversations on one or more fake engines."""
    talks = [
        {
            "id": f"talk{n}",
            "messages": [{"role": "user", "content": text} for text in (f"hello {n}", "and now?")],
        }
        for n in range(3)
    ]
    (folder / "talks.jsonl").write_text("".join(json.dumps(talk) + "\n" for talk in talks))
    lines = ['name = "mine"', "[workload]", 'name = "chat"', 'file = "talks.jsonl"']
    for name, script in (engines or {"plain": {}}).items():
        (folder / f"{name}.json").write_text(json.dumps(script))
        lines += [
            "[[engine]]",
            'engine = "fake"',
            f'name = "{name}"',
            f'fake_script = "{folder}/{name}.json"',
        ]
    lines += ["[[arms]]", arms, "[sampling]", "max_new_tokens = 8"]
    path = folder / "study.toml"
    path.write_text("\n".join(lines))
    return path


def started(path: Path, out: Path) -> tuple[Study, StudyRun]:
    study = load_study(str(path))
    return study, StudyRun(study, cells_of(study), out, Silent())


def run(path: Path, out: Path) -> StudyRun:
    study, whole = started(path, out)
    whole.run(cells_of(study), quiet=True)
    return whole


def arms_of(trace_file: Path) -> list[tuple[str, int]]:
    with TraceReader.open(trace_file) as trace:
        assert all(trace.end(arm.index) is not None for arm in trace.arms)
        return [(arm.label, len(trace.requests(arm))) for arm in trace.arms]


def report(out: Path) -> str:
    done = subprocess.run(
        [*MAIN, "report", str(out), "--format", "csv"], capture_output=True, text=True, check=True
    )
    # the command that made a trace is disclosed; here only that differs
    return "".join(line for line in done.stdout.splitlines(True) if ",recorded with," not in line)


def test_every_episode_gets_two_cold_and_two_warm_arms(tmp_path: Path) -> None:
    whole = run(write_study(tmp_path), tmp_path / "out")
    files = sorted((tmp_path / "out" / "plain").glob("*.msgpack"))
    assert [file.stem for file in files] == ["talk0", "talk1", "talk2"]
    for file in files:
        assert arms_of(file) == [("recording", 2), ("cold", 2), ("warm", 2), ("warm#1", 2)]
        with TraceReader.open(file) as trace:
            assert trace.arms[0].state is CacheState.COLD  # the recording is the first cold serving
    state = whole.states()[0]
    assert (state.status, state.episodes, state.traces) == (CellStatus.DONE, 3, 3)


def test_a_finished_study_runs_nothing_again(tmp_path: Path) -> None:
    path, out = write_study(tmp_path), tmp_path / "out"
    run(path, out)
    before = {file: file.read_bytes() for file in out.rglob("*.msgpack")}
    run(path, out)
    assert {file: file.read_bytes() for file in out.rglob("*.msgpack")} == before


@pytest.mark.slow
@pytest.mark.parametrize("moment", [1, 12, 22], ids=["first request", "middle", "near the end"])
def test_a_study_killed_at_any_moment_and_resumed_gives_the_same_report(tmp_path: Path, moment: int) -> None:
    """Killed while it serves or writes the request after ``moment`` of them; the next one would never end."""
    path = write_study(tmp_path, engines={"plain": {}})
    run(path, tmp_path / "whole")
    wanted = report(tmp_path / "whole")
    assert progress(tmp_path / "whole") == (REQUESTS, ARMS)
    stalls = {"kind": "slow", "request": moment + 1, "seconds": 600}  # at each token
    script = {"token_seconds": 0.004, "faults": [stalls]}
    (tmp_path / "plain.json").write_text(json.dumps(script))
    out = tmp_path / "killed"
    process = subprocess.Popen(
        [*MAIN, "study", "run", str(path), "-o", str(out), "-q"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while progress(out)[0] < moment:
        assert process.poll() is None, "the study ended before it was killed"
        time.sleep(0.01)
    process.kill()
    process.wait()
    wait_until_ended(out)
    requests, ended = progress(out)
    assert moment <= requests < REQUESTS
    assert ended < ARMS
    (tmp_path / "plain.json").write_text("{}")
    run(path, out)
    assert report(out) == wanted


ARMS = 3 * 4
REQUESTS = ARMS * 2


def progress(out: Path) -> tuple[int, int]:
    """How many requests of a study are committed, and how many of its arms have ended."""
    requests = ended = 0
    for file in out.rglob("*.msgpack"):
        # A head may be half written.
        with contextlib.suppress(TraceFormatError), TraceReader.open(file) as trace:
            requests += sum(len(trace.requests(arm)) for arm in trace.arms)
            ended += sum(trace.end(arm) is not None for arm in trace.arms)
    return requests, ended


def wait_until_ended(out: Path) -> None:
    """The child of a killed study ends by itself; its lock on a trace is then free."""
    deadline = time.monotonic() + 60
    while any(str(out).encode() in line for line in command_lines()):
        assert time.monotonic() < deadline, "the child of a killed study went on"
        time.sleep(0.05)


def command_lines() -> Iterator[bytes]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # a process that has just ended
            yield file.read_bytes()


def test_a_crashed_cell_does_not_stop_the_rest(tmp_path: Path) -> None:
    engines = {"dies": {"faults": [{"kind": "dies", "request": 3}]}, "plain": {}}
    path, out = write_study(tmp_path, engines=engines), tmp_path / "out"
    study, whole = started(path, out)
    with pytest.raises(EngineError, match="1 of 2 cells did not finish; the first: dies"):
        whole.run(cells_of(study), quiet=True)
    assert [state.status for state in whole.states()] == [CellStatus.FAILED, CellStatus.DONE]
    assert "died" in str(whole.states()[0].reason)
    (tmp_path / "dies.json").write_text("{}")  # repaired, the same command finishes it
    whole.run(cells_of(study), quiet=True)
    assert [state.status for state in whole.states()] == [CellStatus.DONE, CellStatus.DONE]


def test_a_process_that_is_killed_by_a_signal_is_a_failed_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from replay.study import child_process

    path, out = write_study(tmp_path), tmp_path / "out"
    aborts = "import os, signal, sys; sys.stdin.readline(); os.kill(os.getpid(), signal.SIGABRT)"
    monkeypatch.setattr(child_process, "_START", aborts)
    study, whole = started(path, out)
    with pytest.raises(EngineError, match="its process was ended by SIGABRT"):
        whole.run(cells_of(study), quiet=True)
    assert whole.states()[0].status is CellStatus.FAILED


def test_an_episode_that_fails_is_listed_and_the_others_are_run(tmp_path: Path) -> None:
    engines = {"once": {"faults": [{"kind": "error", "request": 0}]}}
    path, out = write_study(tmp_path, engines=engines), tmp_path / "out"
    study, whole = started(path, out)
    with pytest.raises(EngineError, match=r"talk0\.msgpack, recording"):
        whole.run(cells_of(study), quiet=True)
    assert len(arms_of(out / "once" / "talk1.msgpack")) == 4
    assert arms_of(out / "once" / "talk0.msgpack") == [("recording", 1)]


def test_an_episode_that_grows_out_of_the_context_is_an_outcome(tmp_path: Path) -> None:
    path, out = write_study(tmp_path, engines={"small": {"context_tokens": 25}}), tmp_path / "out"
    whole = run(path, out)
    state = whole.states()[0]
    assert (state.status, state.too_long, state.reason) == (CellStatus.DONE, 3, None)
    assert arms_of(out / "small" / "talk0.msgpack") == [("recording", 2)]


def test_caches_carried_over_and_passes(tmp_path: Path) -> None:
    arms = 'states = ["warm", "cold"]\npasses = 2\ncarry = "carried-over"\norders = ["canonical", 3]'
    path, out = write_study(tmp_path, arms=arms), tmp_path / "out"
    run(path, out)
    assert arms_of(out / "plain.canonical" / "talk0.msgpack") == [
        ("recording", 2), ("warm", 2), ("warm@1", 2), ("cold", 2), ("cold@1", 2)
    ]  # fmt: skip
    with TraceReader.open(out / "plain.canonical" / "talk1.msgpack") as trace:
        assert trace.arms[1].place.predecessor == "talk0"
    orders = []
    for folder in ("plain.canonical", "plain.order3"):
        manifest = json.loads((out / "manifest.json").read_text())["cells"][folder]
        orders.append(manifest["order"])
    assert orders[0] == ["talk0", "talk1", "talk2"]
    assert sorted(orders[1]) == orders[0]
    assert orders[1] != orders[0]


def test_closed_loop_arms_follow_the_workload(tmp_path: Path) -> None:
    path, out = (
        write_study(tmp_path, arms='states = ["warm"]\nway = "closed-loop"\nrepeats = 1'),
        tmp_path / "out",
    )
    run(path, out)
    with TraceReader.open(out / "plain" / "talk0.msgpack") as trace:
        assert [arm.way for arm in trace.arms] == [Way.RECORDED, Way.CLOSED_LOOP]


def test_gsm8k_items_are_served_twice_cold_and_twice_warm(tmp_path: Path) -> None:
    data = ROOT.parent / "shared" / "data" / "gsm8k_test.jsonl"
    if not data.is_file():
        pytest.skip("left out: the GSM8K test set is not beside this checkout (../shared/data)")
    path = tmp_path / "items.toml"
    path.write_text(
        f"""name = "items"
[workload]
name = "gsm8k"
file = "{data}"
episodes = "0-1,1318"
[[engine]]
engine = "fake"
[[arms]]
states = ["cold", "warm"]
priming = ["self"]
"""
    )
    run(path, tmp_path / "out")
    files = sorted((tmp_path / "out").rglob("*.msgpack"))
    assert [file.stem for file in files] == ["gsm8k_0000", "gsm8k_0001", "gsm8k_1318"]
    for file in files:
        with TraceReader.open(file) as trace:
            assert [arm.label for arm in trace.arms] == ["recording", "cold", "warm/self", "warm/self#1"]
            served = [trace.requests(arm.index)[0].exposure for arm in trace.arms]
            prompt = served[0].prompt_tokens
            assert prompt is not None
            assert [exposure.cached_tokens for exposure in served] == [0, 0, prompt - 1, prompt - 1]


def test_a_folder_of_another_study_is_refused(tmp_path: Path) -> None:
    path, out = write_study(tmp_path), tmp_path / "out"
    run(path, out)
    path.write_text(path.read_text().replace("max_new_tokens = 8", "max_new_tokens = 9"))
    with pytest.raises(UsageError, match="said something else about this cell"):
        run(path, out)


def test_a_folder_that_was_run_on_other_conversations_is_refused(tmp_path: Path) -> None:
    path, out = write_study(tmp_path), tmp_path / "out"
    run(path, out)
    talks = tmp_path / "talks.jsonl"
    kept = talks.read_text()
    talks.write_text(kept.replace("hello 1", "hello 9"))
    with pytest.raises(UsageError, match=r"other data: the sha256 of talks\.jsonl was [0-9a-f]{64} and is"):
        run(path, out)
    talks.write_text(kept)
    assert run(path, out).states()[0].status is CellStatus.DONE


def test_a_folder_from_before_hashes_is_taken_up_where_there_was_no_file(tmp_path: Path) -> None:
    def forget_data() -> None:
        record = out / "plain" / "cell.json"
        kept = json.loads(record.read_text())
        del kept["cell"]["data_sha256"]
        record.write_text(json.dumps({**kept, "fingerprint": "as it was made then"}))

    path, out = write_study(tmp_path), tmp_path / "out"
    run(path, out)
    forget_data()
    with pytest.raises(UsageError, match=r"the sha256 of talks\.jsonl was not kept and is"):
        run(path, out)
    built_in = 'name = "office"\nturns = 1'
    path.write_text(path.read_text().replace('name = "chat"\nfile = "talks.jsonl"', built_in))
    shutil.rmtree(out)
    run(path, out)
    forget_data()
    assert run(path, out).states()[0].status is CellStatus.DONE


def test_conversations_that_change_while_a_study_runs_are_not_mixed(tmp_path: Path) -> None:
    path, out = write_study(tmp_path), tmp_path / "out"
    study, whole = started(path, out)
    before = cells_of(study)
    talks = tmp_path / "talks.jsonl"
    talks.write_text(talks.read_text().replace("hello 1", "hello 9"))
    with pytest.raises(EngineError, match=r"talks\.jsonl of the workload was changed while the study ran"):
        whole.run(before, quiet=True)
    assert not list(out.rglob("*.msgpack"))


def test_a_file_of_conversations_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    (tmp_path / "talks.jsonl").unlink()
    with pytest.raises(UsageError, match=r"talks\.jsonl cannot be read \(No such file"):
        cells_of(load_study(str(path)))


def test_a_cell_that_another_process_runs_is_left_alone(tmp_path: Path) -> None:
    path, out = write_study(tmp_path), tmp_path / "out"
    study, whole = started(path, out)
    lock = whole._lock(cells_of(study)[0])
    with lock, pytest.raises(EngineError, match="another process is running it"):
        whole.run(cells_of(study), quiet=True)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    path, out = write_study(tmp_path), tmp_path / "out"
    (out / "plain" / ".cell.lock").mkdir(parents=True)  # what even the administrator cannot write over
    with pytest.raises(UsageError, match=r"\.cell\.lock cannot be written .*give another folder with -o"):
        run(path, out)


def test_the_manifest_says_layers_sampling_order_and_hashes(tmp_path: Path) -> None:
    run(write_study(tmp_path), tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    cell = manifest["cells"]["plain"]
    assert cell["engine"]["model_hash"].startswith("sha256:")
    assert cell["engine"]["template_hash"].startswith("sha256:")
    talks = (tmp_path / "talks.jsonl").read_bytes()
    assert manifest["workload_file_sha256"] == cell["workload"]["file_sha256"]
    assert cell["workload"]["file_sha256"] == hashlib.sha256(talks).hexdigest()
    conversations = cell["workload"]["conversation_sha256"]
    assert list(conversations) == ["talk0", "talk1", "talk2"]
    assert len(set(conversations.values())) == 3
    assert cell["sampling"]["temperature"] == 0
    assert cell["sampling"]["seed"] == 42
    assert cell["order"] == ["talk0", "talk1", "talk2"]
    assert {arm["state"]: arm["prompt_cache_bytes"] > 0 for arm in cell["arms"]} == {
        "cold": False,
        "warm": True,
    }
    assert str(tmp_path) not in json.dumps(manifest["study"]["workload"])


def test_the_commands_list_run_and_status(tmp_path: Path) -> None:
    path, out = write_study(tmp_path, engines={"one": {}, "two": {}}), tmp_path / "out"

    def cachetrace(*words: str) -> str:
        done = subprocess.run(
            [*MAIN, "study", *words, "-o", str(out)], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        return done.stdout

    assert cachetrace("list", str(path)) == "one\ntwo\n"
    assert "pending" in cachetrace("status", str(path))
    assert cachetrace("run", str(path), "--cell", "two", "-q") == ""
    assert cachetrace("list", str(path), "--pending") == "one\n"
    assert "cold vs warm" in cachetrace("run", str(path), "-q")
    states = json.loads(cachetrace("status", str(path), "--json"))
    assert [(state["cell_id"], state["status"]) for state in states] == [("one", "done"), ("two", "done")]


def test_ctrl_c_ends_parent_and_child_and_says_interrupted(tmp_path: Path) -> None:
    slow = {"faults": [{"kind": "slow", "seconds": 0.05}]}
    path, out = write_study(tmp_path, engines={"slow": slow}), tmp_path / "out"
    process = subprocess.Popen(
        [*MAIN, "study", "run", str(path), "-o", str(out), "-q"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list(out.rglob("*.msgpack")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert b"Traceback" not in said
    _, whole = started(path, out)
    assert whole.states()[0].status is CellStatus.INTERRUPTED


@pytest.mark.slow
def test_the_documented_example_for_gnu_parallel(tmp_path: Path) -> None:
    """The line of docs/studies.md as it stands; xargs stands in where GNU parallel is not installed."""
    text = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    line = next(line.strip() for line in text.splitlines() if "| parallel -j1 " in line)
    programs = tmp_path / "programs"
    programs.mkdir()
    write_program(programs / "cachetrace", f'exec {sys.executable} {ROOT / "cachetrace.py"} "$@"')
    if shutil.which("parallel") is None:
        write_program(programs / "parallel", 'shift; exec xargs -I{} "$@"')
    write_study(tmp_path, engines={"one": {}, "two": {}}).rename(tmp_path / "formats.toml")
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    _, whole = started(tmp_path / "formats.toml", tmp_path / "mine")
    assert [state.status for state in whole.states()] == [CellStatus.DONE, CellStatus.DONE]


def write_program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
