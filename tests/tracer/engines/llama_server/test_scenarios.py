"""Scenarios S1 to S6: what real setups do, reproduced on the real server."""

from pathlib import Path

import pytest

from tests.tracer.engines.conftest import OpenServer
from tests.tracer.engines.llama_server.prompts import (
    QUESTIONS,
    ask,
    chatml,
    first_flip,
    identical,
    largest_drift,
    margin_at,
    tokens,
)
from tracer.engines.base import GenerateCall
from tracer.episode import Message, Sampling

pytestmark = pytest.mark.llama_server


def test_s1_cold_repeats_warm_repeats_and_the_two_differ(open_server: OpenServer) -> None:
    engine = open_server()
    engine.set_layers(prefix_cache=True, prompt_cache=False)
    flips = 0
    for question in QUESTIONS[:6]:
        ids = engine.tokenize(chatml(question))
        cold, cold_again = (ask(engine, ids, 32, cached=False) for _ in range(2))
        warm, warm_again = (ask(engine, ids, 32) for _ in range(2))
        assert (cold.cached_tokens, warm.cached_tokens) == (0, len(ids) - 1)
        assert identical(cold, cold_again)
        assert identical(warm, warm_again)
        assert not identical(cold, warm)
        position = first_flip(cold, warm)
        if position is not None:
            flips += 1
            assert margin_at(cold, position) < 1.0
    assert flips >= 1


def test_s2_a_restored_state_is_the_warm_one(open_server: OpenServer) -> None:
    engine = open_server()
    engine.set_layers(prefix_cache=True, prompt_cache=False)
    first = engine.tokenize(chatml(QUESTIONS[3], 3))
    answer = ask(engine, first, 24)
    state = engine.save_state()
    second = [*first, *tokens(answer), *engine.tokenize("<|im_end|>\n<|im_start|>user\nShorter.<|im_end|>\n")]
    warm = ask(engine, second, 16)
    cold = ask(engine, second, 16, cached=False)
    engine.reset()
    engine.restore_state(state)
    restored = ask(engine, second, 16)
    assert warm.cached_tokens == restored.cached_tokens == len(state.token_ids)
    assert cold.cached_tokens == 0
    assert identical(warm, restored)
    assert not identical(cold, restored)
    assert largest_drift(cold, restored) > 0


def test_s3_the_order_of_requests_changes_a_request(open_server: OpenServer) -> None:
    engine = open_server()
    engine.set_layers(prefix_cache=True, prompt_cache=False)
    prompts = [engine.tokenize(chatml(question, 3)) for question in QUESTIONS[:3]]

    def in_order(order: tuple[int, ...]) -> dict[int, object]:
        engine.reset()
        return {item: ask(engine, prompts[item], 12) for item in order}

    forward, again, reverse = in_order((0, 1, 2)), in_order((0, 1, 2)), in_order((2, 1, 0))
    assert all(identical(forward[item], again[item]) for item in range(3))  # type: ignore[arg-type]
    assert not all(identical(forward[item], reverse[item]) for item in range(3))  # type: ignore[arg-type]
    assert forward[0].cached_tokens == 0  # type: ignore[attr-defined]
    assert reverse[0].cached_tokens > 0  # type: ignore[attr-defined]


def test_s4_the_second_layer_makes_a_later_repeat_differ(open_server: OpenServer) -> None:
    engine = open_server()
    one = engine.tokenize(chatml(QUESTIONS[0], 3))
    other = engine.tokenize("The following is a totally different text about ships. " * 8)

    def pass_over() -> list[tuple[int | None, int | None]]:
        engine.reset()
        answers = [ask(engine, prompt, 12) for prompt in (one, other, one, other)]
        return [(answer.cached_tokens, answer.prompt_cache_tokens) for answer in answers]

    engine.set_layers(prefix_cache=True, prompt_cache=True)
    assert engine.info.prompt_cache_bytes
    with_layer = pass_over()
    engine.set_layers(prefix_cache=True, prompt_cache=False)
    assert engine.info.prompt_cache_bytes == 0
    without_layer = pass_over()
    assert with_layer[2:] == [(len(one) - 1, len(one) - 1), (len(other) - 1, len(other) - 1)]
    assert without_layer == [(0, 0)] * 4


def test_s5_a_clock_in_the_template_breaks_the_prefix(open_server: OpenServer, tmp_path: Path) -> None:
    template = tmp_path / "clock.jinja"
    template.write_text(
        "<|im_start|>system\nThe time is {{ strftime_now('%H:%M:%S') }}. Answer briefly.<|im_end|>\n"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n"
    )
    engine = open_server(server_args=("--jinja", "--chat-template-file", str(template)))
    engine.set_layers(prefix_cache=True, prompt_cache=False)
    message = Message(role="user", content=QUESTIONS[1] * 4)
    first = engine.render([message])
    later = first
    while later == first:
        later = engine.render([message])
    first_ids, later_ids = engine.tokenize(first), engine.tokenize(later)
    ask(engine, first_ids, 2)
    broken = ask(engine, later_ids, 2)
    same = ask(engine, later_ids, 2)
    assert same.cached_tokens == len(later_ids) - 1
    assert broken.cached_tokens is not None
    assert broken.cached_tokens < 20 < len(later_ids) - 1


def test_s6_generated_ids_do_not_survive_a_text_round_trip(open_server: OpenServer) -> None:
    engine = open_server()
    engine.set_layers(prefix_cache=True, prompt_cache=False)
    prompt = engine.tokenize(chatml(QUESTIONS[4], 3))
    grammar = 'root ::= "yesterday" " everything"'
    sampling = Sampling(max_new_tokens=24, extra={"grammar": grammar})
    answer = engine.generate(GenerateCall(tuple(prompt), sampling, top_k=5))
    generated = [token for token in tokens(answer) if engine.piece(token) != b"<|im_end|>"]
    again = engine.tokenize(answer.text)
    assert answer.text == "yesterday everything"
    assert generated != again
    # The tokens that the grammar forced have no margin.
    from tracer.columns import PositionFlag

    assert (answer.path.flags & PositionFlag.FORCED).any()
    resent = ask(engine, [*prompt, *again, *engine.tokenize(" and more")], 2)
    mismatch = next(i for i, (a, b) in enumerate(zip(generated, again, strict=False)) if a != b)
    assert resent.cached_tokens == len(prompt) + mismatch
