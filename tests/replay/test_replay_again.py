"""Running the same replay again, after an end, a stop, a fault; folders; the command."""

import json
import shutil

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from replay.arm_schedule import ReplayOptions
from replay.directory_run import replay_folder, traces_of
from replay.replay_run import replay_on
from replay.verdicts import Verdict
from tests.replay.conftest import Recording, chat, record
from tracer.engines.fake import FakeEngine, FakeFault
from tracer.episode import CacheState, Carry
from tracer.errors import UsageError
from tracer.progress import Silent
from tracer.tracefile import TraceReader


def test_a_finished_replay_is_left_alone_and_again_adds_repeats(recording):
    recording.replay("cold")
    before = recording.path.read_bytes()
    assert recording.replay("cold") == ()
    assert recording.path.read_bytes() == before
    recording.replay("cold", repeats=3)
    recording.replay("cold", repeats=1, again=True)
    assert recording.labels() == ["recording", "cold", "cold#1", "cold#2", "cold#3"]
    recording.replay("warm", repeats=1, passes=2)
    assert recording.replay("warm", repeats=1, passes=2) == ()


class StopAfter(Silent):
    """Ctrl-C after so many requests."""

    def __init__(self, requests):
        self.left = requests

    def request_ended(self, index, cached_tokens, output_tokens):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize("state", ["cold", "warm", "snapshot", "no-prompt-cache"])
def test_an_interrupted_arm_is_taken_up_and_equals_an_undisturbed_one(recording, state):
    states = (CacheState(state),)
    other = Recording(recording.path.with_name("undisturbed.msgpack"), recording.engine)
    shutil.copy(recording.path, other.path)
    extra = 4 if state == "snapshot" else 0  # the reference arm is served again first
    options = ReplayOptions(states=states, repeats=1)
    with pytest.raises(KeyboardInterrupt):
        replay_on(recording.engine, recording.path, options, StopAfter(2 + extra))
    with TraceReader.open(recording.path) as trace:
        assert len(trace.requests(1)) == 2
        assert trace.end(1) is None
    recording.replay(state, repeats=1)
    other.replay(state, repeats=1)
    assert recording.labels() == other.labels()
    with TraceReader.open(recording.path) as a, TraceReader.open(other.path) as b:
        assert a.end(1).completed
        for i in range(4):
            assert (a.path(1, i).fingerprints == b.path(1, i).fingerprints).all()
            assert a.requests(1)[i].exposure == b.requests(1)[i].exposure


def test_a_request_that_fails_ends_its_arm_and_the_rest_goes_on(recording):
    failing = FakeEngine(replace(recording.engine._script, faults=(FakeFault(kind="error", request=2),)))
    done = replay_on(failing, recording.path, ReplayOptions(repeats=1))
    assert [one.end.completed for one in done] == [False, True]
    verdicts = recording.verdicts("cold", baseline="recording")
    assert [v.verdict for v in verdicts[2:]] == [Verdict.FAILED, Verdict.INCOMPLETE]
    recording.replay("cold", repeats=1)
    assert recording.labels() == ["recording", "cold", "warm", "cold"]
    assert recording.analysis().baseline == 3


@pytest.fixture
def folder(tmp_path, script):
    engine = FakeEngine(script)
    for position, name in enumerate(("zeta", "alpha")):
        record(tmp_path / f"{name}.msgpack", engine, chat(name=name), position=position)
    return tmp_path, engine


def test_folder_in_recorded_order_and_emptied_by_default(folder):
    path, engine = folder
    paths = traces_of(path)
    assert [p.stem for p in paths] == ["zeta", "alpha"]
    replay_folder(engine, paths, ReplayOptions(states=(CacheState.WARM,), repeats=1))
    assert all(Recording(p, engine).exposures("warm")[0] == 0 for p in paths)


@pytest.mark.parametrize("carry", [Carry.CARRIED_OVER, Carry.SENTINEL])
def test_caches_go_from_one_episode_to_the_next(folder, carry):
    path, engine = folder
    paths = traces_of(path)
    options = ReplayOptions(states=(CacheState.COLD, CacheState.NO_PROMPT_CACHE), repeats=2, carry=carry)
    done = []
    replay_folder(engine, paths, options, finished=lambda p, arms: done.append((p.stem, arms[0].arm)))
    # one state and repeat after the other, each over all episodes
    assert [(p, a.label) for p, a in done[:4]] == [
        ("zeta", "cold"), ("alpha", "cold"), ("zeta", "cold#1"), ("alpha", "cold#1"),
    ]  # fmt: skip
    second = [a for p, a in done if p == "alpha"]
    with TraceReader.open(paths[0]) as trace:
        zeta = trace.episode.episode_id
    assert {(a.place.carry, a.place.position, a.place.predecessor) for a in second} == {(carry, 1, zeta)}
    first_exposure = Recording(paths[1], engine).exposures("no-prompt-cache")[0]
    with TraceReader.open(paths[1]) as trace:
        prompt = trace.requests(0)[0].prompt_tokens
    if carry is Carry.CARRIED_OVER:
        assert 0 < first_exposure < prompt  # the system prompt is shared
    else:
        assert first_exposure < prompt
    count = len(Recording(paths[0], engine).labels())
    replay_folder(engine, paths, options)
    assert len(Recording(paths[0], engine).labels()) == count


def test_passes_over_a_folder(folder):
    path, engine = folder
    options = ReplayOptions(states=(CacheState.WARM,), repeats=1, passes=2, carry=Carry.CARRIED_OVER)
    done = []
    replay_folder(
        engine, traces_of(path), options, finished=lambda p, arms: done.append((p.stem, arms[0].arm.label))
    )
    assert done == [("zeta", "warm"), ("alpha", "warm"), ("zeta", "warm@1"), ("alpha", "warm@1")]


def test_snapshot_carries_nothing_over(folder):
    path, engine = folder
    options = ReplayOptions(states=(CacheState.SNAPSHOT,), carry=Carry.CARRIED_OVER)
    with pytest.raises(UsageError, match="nothing is carried over"):
        replay_folder(engine, traces_of(path), options)


def test_a_folder_without_traces(tmp_path):
    with pytest.raises(UsageError, match="no trace file"):
        traces_of(tmp_path)


# ---- the command


@pytest.fixture
def script_file(tmp_path, script):
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"disturbance": script.disturbance, "answer_tokens": script.answer_tokens}))
    return path


def run(*arguments):
    import typer

    from replay.commands import replay

    app = typer.Typer()
    replay.register(app)
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_command_prints_the_summary_on_stdout_and_progress_on_stderr(recording, script_file):
    result = run(recording.path, "--engine", "fake", "--fake-script", script_file, "--state", "cold,warm")
    assert result.exit_code == 0, result.exception
    assert "repeat of cold: 4 identical" in result.stdout
    assert "attributable to the cache" in result.stdout
    assert "first flip of warm, request" in result.stdout
    assert "prompt tokens cached" not in result.stdout
    assert "prompt tokens cached" in result.stderr
    quiet = run(recording.path, "--engine", "fake", "--fake-script", script_file, "-q")
    assert quiet.stderr == ""
    assert quiet.stdout == result.stdout


def test_command_writes_into_a_copy(recording, script_file, tmp_path):
    before = recording.path.read_bytes()
    copy = tmp_path / "copy.msgpack"
    result = run(recording.path, "--engine", "fake", "--fake-script", script_file, "-q", "-o", copy)
    assert result.exit_code == 0, result.exception
    assert recording.path.read_bytes() == before
    assert Recording(copy, recording.engine).labels() == ["recording", "cold", "cold#1", "warm", "warm#1"]
    again = run(recording.path, "--engine", "fake", "--fake-script", script_file, "-q", "-o", copy)
    assert isinstance(again.exception, UsageError)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--state", "hot"], "--state takes"),
        (["--state", ","], "--state takes"),
        (["--priming", "magic"], "--priming takes"),
        (["--repeat", "2", "--passes", "2"], "--repeat"),
        (["--closed-loop", "--forced"], "--closed-loop"),
        (["--carry-over", "--sentinel"], "--carry-over"),
        (["--carry-over"], "give the folder"),
        (["--logits", "some"], "--logits takes"),
        (["--source", "nobody"], "no arm 'nobody'"),
    ],
)
def test_command_names_the_option_at_fault(recording, arguments, named):
    result = run(recording.path, "--engine", "fake", *arguments)
    assert isinstance(result.exception, UsageError)
    assert named in str(result.exception)


def test_command_on_a_missing_file(tmp_path):
    result = run(tmp_path / "none.msgpack", "--engine", "fake")
    assert isinstance(result.exception, UsageError)
    assert "does not exist" in str(result.exception)
