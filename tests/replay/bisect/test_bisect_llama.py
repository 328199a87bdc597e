"""A bisect on the real engine in process (SmolLM2 Q4_1, CPU) names a setting and verifies it."""

import pytest

from replay.bisect.outcome import Agreement, Found
from replay.bisect.search import BisectOptions, bisect_trace
from tests.replay.conftest import chat, record
from tracer.engines.choice import EngineChoice
from tracer.engines.registry import open_engine
from tracer.episode import Sampling
from tracer.tracefile import TraceReader

pytestmark = pytest.mark.llama

QUESTIONS = (
    "Describe how bread is made.",
    "List three uses of copper.",
    "Explain why the sky is blue.",
    "Name the planets in order.",
)


def test_a_setting_is_named_and_verified_on_several_prompt_lengths(tmp_path, smollm2):
    choice = EngineChoice(engine="llama", model=str(smollm2))
    trace = tmp_path / "talk.msgpack"
    engine = open_engine(choice)
    try:
        record(trace, engine, chat(QUESTIONS), sampling=Sampling(max_new_tokens=12))
    finally:
        engine.close()
    options = BisectOptions(candidates=("ubatch=1,32", "threads=1"), most_pairs=0)
    result = bisect_trace(trace, choice, tmp_path / "arms", options)

    assert result.default.agreement in (Agreement.DRIFTS, Agreement.FLIPS)
    assert result.default.repeats_itself
    assert result.found is Found.SETTING
    assert result.chosen.verified
    assert result.chosen.cross.all_identical
    assert len(result.chosen.exposed_lengths) == 3
    assert result.chosen.warm_speed.prompt_tokens_s > 0
    by_label = {trial.configuration.label: trial for trial in result.trials}
    # One token at a time passes through the same kernels in a prompt as in an answer, on any machine.
    assert by_label["ubatch=1"].agreement is Agreement.AGREES
    assert not by_label["ubatch=1"].cold_moved.all_identical
    for label, kept in (("ubatch=1", 1), ("ubatch=32", 32)):
        with TraceReader.open(by_label[label].file) as opened:
            assert {arm.engine.ubatch_tokens for arm in opened.arms} == {kept}
