"""What replays must show on the real engine in process (SmolLM2, CPU)."""

import numpy as np
import pytest

from replay.arm_schedule import ReplayOptions
from replay.divergence import position_drift
from replay.replay_run import replay_on
from replay.verdicts import ArmStatus, Evidence, ExposureVerdict, Verdict
from tests.replay.conftest import Recording, chat, record
from tracer.engines.choice import EngineChoice
from tracer.engines.registry import open_engine
from tracer.episode import CacheState, Priming, Sampling
from tracer.tracefile import TraceReader

pytestmark = [pytest.mark.llama, pytest.mark.slow]

QUESTIONS = (
    "List three uses of copper and say for each one why another metal would be worse.",
    "Which of these uses is the oldest?",
    "Describe how bread is made, from the grain to the table, step by step.",
    "Explain why the sky is blue. Answer for a child of six years.",
)
LONG = " ".join(["You are a careful assistant that answers in short sentences and never makes a joke."] * 12)
STATES = ("cold", "warm", "snapshot", "no-prompt-cache")


def talk():
    return chat((f"{LONG} {QUESTIONS[0]}", *QUESTIONS[1:]))


def recorded(path, engine):
    record(path, engine, talk(), sampling=Sampling(max_new_tokens=24))
    return Recording(path, engine)


@pytest.fixture(scope="module")
def quantized(tmp_path_factory, smollm2):
    """One recording on Q4_1, replayed under all states twice and with every priming."""
    engine = open_engine(EngineChoice(engine="llama", model=str(smollm2)))
    try:
        found = recorded(tmp_path_factory.mktemp("q4") / "t.msgpack", engine)
        found.replay(*STATES)
        found.replay("warm", repeats=1, primings=(Priming.LOCKSTEP, Priming.PROMPT_ONLY))
        yield found
    finally:
        engine.close()


def test_every_arm_is_verified_and_every_exposure_as_expected(quantized):
    for assessment in quantized.analysis().assessments:
        assert assessment.status is ArmStatus.VERIFIED, assessment.reason
        assert set(assessment.exposures) == {ExposureVerdict.AS_EXPECTED}
    assert set(quantized.exposures("cold")) == {0}


def test_repeats_are_identical_by_row_on_every_request(quantized):
    controls = quantized.analysis().controls
    assert len(controls) == len(STATES)
    for control in controls:
        assert {(v.verdict, v.evidence) for v in control.requests} == {(Verdict.IDENTICAL, Evidence.ROW)}


def test_cold_against_warm_differs_wherever_tokens_were_cached(quantized):
    verdicts = quantized.verdicts("warm")
    assert len(verdicts) == len(QUESTIONS)
    for verdict, cached in zip(verdicts, quantized.exposures("warm"), strict=True):
        assert (verdict.verdict is not Verdict.IDENTICAL) == (cached > 0)
        if cached:
            assert verdict.max_drift > 0
            assert verdict.attributable is True


def test_snapshot_is_identical_by_row_to_its_reference(quantized):
    with TraceReader.open(quantized.path) as trace:
        snapshot = next(a for a in trace.arms if a.state is CacheState.SNAPSHOT)
        reference = snapshot.reference_arm
    verdicts = quantized.verdicts("snapshot", baseline=reference)
    assert {(v.verdict, v.evidence) for v in verdicts} == {(Verdict.IDENTICAL, Evidence.ROW)}


def test_lockstep_own_and_prompt_only_give_their_own_exposures_and_verdicts(quantized):
    own, lockstep = quantized.exposures("warm"), quantized.exposures("warm/lockstep")
    prompt_only = quantized.exposures("warm/prompt-only")
    with TraceReader.open(quantized.path) as trace:
        prompts = [r.prompt_tokens for r in trace.requests(0)]
        primings = {a.label: a.priming for a in trace.arms}
    assert own[0] == prompt_only[0] == 0
    assert prompt_only[1:] == prompts[:-1]
    assert all(p < o for p, o in zip(prompt_only[1:], own[1:], strict=True))
    assert lockstep == quantized.exposures("recording")
    assert primings["warm/lockstep"] is Priming.LOCKSTEP
    assert primings["warm/prompt-only"] is Priming.PROMPT_ONLY
    same = quantized.verdicts("warm/lockstep", baseline="recording")
    assert {(v.verdict, v.evidence) for v in same} == {(Verdict.IDENTICAL, Evidence.ROW)}
    drift = {label: [v.max_drift for v in quantized.verdicts(label)] for label in primings if "warm" in label}
    assert drift["warm"] != drift["warm/prompt-only"]


def test_three_primings_of_one_cold_recording_differ(tmp_path, llama_engine):
    """Where the warm arm's own answer flips, `own` finds less of it in the next prompt than lockstep does."""
    path = tmp_path / "cold.msgpack"
    settings = Sampling(max_new_tokens=48)
    record(path, llama_engine, talk(), state=CacheState.COLD, sampling=settings)
    cold = Recording(path, llama_engine)
    cold.replay("warm", repeats=1, primings=(Priming.OWN, Priming.LOCKSTEP, Priming.PROMPT_ONLY))
    exposures = {name: cold.exposures(f"warm{name}") for name in ("", "/lockstep", "/prompt-only")}
    with TraceReader.open(path) as trace:
        requests, own = trace.requests(0), trace.requests(1)
        assert [a.priming for a in trace.arms[1:]] == [
            Priming.OWN,
            Priming.LOCKSTEP,
            Priming.PROMPT_ONLY,
        ]
    held = [r.prompt_tokens + r.output_tokens - 1 for r in requests]
    assert exposures["/lockstep"] == [0, *held[:-1]]
    assert exposures["/prompt-only"] == [0, *(r.prompt_tokens for r in requests[:-1])]
    flips = {v.request: v.flip.position for v in cold.verdicts("warm") if v.flip is not None}
    assert any(i + 1 < len(requests) for i in flips), "no flip that a later request could notice"
    expected = [0]
    for i, request in enumerate(own[:-1]):
        held = request.output_tokens - 1  # the last token is chosen, never decoded
        expected.append(request.prompt_tokens + min(flips.get(i, held), held))
    assert exposures[""] == expected
    assert len({tuple(one) for one in exposures.values()}) == 3
    drift = {name: [v.max_drift for v in cold.verdicts(f"warm{name}")] for name in exposures}
    assert drift[""] != drift["/lockstep"] != drift["/prompt-only"]


def median_drift(recording):
    """Median over all agreeing positions of requests that had cached tokens in the warm arm."""
    with TraceReader.open(recording.path) as trace:
        cold, warm = (next(a.index for a in trace.arms if a.label == name) for name in ("cold", "warm"))
        drift = [
            position_drift(trace, cold, warm, request.index).drift
            for request in trace.requests(warm)
            if request.exposure.cached_tokens
        ]
    return float(np.nanmedian(np.concatenate(drift)))


def test_f16_made_from_the_same_file_drifts_at_least_five_times_less(quantized, tmp_path, smollm2_f16):
    engine = open_engine(EngineChoice(engine="llama", model=str(smollm2_f16)))
    try:
        f16 = recorded(tmp_path / "f16.msgpack", engine)
        replay_on(engine, f16.path, ReplayOptions(states=(CacheState.COLD, CacheState.WARM), repeats=1))
        assert {a.status for a in f16.analysis().assessments} == {ArmStatus.VERIFIED}
        assert 0 < median_drift(f16) <= median_drift(quantized) / 5
    finally:
        engine.close()
