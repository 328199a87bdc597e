"""Which arms are held against which, and what refuses a comparison."""

import pytest
from msgspec.structs import replace

from replay.divergence import analyse, arm_groups, compare_across, compare_arms, resolve_arm
from tests.replay.memory_trace import MemoryTrace, exposure, served, two_arms
from tests.synthetic import ArmSpec, write_trace
from tracer.episode import CacheState, EngineInfo, Priming, Sampling, Way
from tracer.errors import UsageError
from tracer.tracefile import TraceReader


def one(**fields):
    return served([7], values=[1.0], lse=[2.0], prints=[1], **fields)


ENGINE = EngineInfo(engine="fake", model_hash="sha256:a", threads=2)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"engine": replace(ENGINE, model_hash="sha256:b")}, "model: sha256:a against sha256:b"),
        ({"engine": replace(ENGINE, model_hash=None)}, "model: sha256:a against not known"),
        ({"engine": replace(ENGINE, template_hash="sha256:t")}, "chat template"),
        ({"engine": replace(ENGINE, threads=4)}, "threads: 2 against 4"),
        ({"engine": replace(ENGINE, threads_batch=4)}, "threads for prompts"),
        ({"engine": replace(ENGINE, batch_tokens=32)}, "batch size"),
        ({"engine": replace(ENGINE, ubatch_tokens=32)}, "ubatch size"),
        ({"engine": replace(ENGINE, kv_type_k="q8_0")}, "KV type of keys"),
        ({"engine": replace(ENGINE, flash_attention="on")}, "flash attention"),
        ({"engine": replace(ENGINE, gpu_layers=9)}, "GPU layers"),
        ({"sampling": Sampling(seed=1)}, "sampling"),
        ({"top_k": 5}, "k: 20 against 5"),
    ],
)
def test_each_guard_is_named_and_refuses_unless_anyway(fields, named):
    trace = two_arms([one()], [one()], **fields)
    refused = compare_arms(trace, 0, 1)
    assert refused.refused
    assert len(refused.mismatches) == 1
    assert named in refused.mismatches[0]
    anyway = compare_arms(trace, 0, 1, anyway=True)
    assert anyway.mismatches == refused.mismatches
    assert len(anyway.requests) == 1


def test_what_neither_arm_knows_is_no_mismatch():
    hidden = EngineInfo(engine="openai")
    trace = MemoryTrace()
    trace.add_arm([one()], engine=hidden)
    trace.add_arm([one()], engine=hidden, state=CacheState.WARM)
    assert compare_arms(trace, 0, 1).mismatches == ()


def test_fixed_guards_every_prompt_and_closed_loop_the_first():
    recorded, other = [one(), one()], [one(), one(prompt=(9,))]
    assert compare_arms(two_arms(recorded, other), 0, 1).mismatches == ("prompt of request 1: differs",)
    assert compare_arms(two_arms(recorded, other, way=Way.CLOSED_LOOP), 0, 1).mismatches == ()
    first = two_arms(recorded, [one(prompt=(9,)), one()], way=Way.CLOSED_LOOP)
    assert compare_arms(first, 0, 1).mismatches == ("prompt of request 0: differs",)


def test_sampling_of_a_single_request_is_guarded():
    trace = two_arms([one()], [one(sampling=Sampling(max_new_tokens=3))])
    assert compare_arms(trace, 0, 1).mismatches == ("sampling of request 0: differs",)


def test_primings_that_fill_the_cache_in_two_ways_are_not_compared():
    trace = MemoryTrace()
    trace.add_arm([one()], state=CacheState.WARM)
    for priming in (Priming.OWN, Priming.LOCKSTEP, Priming.PROMPT_ONLY, Priming.SELF):
        trace.add_arm([one()], state=CacheState.WARM, priming=priming)
    trace.add_arm([one()], state=CacheState.SNAPSHOT)
    trace.add_arm([one()], state=CacheState.COLD)
    refused = [bool(compare_arms(trace, 0, b).mismatches) for b in range(1, 7)]
    # own, lockstep (claims to reproduce it), prompt-only, self, restored, none
    assert refused == [False, False, True, True, False, False]


def test_forced_tokens_stand_only_beside_forced_ones_or_their_source():
    trace = MemoryTrace()
    trace.add_arm([one()])
    trace.add_arm([one()], way=Way.FIXED)
    trace.add_arm([one()], state=CacheState.WARM, way=Way.FORCED)
    trace.add_arm([one()], way=Way.FORCED)
    assert compare_arms(trace, 0, 2).mismatches == ()
    assert compare_arms(trace, 3, 2).mismatches == ()
    assert compare_arms(trace, 1, 2).mismatches == ("way: fixed against forced",)


def test_another_episode_is_refused():
    a, b = two_arms([one()], [one()]), two_arms([one()], [one()])
    b.episode = replace(b.episode, episode_id="other\x1b[0m")
    refused = compare_across((a, 0), (b, 0))
    assert refused.refused
    assert "\x1b" not in refused.mismatches[0]


def test_baseline_is_the_first_verified_cold_arm_else_the_recording(tmp_path):
    write_trace(
        tmp_path / "t.msgpack",
        arms=[ArmSpec(state="warm"), ArmSpec(state="cold", cached=3), ArmSpec(state="cold", repeat=1)],
    )
    with TraceReader.open(tmp_path / "t.msgpack") as trace:
        assert analyse(trace).baseline == 2  # arm 1 claims to be cold and had cached tokens
        assert analyse(trace, baseline="recording").baseline == 0
    write_trace(tmp_path / "w.msgpack", arms=[ArmSpec(state="warm"), ArmSpec(state="no-prompt-cache")])
    with TraceReader.open(tmp_path / "w.msgpack") as trace:
        analysis = analyse(trace)
        assert analysis.baseline == 0
        assert [(c.baseline, c.arm) for c in analysis.comparisons] == [(0, 1)]


def test_repeat_i_is_paired_with_repeat_i(tmp_path):
    specs = [ArmSpec(state="warm")]
    specs += [ArmSpec(state=state, repeat=r) for state, n in (("cold", 2), ("snapshot", 3)) for r in range(n)]
    write_trace(tmp_path / "t.msgpack", arms=specs)
    with TraceReader.open(tmp_path / "t.msgpack") as trace:
        analysis = analyse(trace)
        assert [(c.baseline, c.arm) for c in analysis.comparisons] == [(1, 0), (1, 3), (2, 4), (1, 5)]
        assert [(c.baseline, c.arm) for c in analysis.controls] == [(1, 2), (3, 4), (3, 5)]
        assert all(c.within_arm for c in analysis.controls)
        assert not any(c.within_arm for c in analysis.comparisons)


def test_an_arm_is_held_against_a_cold_arm_of_its_own_way():
    trace = MemoryTrace()
    trace.add_arm([one()], state=CacheState.WARM)
    for way in (Way.FIXED, Way.CLOSED_LOOP, Way.FORCED):
        trace.add_arm([one()], way=way)
        trace.add_arm([one(cached=2)], state=CacheState.WARM, way=way)
    trace.add_arm([one(cached=2)], state=CacheState.SNAPSHOT, way=Way.CLOSED_LOOP)
    pairs = {c.arm: c.baseline for c in analyse(trace).comparisons}
    assert pairs[2] == 1
    assert pairs[4] == 3
    assert pairs[6] == 5
    assert pairs[7] == 3


def test_a_closed_loop_is_held_against_the_first_cold_arm_that_was_repeated():
    trace = MemoryTrace()
    trace.add_arm([one()])
    for state, cached in ((CacheState.WARM, 2), (CacheState.COLD, 0)):
        for index in range(2):
            trace.add_arm([one(cached=cached)], state=state, way=Way.CLOSED_LOOP, pass_index=index)
    trace.add_arm([one(cached=2)], state=CacheState.WARM, way=Way.FIXED)
    pairs = {c.arm: c.baseline for c in analyse(trace).comparisons}
    assert pairs == {1: 3, 2: 4, 5: 0}
    without = MemoryTrace(arms=trace.arms[:3], served=trace.served[:3], ends=trace.ends[:3])
    assert {c.arm: c.baseline for c in analyse(without).comparisons} == {1: 0, 2: 0}
    without.add_arm([one()], way=Way.FIXED, repeat=1)  # of the recording
    without.add_arm([one()], way=Way.CLOSED_LOOP)
    assert {c.arm: c.baseline for c in analyse(without).comparisons} == {1: 0, 2: 0, 4: 0}


def test_a_cold_recording_and_its_cold_replays_are_repeats(tmp_path):
    write_trace(
        tmp_path / "t.msgpack",
        arms=[ArmSpec(), ArmSpec(state="cold"), ArmSpec(state="cold", repeat=1), ArmSpec(state="warm")],
    )
    with TraceReader.open(tmp_path / "t.msgpack") as trace:
        assert [g.arms for g in arm_groups(trace)] == [(0, 1, 2), (3,)]


def test_arms_of_another_engine_configuration_note_or_k_are_no_repeats():
    trace = MemoryTrace()
    trace.add_arm([one()], state=CacheState.WARM)
    trace.add_arm([one()], way=Way.FIXED)
    trace.add_arm([one()], way=Way.FIXED, repeat=1)
    trace.add_arm([one()], way=Way.FIXED, engine=replace(ENGINE, flash_attention="on"))
    trace.add_arm([one()], way=Way.FIXED, note="isolate a/on")
    trace.add_arm([one()], way=Way.FIXED, top_k=5)
    assert [g.arms for g in arm_groups(trace)] == [(0,), (1, 2), (3,), (4,), (5,)]


def test_a_failed_arm_answers_for_no_other():
    trace = MemoryTrace()
    trace.add_arm([one()], state=CacheState.WARM)
    trace.add_arm([], way=Way.FIXED, complete=False)
    trace.add_arm([one()], way=Way.FIXED)
    trace.add_arm([one()], way=Way.FIXED, repeat=1)
    assert arm_groups(trace)[1].arms == (2, 3, 1)


def test_passes_are_controls_of_their_own_chain_and_not_repeats():
    trace = MemoryTrace()
    trace.add_arm([one()], state=CacheState.WARM)
    for repeat, passes in ((0, 1), (1, 1), (2, 2)):
        for index in range(passes):
            trace.add_arm([one()], way=Way.FIXED, repeat=repeat, pass_index=index)
    group = arm_groups(trace)[1]
    assert group.controls() == ((1, 2), (1, 3), (3, 4))
    assert group.repeating() == {1, 2, 3}


class CountsEnds(MemoryTrace):
    """Grouping asks for the end of every arm, so these calls show how often a trace is grouped."""

    def end(self, arm):
        self.reads["end"] += 1
        return super().end(arm)


@pytest.mark.parametrize("several", ["repeats", "configurations"])
def test_the_work_for_one_trace_grows_with_its_arms_and_not_with_their_pairs(several):
    def ends_asked_for(quarters):
        trace = CountsEnds()
        for number in range(quarters):
            engine = replace(ENGINE, threads=number) if several == "configurations" else ENGINE
            for repeat in range(2):
                fields = {"engine": engine, "repeat": 2 * number + repeat, "way": Way.FIXED}
                trace.add_arm([one()], **fields)
                trace.add_arm([one()], state=CacheState.WARM, **fields)
        analyse(trace)
        return trace.reads["end"]

    assert ends_asked_for(16) == 8 * ends_asked_for(2)


def test_resolve_arm_by_index_and_label():
    trace = two_arms([one()], [one(exposure=exposure(2))])
    assert resolve_arm(trace, 1) == resolve_arm(trace, "1") == resolve_arm(trace, "warm") == 1
    assert resolve_arm(trace, "recording") == 0
    with pytest.raises(UsageError, match="it has: recording, warm"):
        resolve_arm(trace, "cold")
    with pytest.raises(UsageError, match="2 arms"):
        resolve_arm(trace, "7")
