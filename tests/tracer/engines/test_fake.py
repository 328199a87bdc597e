"""FakeEngine: exact accounting, history that shows in the numbers, scripted answers and faults."""

import json

import numpy as np
import pytest

from tracer.columns import PositionFlag, margins
from tracer.engines import registry
from tracer.engines.base import Engine, GenerateCall, Generation
from tracer.engines.choice import EngineChoice
from tracer.engines.fake import FakeAnswer, FakeEngine, FakeFault, FakeScript
from tracer.engines.registry import open_engine
from tracer.episode import ExposureSource, Message, Sampling, Scale, StopReason
from tracer.errors import EngineDied, EngineError, EngineMissing, PromptTooLong, StateRefused, UsageError


def ask(engine: FakeEngine, ids: tuple[int, ...], n: int = 16, **more: object) -> Generation:
    return engine.generate(GenerateCall(prompt_ids=ids, sampling=Sampling(max_new_tokens=n), **more))


def prompt(engine: FakeEngine, text: str) -> tuple[int, ...]:
    return tuple(engine.tokenize(engine.render([Message(role="user", content=text)])))


def same_rows(one: Generation, other: Generation) -> bool:
    return np.array_equal(one.path.fingerprints, other.path.fingerprints)


A = "Explain why the sky is blue, in short sentences, and be careful. " * 3
B = "The following is a totally different text about ships. " * 4


def test_keeps_the_protocol_and_opens_by_name(tmp_path):
    assert isinstance(FakeEngine(), Engine)
    script = tmp_path / "script.json"
    script.write_text(
        json.dumps({"seed": 7, "answers": [{"after": "sky", "text": "air", "near_ties": {"1": 0.01}}]})
    )
    engine = open_engine(EngineChoice(engine="fake", fake_script=str(script), context_tokens=999))
    assert engine.info.context_tokens == 999
    assert ask(engine, prompt(engine, "sky?")).text == "air"


def test_an_engine_without_adapter_is_one_sentence(monkeypatch):
    monkeypatch.setitem(registry._OPENERS, "sglang", ("tracer.engines.not_there_yet", "open"))
    with pytest.raises(EngineMissing, match="'sglang'"):
        open_engine(EngineChoice(engine="sglang"))


@pytest.mark.parametrize("text", ['{"seed": "x"}', '{"nonsense": 1}', '{"faults": [{"kind": "odd"}]}', "{"])
def test_a_wrong_script_is_one_sentence(tmp_path, text):
    path = tmp_path / "script.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="script"):
        open_engine(EngineChoice(engine="fake", fake_script=str(path)))


@pytest.mark.parametrize(
    "text", ["", "plain", "naïve — 日本 \x00\x1b[31m", "<|user|>hello there<|end|>", "th the"]
)
def test_tokens_give_the_text_back(text):
    engine = FakeEngine()
    assert b"".join(engine.piece(i) for i in engine.tokenize(text)).decode() == text


def test_second_layer_counted_as_the_server_counts():
    exposures = {}
    for on in (True, False):
        engine = FakeEngine()
        engine.set_layers(prefix_cache=True, prompt_cache=on)
        a, b = prompt(engine, A), prompt(engine, B)
        exposures[on] = [ask(engine, ids).cached_tokens for ids in (a, a, b, a, b)]
    shared = 1  # both begin with the mark of the user's turn
    assert exposures[True] == [0, len(a) - 1, shared, len(a) - 1, len(b) - 1]
    assert exposures[False] == [0, len(a) - 1, shared, shared, shared]


def test_second_layer_forgets_the_oldest_when_it_is_full():
    engine = FakeEngine(FakeScript(prompt_cache_mib=1, state_bytes_per_token=9000))
    engine.set_layers(prefix_cache=True, prompt_cache=True)
    texts = [prompt(engine, letter * 60) for letter in "abcde"]
    for ids in (*texts, texts[0]):
        last = ask(engine, ids, n=2)
    assert last.cached_tokens == 1


def test_cold_and_warm_repeat_themselves_and_differ_from_each_other():
    engine = FakeEngine()
    first = prompt(engine, A)
    answers = {}
    for cached in (False, True, False, True):
        engine.reset()
        one = ask(engine, first)
        follow = first + tuple(one.path.token_ids.tolist()) + prompt(engine, "and then?")
        answers.setdefault(cached, []).append(ask(engine, follow, use_cache=cached))
    assert same_rows(*answers[False])
    assert same_rows(*answers[True])
    assert not same_rows(answers[False][0], answers[True][0])
    assert answers[False][0].cached_tokens == 0
    assert answers[True][0].cached_tokens == len(first) + 15


def test_without_disturbance_cold_equals_warm():
    engine = FakeEngine(FakeScript(disturbance=0.0))
    ids = prompt(engine, A)
    assert same_rows(ask(engine, ids), ask(engine, ids))


def test_some_flips_happen_and_most_positions_agree():
    engine = FakeEngine(FakeScript(disturbance=0.05))
    flips = 0
    for number in range(20):
        ids = prompt(engine, f"question {number} " * 5)
        cold = ask(engine, ids, use_cache=False)
        warm = ask(engine, ids)
        flips += cold.path.token_ids.tolist() != warm.path.token_ids.tolist()
    assert 2 <= flips <= 18


def test_restored_equals_warm_and_prompt_only_does_not():
    engine = FakeEngine()
    first = prompt(engine, A)
    one = ask(engine, first)
    met = engine.save_state()
    follow = first + tuple(one.path.token_ids.tolist()) + prompt(engine, "go on")
    warm = ask(engine, follow)
    engine.restore_state(met)
    assert engine.held_ids() == met.token_ids
    assert same_rows(warm, ask(engine, follow))
    engine.restore_state(met)
    engine.cut(len(first))
    shorter = ask(engine, follow)
    assert shorter.cached_tokens == len(first)
    assert not same_rows(warm, shorter)


def test_lockstep_state_equals_the_state_that_generating_leaves():
    engine = FakeEngine()
    first = prompt(engine, A)
    one = ask(engine, first)
    follow = first + tuple(one.path.token_ids.tolist()) + prompt(engine, "go on")
    warm = ask(engine, follow)
    engine.reset()
    ask(engine, first, n=3)
    engine.cut(len(first))
    engine.decode_into_cache(one.path.token_ids.tolist()[:-1])
    assert same_rows(warm, ask(engine, follow))


def test_forced_decode_of_the_own_answer_gives_the_same_rows():
    engine = FakeEngine()
    ids = prompt(engine, A)
    own = ask(engine, ids, use_cache=False)
    forced = ask(engine, ids, use_cache=False, forced_ids=tuple(own.path.token_ids.tolist()))
    assert same_rows(own, forced)
    assert forced.path.token_ids.tolist() == own.path.token_ids.tolist()
    assert not (forced.path.flags & PositionFlag.FORCED).any()


def test_blocks_are_reused_whole():
    engine = FakeEngine(FakeScript(block_tokens=16))
    ids = prompt(engine, A)
    ask(engine, ids)
    assert ask(engine, ids).cached_tokens == (len(ids) - 1) // 16 * 16


def test_scripted_answer_with_a_near_tie_and_the_end_token():
    script = FakeScript(
        disturbance=0.0, answers=(FakeAnswer(after="sky", text="Air.", near_ties={2: 0.001}),)
    )
    engine = FakeEngine(script)
    answer = ask(engine, prompt(engine, "sky"))
    assert answer.text == "Air."
    assert answer.stop is StopReason.STOP
    assert engine.piece(int(answer.path.token_ids[-1])) == b"<|end|>"
    gaps = margins(answer.alternatives, answer.path.flags)
    assert gaps[2] == pytest.approx(0.001, abs=1e-5)
    assert gaps[1] > 1


def test_the_answer_to_what_came_last_is_chosen():
    engine = FakeEngine(
        FakeScript(answers=(FakeAnswer(after="one", text="1"), FakeAnswer(after="two", text="2")))
    )
    assert ask(engine, prompt(engine, "one two")).text == "2"
    assert ask(engine, prompt(engine, "two one")).text == "1"


def test_faults():
    faults = (
        FakeFault(kind="error", request=0),
        FakeFault(kind="nan-row", request=1, position=3),
        FakeFault(kind="uncounted", request=2),
        FakeFault(kind="lies", request=3, by=5),
        FakeFault(kind="leaks", request=4),
        FakeFault(kind="dies", request=5),
    )
    engine = FakeEngine(FakeScript(faults=faults))
    ids = prompt(engine, A)
    with pytest.raises(EngineError, match="error"):
        ask(engine, ids)
    assert np.flatnonzero(np.isnan(ask(engine, ids).path.log_sum_exp)).tolist() == [3]
    uncounted = ask(engine, ids)
    assert uncounted.cached_tokens is None
    assert uncounted.exposure_source is ExposureSource.NOT_OBSERVED
    assert ask(engine, ids).cached_tokens == len(ids) - 1 + 5
    assert ask(engine, ids, use_cache=False).cached_tokens == len(ids) - 1
    for _ in range(2):
        with pytest.raises(EngineDied):
            ask(engine, ids)


def test_what_it_lacks_is_absent_and_says_why():
    script = FakeScript(
        scale=Scale.LOGPROB, without=("full_row", "cached_tokens", "snapshot", "forced_decode")
    )
    engine = FakeEngine(script)
    answer = ask(engine, prompt(engine, A))
    assert answer.scale is Scale.LOGPROB
    assert answer.path.log_sum_exp is None
    assert answer.path.fingerprints is None
    assert set(answer.not_observed) == {"log_sum_exp", "fingerprints"}
    assert (answer.path.chosen_values <= 0).all()
    assert np.array_equal(answer.path.chosen_values, answer.alternatives.values[:, 0])
    with pytest.raises(StateRefused):
        engine.save_state()
    with pytest.raises(StateRefused):
        engine.decode_into_cache([1])
    bare = FakeEngine(FakeScript(without=("top_k", "chosen_logprob")))
    nothing = ask(bare, prompt(bare, A))
    assert nothing.alternatives is None
    assert nothing.path.chosen_values is None
    assert nothing.scale is None


def test_a_prompt_that_does_not_fit_is_refused():
    engine = FakeEngine(FakeScript(context_tokens=50))
    with pytest.raises(PromptTooLong, match="50 tokens"):
        ask(engine, prompt(engine, A))
