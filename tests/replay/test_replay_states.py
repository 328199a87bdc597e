"""Replays under every state, priming and way, on an engine with exact cache accounting."""

import pytest
from msgspec.structs import replace

from replay.arm_schedule import ReplayOptions
from replay.replay_run import replay_on, replay_trace
from replay.verdicts import ArmStatus, Evidence, Verdict
from tests.replay.conftest import Recording, record
from tracer.engines.choice import EngineChoice
from tracer.engines.fake import FakeEngine, FakeFault, FakeScript
from tracer.episode import CacheState, Priming, Way
from tracer.errors import StateRefused, UsageError
from tracer.tracefile import TraceReader

ALL = ("cold", "warm", "snapshot", "no-prompt-cache")


def test_every_state_twice(recording):
    done = recording.replay(*ALL)
    assert recording.labels()[1:] == [
        "cold", "cold#1", "warm", "warm#1", "snapshot", "snapshot#1", "no-prompt-cache", "no-prompt-cache#1",
    ]  # fmt: skip
    assert all(one.end.completed for one in done)
    analysis = recording.analysis()
    assert {a.status for a in analysis.assessments} == {ArmStatus.VERIFIED}
    assert all(a.may_count for a in analysis.assessments)
    for control in analysis.controls:
        assert {(v.verdict, v.evidence) for v in control.requests} == {(Verdict.IDENTICAL, Evidence.ROW)}


def test_cold_against_warm_differs_exactly_where_tokens_were_cached(recording):
    recording.replay("cold", "warm")
    assert recording.exposures("cold") == [0, 0, 0, 0]
    warm = recording.exposures("warm")
    assert warm[0] == 0
    assert min(warm[1:]) > 0
    for verdict, cached in zip(recording.verdicts("warm"), warm, strict=True):
        differs = verdict.verdict in (Verdict.DRIFTED, Verdict.FLIPPED)
        assert differs == (cached > 0)
        assert verdict.attributable is (True if differs else None)


def test_snapshot_is_identical_by_row_to_its_reference(recording):
    recording.replay("snapshot", "warm", repeats=1)
    for baseline in ("recording", "warm"):
        verdicts = recording.verdicts("snapshot", baseline=baseline)
        assert {(v.verdict, v.evidence) for v in verdicts} == {(Verdict.IDENTICAL, Evidence.ROW)}
    with TraceReader.open(recording.path) as trace:
        snapshot = next(a for a in trace.arms if a.state is CacheState.SNAPSHOT)
        assert snapshot.priming is Priming.RESTORED
        assert trace.arms[snapshot.reference_arm].label == "recording"
        restored = [r.exposure.restored_tokens for r in trace.requests(snapshot)]
        assert restored == [r.exposure.cached_tokens for r in trace.requests(snapshot)]


def test_snapshot_uses_the_states_of_a_warm_arm_of_the_same_run(recording):
    recording.replay("warm", "snapshot")
    with TraceReader.open(recording.path) as trace:
        references = {a.reference_arm for a in trace.arms if a.state is CacheState.SNAPSHOT}
        assert [trace.arms[i].label for i in references] == ["warm"]


def test_snapshot_never_restores_what_an_arm_met_that_asked_each_request_twice(tmp_path, script, recording):
    """Such an arm met its own prompts, and no reference may: neither in one run nor in a later one."""
    recording.replay("warm", "snapshot", primings=(Priming.SELF,), repeats=1)
    with TraceReader.open(recording.path) as trace:
        (snapshot,) = [a for a in trace.arms if a.state is CacheState.SNAPSHOT]
        assert trace.arms[snapshot.reference_arm].label == "recording"
    engine = FakeEngine(script)
    record(tmp_path / "cold.msgpack", engine, state=CacheState.COLD)
    cold = Recording(tmp_path / "cold.msgpack", engine)
    with pytest.raises(StateRefused, match="with priming own or lockstep"):
        cold.replay("warm", "snapshot", primings=(Priming.SELF,), repeats=1)
    cold.replay("warm", "snapshot", primings=(Priming.SELF, Priming.OWN), repeats=1)
    with TraceReader.open(cold.path) as trace:
        (snapshot,) = [a for a in trace.arms if a.state is CacheState.SNAPSHOT]
        assert trace.arms[snapshot.reference_arm].label == "warm"


def test_snapshot_uses_kept_states_without_serving_again(tmp_path, script):
    engine = FakeEngine(script)
    engine.save_state = lambda real=engine.save_state: _as_bytes(engine, real())
    engine.restore_state = lambda state, real=engine.restore_state: real(_from_bytes(state))
    record(tmp_path / "t.msgpack", engine, keep_states=True)
    kept = Recording(tmp_path / "t.msgpack", engine)
    served = []
    engine.generate = lambda call, real=engine.generate: served.append(call) or real(call)
    kept.replay("snapshot", repeats=1)
    assert len(served) == 4
    verdicts = kept.verdicts("snapshot", baseline="recording")
    assert {v.verdict for v in verdicts} == {Verdict.IDENTICAL}


def _as_bytes(engine, state):
    import json

    from tracer.engines.base import SavedState

    return SavedState(state.token_ids, state.size_bytes, json.dumps(state.payload).encode())


def _from_bytes(state):
    import json

    from tracer.engines.base import SavedState

    ids, batches = json.loads(state.payload)
    return SavedState(state.token_ids, state.size_bytes, (tuple(ids), tuple(tuple(b) for b in batches)))


def test_snapshot_refuses_a_reference_that_does_not_repeat_itself(recording):
    wobbly = replace(recording.engine._script, faults=(FakeFault(kind="wobbles", request=2),))
    with pytest.raises(StateRefused, match="cannot be made again: request 2"):
        replay_on(FakeEngine(wobbly), recording.path, ReplayOptions(states=(CacheState.SNAPSHOT,)))


def test_snapshot_without_a_warm_arm_says_what_to_do(tmp_path, script):
    engine = FakeEngine(script)
    record(tmp_path / "t.msgpack", engine, state=CacheState.COLD)
    with pytest.raises(StateRefused, match="--state warm,snapshot"):
        Recording(tmp_path / "t.msgpack", engine).replay("snapshot")


def test_primings_give_different_exposures_and_numbers(recording):
    recording.replay("cold", repeats=1)
    recording.replay(
        "warm", repeats=1, primings=(Priming.OWN, Priming.LOCKSTEP, Priming.PROMPT_ONLY, Priming.SELF)
    )
    own, lockstep = recording.exposures("warm"), recording.exposures("warm/lockstep")
    prompt_only, same = recording.exposures("warm/prompt-only"), recording.exposures("warm/self")
    assert own == lockstep == recording.exposures("recording")
    assert all(p < o for p, o in zip(prompt_only[1:], own[1:], strict=True))
    with TraceReader.open(recording.path) as trace:
        prompts = [r.prompt_tokens for r in trace.requests(0)]
        assert prompt_only[1:] == prompts[:-1]
        assert same == [tokens - 1 for tokens in prompts]
        assert {str(a.priming) for a in trace.arms[2:]} == {"own", "lockstep", "prompt-only", "self"}
    drifts = {
        label: [v.max_drift for v in recording.verdicts(label)] for label in ("warm", "warm/prompt-only")
    }
    assert drifts["warm"][1:] != drifts["warm/prompt-only"][1:]
    lockstep_again = recording.verdicts("warm/lockstep", baseline="recording")
    assert {(v.verdict, v.evidence) for v in lockstep_again} == {(Verdict.IDENTICAL, Evidence.ROW)}


def test_lockstep_follows_the_recording_where_the_own_answer_flipped(recording):
    """A cold recording: the warm arms' own answers flip, and lockstep decodes the recorded ones instead."""
    engine = recording.engine
    cold = Recording(recording.path.with_name("cold.msgpack"), engine)
    record(cold.path, engine, state=CacheState.COLD)
    cold.replay("warm", repeats=1, primings=(Priming.OWN, Priming.LOCKSTEP))
    flipped = [v.request for v in cold.verdicts("warm/lockstep") if v.verdict is Verdict.FLIPPED]
    own, lockstep = cold.exposures("warm"), cold.exposures("warm/lockstep")
    with TraceReader.open(cold.path) as trace:
        held = [r.prompt_tokens + r.output_tokens - 1 for r in trace.requests(0)]
    assert flipped  # else this recording shows nothing
    assert lockstep[1:] == held[:-1]
    after = [i + 1 for i in flipped if i + 1 < len(own)]
    assert after
    assert all(own[i] < lockstep[i] for i in after)


def test_forced_has_drift_at_every_position_and_no_flip(recording):
    recording.replay("cold", "warm", repeats=1, way=Way.FORCED)
    verdicts = recording.verdicts("warm/forced")
    with TraceReader.open(recording.path) as trace:
        assert [v.compared_positions for v in verdicts] == [r.output_tokens for r in trace.requests(0)]
    assert [v.verdict for v in verdicts] == [Verdict.IDENTICAL] + [Verdict.DRIFTED] * 3
    assert {v.verdict for v in recording.verdicts("warm/forced", baseline="recording")} == {Verdict.IDENTICAL}


def test_closed_loop_rebuilds_the_task_from_the_trace(recording):
    recording.replay("cold", "warm", repeats=2, way=Way.CLOSED_LOOP)
    assert recording.labels()[1] == "cold/closed-loop"
    warm = recording.verdicts("warm/closed-loop")
    kinds = [v.verdict for v in warm]
    assert Verdict.FLIPPED in kinds
    after = kinds[kinds.index(Verdict.FLIPPED) + 1 :]
    assert set(after) == {Verdict.DOWNSTREAM}
    with TraceReader.open(recording.path) as trace:
        arm = next(a for a in trace.arms if a.label == "warm/closed-loop")
        assert arm.source_arm is None
    again = recording.verdicts("warm/closed-loop", baseline="recording")
    assert {v.verdict for v in again} == {Verdict.IDENTICAL}


def test_passes_go_on_where_the_pass_before_left(recording):
    recording.replay("warm", passes=2, repeats=1)
    first, second = recording.exposures("warm"), recording.exposures("warm@1")
    assert (first[0], second[0] > 0) == (0, True)
    control = recording.analysis().controls[0]
    assert control.within_arm
    assert control.requests[0].verdict is not Verdict.IDENTICAL


def test_only_the_first_requests(recording):
    recording.replay("cold", repeats=1, requests=2)
    verdicts = recording.verdicts("cold", baseline="recording")
    assert [v.verdict for v in verdicts[2:]] == [Verdict.INCOMPLETE] * 2
    recording.replay("cold", repeats=1)  # a partial arm is not taken for a whole one
    assert recording.labels() == ["recording", "cold", "cold"]


def test_a_state_that_the_engine_cannot_produce_is_refused_and_nothing_is_written(recording, script):
    poor = replace(script, without=("snapshot",))
    with pytest.raises(StateRefused, match="snapshot"):
        replay_on(FakeEngine(poor), recording.path, ReplayOptions(states=(CacheState.SNAPSHOT,)))
    assert recording.labels() == ["recording"]


def test_priming_without_a_warm_state_is_refused(recording):
    with pytest.raises(UsageError, match="add --state warm"):
        recording.replay("cold", primings=(Priming.LOCKSTEP,))


def test_another_model_is_refused_unless_anyway(recording):
    other = FakeEngine(FakeScript(seed=7))
    with pytest.raises(UsageError, match=r"not the one that recorded: model \(sha256:.* when recorded"):
        replay_on(other, recording.path, ReplayOptions())
    assert recording.labels() == ["recording"]
    done = replay_on(other, recording.path, ReplayOptions(anyway=True, repeats=1))
    assert all(one.end.completed for one in done)
    analysis = recording.analysis(baseline="recording")
    assert all(c.refused for c in analysis.comparisons)


def test_settings_that_were_recorded_are_taken_over(recording, monkeypatch):
    from replay import replay_run

    asked = []

    def open_asked(choice):
        asked.append(choice)
        return FakeEngine(recording.engine._script)

    monkeypatch.setattr(replay_run, "open_engine", open_asked)
    replay_trace(recording.path, EngineChoice(engine="fake", context_tokens=4096), ReplayOptions(repeats=1))
    assert asked[0].batch_tokens == 64  # as recorded
    assert asked[0].context_tokens == 4096  # as given
