"""A bisect on the real engine in process (SmolLM2 Q4_1, CPU) names a setting and verifies it."""

import pytest

from replay.bisect.outcome import Agreement, Found
from replay.bisect.search import BisectOptions, bisect_trace
from tests.replay.conftest import chat, record
from tracer.engines.choice import EngineChoice
from tracer.engines.registry import open_engine
from tracer.episode import Sampling

pytestmark = pytest.mark.llama

QUESTIONS = ("Describe how bread is made.", "List three uses of copper.", "Explain why the sky is blue.")


def test_a_setting_is_named_and_verified_on_several_prompt_lengths(tmp_path, smollm2):
    choice = EngineChoice(engine="llama", model=str(smollm2))
    trace = tmp_path / "talk.msgpack"
    engine = open_engine(choice)
    try:
        record(trace, engine, chat(QUESTIONS), sampling=Sampling(max_new_tokens=16))
    finally:
        engine.close()
    options = BisectOptions(candidates=("ubatch=1", "threads=1", "kv-type=q8_0"), most_pairs=0)
    result = bisect_trace(trace, choice, tmp_path / "arms", options)

    assert result.default.agreement in (Agreement.DRIFTS, Agreement.FLIPS)
    assert result.default.repeats_itself
    assert result.found is Found.SETTING
    assert result.chosen.configuration.label == "ubatch=1"
    assert result.chosen.verified
    assert result.chosen.cross.all_identical
    assert len(result.chosen.exposed_lengths) == 2
    assert result.chosen.cold_moved.identical < result.chosen.cold_moved.requests
    assert result.chosen.warm_speed.prompt_tokens_s > 0
