"""The engine ``llama`` on the real model: exposures, repeatability, states, refusals."""

import subprocess
import sys

import numpy as np
import pytest

from tracer.capture import CaptureMode
from tracer.engines.base import Engine, GenerateCall, Generation
from tracer.engines.choice import EngineChoice
from tracer.engines.llama.engine import LlamaEngine
from tracer.engines.registry import open_engine
from tracer.episode import ExposureSource, Message, Sampling, Scale, StopReason
from tracer.errors import EngineError, EngineMissing, PromptTooLong, StateRefused, UsageError

pytestmark = pytest.mark.llama

SYSTEM = "You are a careful assistant that answers in short sentences. "
SHIPS = "The following is a totally different text about ships. "


def ask(engine, ids, n=12, **more) -> Generation:
    return engine.generate(GenerateCall(prompt_ids=tuple(ids), sampling=Sampling(max_new_tokens=n), **more))


def chat(engine, question, system=SYSTEM * 3):
    messages = [Message(role="system", content=system), Message(role="user", content=question)]
    return tuple(engine.tokenize(engine.render(messages)))


def out(answer):
    return tuple(answer.path.token_ids.tolist())


def same_rows(one, other):
    return np.array_equal(one.path.fingerprints, other.path.fingerprints)


def test_facts_of_the_engine(llama_engine):
    assert isinstance(llama_engine, Engine)
    info = llama_engine.info
    assert (info.engine, info.version, info.weight_format) == ("llama", "0.3.36", "Q4_1")
    assert info.model_hash == "sha256:b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert (info.architecture, info.vocabulary_tokens) == ("llama", 49152)
    assert info.context_tokens == 4096
    assert info.prompt_cache_bytes == 0
    llama_engine.set_layers(prefix_cache=True, prompt_cache=True)
    assert llama_engine.info.prompt_cache_bytes == 8192 << 20


def test_what_auto_became_is_observed_and_is_so(smollm2):
    """The numbers of auto are those of the setting that the library says it chose, and of no other."""
    said, answers = {}, {}
    for asked in ("auto", "on", "off"):
        engine = open_engine(EngineChoice(model=str(smollm2), context_tokens=512, flash_attention=asked))
        assert engine.info.flash_attention == asked
        said[asked] = engine.info.flags["flash_attention_resolved"]
        answers[asked] = ask(engine, chat(engine, "Why is the sky blue?"))
        engine.close()
    assert said == {"auto": "enabled", "on": "enabled", "off": "disabled"}
    assert same_rows(answers["auto"], answers["on"])
    assert not same_rows(answers["auto"], answers["off"])


def test_a_quantized_cache_turns_auto_into_on(smollm2):
    engine = open_engine(EngineChoice(model=str(smollm2), context_tokens=512, kv_type="q8_0"))
    assert engine.info.flags["flash_attention_resolved"] == "enabled"
    engine.close()


def test_second_layer_counted(llama_engine):
    exposures = {}
    for on in (True, False):
        llama_engine.reset()
        llama_engine.set_layers(prefix_cache=True, prompt_cache=on)
        a = chat(llama_engine, "Explain why the sky is blue.")
        b = tuple(llama_engine.tokenize(SHIPS * 8))
        answers = [ask(llama_engine, ids) for ids in (a, a, b, a, b)]
        exposures[on] = [(g.cached_tokens, g.prompt_tokens - g.cached_tokens) for g in answers]
        assert all(g.exposure_source is ExposureSource.ENGINE for g in answers)
        brought = [g.prompt_cache_tokens for g in answers]
        assert brought == ([0, 0, 0, len(a) - 1, len(b) - 1] if on else [0] * 5)
    n, m = len(a), len(b)
    assert (n, m) == (55, 81) or n > 50
    assert exposures[True] == [(0, n), (n - 1, 1), (0, m), (n - 1, 1), (m - 1, 1)]
    assert exposures[False] == [(0, n), (n - 1, 1), (0, m), (0, n), (0, m)]


def test_second_layer_keeps_within_its_size(smollm2):
    engine = open_engine(EngineChoice(model=str(smollm2), prompt_cache_mib=2, context_tokens=512))
    engine.set_layers(prefix_cache=True, prompt_cache=True)
    prompts = [engine.tokenize(word * 60) for word in (" sea", " tree", " stone")]
    for ids in (*prompts, prompts[0]):
        last = ask(engine, ids, n=2)
    assert last.cached_tokens == 0, "one state of 60 tokens fits into 2 MiB, two do not"
    engine.close()


def test_cold_and_warm_repeat_themselves_and_drift_apart(llama_engine):
    first = chat(llama_engine, "Explain why the sky is blue.", SYSTEM * 6)
    colds = [ask(llama_engine, first, use_cache=False) for _ in range(2)]
    follow = first + out(colds[0]) + tuple(llama_engine.tokenize("\n<|im_start|>user\nGo on.<|im_end|>\n"))
    warms, follows = [], []
    for _ in range(2):
        llama_engine.reset()
        warms.append(ask(llama_engine, first))
        follows.append(ask(llama_engine, follow))
    again = ask(llama_engine, follow, use_cache=False)
    assert same_rows(*colds)
    assert same_rows(colds[0], warms[0]), "nothing is cached yet at the first warm request"
    assert same_rows(*follows)
    assert follows[0].cached_tokens == len(first) + 11
    assert again.cached_tokens == 0
    assert not same_rows(follows[0], again)
    assert colds[0].scale is Scale.LOGIT


def test_restored_equals_warm_and_cut_is_another_state(llama_engine):
    first = chat(llama_engine, "List three uses of copper.")
    answer = ask(llama_engine, first)
    met = llama_engine.save_state()
    assert met.token_ids == llama_engine.held_ids() == first + out(answer)[:-1]
    assert met.size_bytes == len(met.payload)
    follow = first + out(answer) + tuple(llama_engine.tokenize("\n<|im_start|>user\nWhy?<|im_end|>\n"))
    warm = ask(llama_engine, follow)
    ask(llama_engine, llama_engine.tokenize(SHIPS * 8))
    llama_engine.restore_state(met)
    restored = ask(llama_engine, follow)
    assert same_rows(warm, restored)
    assert restored.cached_tokens == warm.cached_tokens
    llama_engine.restore_state(met)
    llama_engine.cut(len(first))
    assert llama_engine.held_ids() == first
    assert ask(llama_engine, follow).cached_tokens == len(first)


def test_lockstep_state_is_the_state_that_generating_leaves(llama_engine):
    first = chat(llama_engine, "Describe how bread is made.")
    answer = ask(llama_engine, first)
    generated = llama_engine.save_state()
    llama_engine.cut(len(first))
    llama_engine.decode_into_cache(out(answer)[:-1])
    assert llama_engine.held_ids() == generated.token_ids
    assert llama_engine.save_state().payload == generated.payload


def test_a_state_of_other_settings_never_reaches_native_code(llama_engine, smollm2):
    ask(llama_engine, chat(llama_engine, "Hello."))
    state = llama_engine.save_state()
    other = open_engine(EngineChoice(model=str(smollm2), kv_type="f32", context_tokens=512))
    with pytest.raises(StateRefused, match="other settings"):
        other.restore_state(state)
    other.close()


def test_forced_decode_of_the_own_answer(llama_engine):
    ids = chat(llama_engine, "Name the planets in order.")
    own = ask(llama_engine, ids, n=10)
    llama_engine.reset()
    forced = ask(llama_engine, ids, forced_ids=out(own))
    assert same_rows(own, forced)
    other = (*out(own)[:3], 100, *out(own)[4:])
    llama_engine.reset()
    steered = ask(llama_engine, ids, forced_ids=other)
    assert out(steered) == other
    differs = (steered.path.fingerprints != own.path.fingerprints).any(axis=1)
    assert differs.tolist() == [False] * 4 + [True] * 6
    assert steered.path.chosen_values[3] < steered.alternatives.values[3, 0]


def test_end_token_is_part_of_the_path_and_not_of_the_text(llama_engine):
    answer = ask(llama_engine, chat(llama_engine, "What is 2 + 2? Answer with one number."), n=200)
    assert answer.stop is StopReason.STOP
    assert llama_engine.piece(out(answer)[-1]) == b"<|im_end|>"
    assert "<|im_end|>" not in answer.text
    assert out(answer)[-1] not in out(answer)[:-1]


def test_long_prompts_go_in_batches_with_progress(llama_engine):
    ids = llama_engine.tokenize(SHIPS * 60)[:600]
    seen = []
    ask(llama_engine, ids, n=1, on_prompt_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(512, 600), (600, 600)]


@pytest.mark.parametrize("mode", [CaptureMode.OVERLAPPED, CaptureMode.THREAD])
def test_other_capture_modes_give_the_same_columns(llama_engine, smollm2, mode):
    ids = chat(llama_engine, "Summarise the water cycle.")
    inline = ask(llama_engine, ids, n=8, keep_rows=True)
    engine = LlamaEngine(EngineChoice(model=str(smollm2), context_tokens=4096), capture_mode=mode)
    for _ in range(2):
        engine.reset()
        other = ask(engine, ids, n=8, keep_rows=True)
        assert same_rows(inline, other)
        for name in ("token_ids", "flags", "chosen_values", "log_sum_exp"):
            assert np.array_equal(getattr(inline.path, name), getattr(other.path, name)), name
        assert np.array_equal(inline.alternatives.ids, other.alternatives.ids)
        assert np.array_equal(inline.rows, other.rows)
    engine.close()


def test_what_does_not_fit_or_is_wrong_is_one_sentence(llama_engine, smollm2):
    small = open_engine(EngineChoice(model=str(smollm2), context_tokens=256))
    with pytest.raises(PromptTooLong, match="context of 256 tokens"):
        ask(small, range(250), n=7)
    ask(small, range(250), n=6)
    small.close()
    with pytest.raises(EngineError, match="vocabulary"):
        ask(llama_engine, [49152])
    with pytest.raises(EngineError, match="empty"):
        ask(llama_engine, [])


def test_missing_and_damaged_models(tmp_path, smollm2):
    with pytest.raises(EngineMissing, match="cannot be read"):
        open_engine(EngineChoice(model=str(tmp_path / "none.gguf")))
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"PK\x03\x04" * 100)
    with pytest.raises(EngineMissing, match="not a GGUF"):
        open_engine(EngineChoice(model=str(wrong)))
    whole = smollm2.read_bytes()
    for size in (4, 30, 1000, 1_000_000, 3_000_000, 50_000_000):
        wrong.write_bytes(whole[:size])
        with pytest.raises(EngineMissing, match=r"damaged|cut off"):
            open_engine(EngineChoice(model=str(wrong)))


def test_template_renders_as_the_librarys_own(llama_engine):
    from llama_cpp.llama_chat_format import Jinja2ChatFormatter

    source = llama_engine._model.template_source
    own = Jinja2ChatFormatter(source, eos_token="<|im_end|>", bos_token="<|im_start|>")
    histories = [
        [("user", "Hi")],
        [("system", "Be brief."), ("user", "a\n b "), ("assistant", "c"), ("user", "<|im_end|> d — 日本")],
    ]
    for history in histories:
        ours = llama_engine.render([Message(role=role, content=text) for role, text in history])
        theirs = own(messages=[{"role": role, "content": text} for role, text in history]).prompt
        assert ours == theirs


def test_tokens_give_the_text_back(llama_engine):
    text = "naïve — 日本 \x1b[31m <|im_start|>user\n  spaces"
    ids = llama_engine.tokenize(text)
    assert b"".join(llama_engine.piece(token) for token in ids).decode() == text
    assert llama_engine.piece(-1) is None
    assert llama_engine.piece(49152) is None


def test_without_the_library_it_says_what_to_install():
    code = (
        "import sys; sys.modules['llama_cpp'] = None\n"
        "from tracer.engines.registry import open_engine\n"
        "from tracer.engines.choice import EngineChoice\n"
        "from tracer.errors import EngineMissing\n"
        "try: open_engine(EngineChoice())\n"
        "except EngineMissing as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install llama-cpp-python==0.3.36" in done.stdout


def test_the_library_is_loaded_before_numpy():
    code = (
        "import sys\n"
        "from tracer.engines.registry import preload\n"
        "from tracer.engines.choice import EngineChoice\n"
        "assert 'numpy' not in sys.modules\n"
        "preload(EngineChoice())\n"
        "names = list(sys.modules)\n"
        "assert 'llama_cpp' in names\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_model_without_template_is_one_sentence(llama_engine, monkeypatch):
    model = llama_engine._model
    monkeypatch.setitem(model.__dict__, "template_source", None)
    monkeypatch.delitem(model.__dict__, "template", raising=False)
    with pytest.raises(UsageError, match="no chat template"):
        llama_engine.render([Message(role="user", content="x")])
