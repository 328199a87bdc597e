"""Hostile wire inputs 1 to 8 and others about counts: a number, zero, or not observed."""

import pytest

from tests.tracer.engines.http.wire_bodies import captured, chat, events, native, only, parse, stream
from tracer.episode import ExposureSource


def test_01_null_details_on_a_warm_request_are_not_observed() -> None:
    count = parse(captured("vllm-0.32.0-cpu/B_cache_warm.json")).count
    assert count.cached_tokens is None
    assert count.source is ExposureSource.NOT_OBSERVED
    assert count.prompt_tokens == 756


def test_01_and_a_number_is_a_number_and_zero_is_zero() -> None:
    assert parse(captured("vllm-0.32.0-cpu/cache_warm.json")).count.cached_tokens == 640
    assert parse(captured("vllm-0.32.0-cpu/cache_after_reset.json")).count.cached_tokens == 0
    assert parse(captured("vllm-0.32.0-cpu/cache_warm.json")).count.source is ExposureSource.USAGE


def test_02_sglang_details_only_on_warm() -> None:
    warm = parse(
        chat(
            usage={"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 8}}
        )
    )
    cold = parse(chat(usage={"prompt_tokens": 9, "completion_tokens": 1}))
    assert warm.count.cached_tokens == 8
    assert cold.count.cached_tokens is None


def test_03_the_responses_route_sends_a_constant_zero() -> None:
    count = parse(captured("vllm-0.32.0-cpu/responses.json")).count
    assert count.cached_tokens is None
    assert count.note is not None
    assert "responses" in count.note


def test_04_more_cached_than_prompt_is_kept_and_noted() -> None:
    usage = {"prompt_tokens": 126, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 128}}
    count = parse(chat(usage=usage)).count
    assert (count.prompt_tokens, count.cached_tokens) == (126, 128)
    assert count.note is not None
    assert "128 cached of only 126" in count.note


@pytest.mark.parametrize(
    ("counts", "prompt", "cached"),
    [
        ({}, None, None),
        ({"prompt_eval_count": 0}, None, None),
        ({"prompt_eval_count": 31}, 31, None),
        ({"prompt_eval_count": 31, "prompt_eval_cached_count": 30}, 31, 30),
    ],
)
def test_05_ollama_counts(counts: dict[str, int], prompt: int | None, cached: int | None) -> None:
    body = {"model": "m", "response": "hi", "done": True, "done_reason": "stop", "eval_count": 1, **counts}
    answer = parse(body)
    assert answer.count.prompt_tokens == prompt
    assert answer.count.cached_tokens == cached
    assert only(answer).text == "hi"


def test_06_anthropic_shape_adds_what_was_read_from_the_cache() -> None:
    body = {
        "type": "message",
        "content": [{"type": "text", "text": "hello"}],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 12, "output_tokens": 4, "cache_read_input_tokens": 30},
    }
    answer = parse(body)
    assert (answer.count.prompt_tokens, answer.count.cached_tokens) == (42, 30)
    assert only(answer).text == "hello"
    assert answer.completion_tokens == 4


def test_07_what_the_slot_holds_afterwards_is_not_exposure() -> None:
    answer = parse(captured("llama-server-0c1e570/c1.json"), top_k=3)
    assert b'"tokens_cached":46' in captured("llama-server-0c1e570/c1.json")
    assert (answer.count.prompt_tokens, answer.count.cached_tokens) == (41, 0)
    assert answer.count.source is ExposureSource.ENGINE
    assert parse(native([1], [], tokens_cached=135, tokens_evaluated=88)).count.cached_tokens is None


def test_07_timings_and_usage_agree_or_the_difference_is_told() -> None:
    agreeing = parse(captured("llama-server-0c1e570/chat.json")).count
    assert (agreeing.cached_tokens, agreeing.note) == (7, None)
    usage = {"prompt_tokens": 34, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}}
    odd = parse(chat(usage=usage, timings={"cache_n": 7, "prompt_n": 27})).count
    assert odd.cached_tokens == 7
    assert odd.note is not None
    assert "usage says 9" in odd.note


def test_08_three_integers_and_nothing_else() -> None:
    count = parse(chat(usage={"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7})).count
    assert (count.prompt_tokens, count.cached_tokens, count.source) == (5, None, ExposureSource.NOT_OBSERVED)


def test_09_usage_in_a_chunk_without_choices() -> None:
    answer = stream(captured("llama-server-0c1e570/chat.sse"), top_k=2)
    assert answer.count.cached_tokens == 33
    assert answer.completion_tokens == 3
    without_done = captured("llama-server-0c1e570/chat.sse").replace(b"data: [DONE]\n\n", b"")
    assert stream(without_done, top_k=2).count.cached_tokens == 33
    assert stream(without_done, top_k=2).error is None


def test_10_usage_on_every_chunk_is_not_summed() -> None:
    answer = stream(captured("vllm-0.32.0-cpu/cmpl_stream_cont_usage.json"))
    assert answer.completion_tokens == 3
    assert answer.count.prompt_tokens == 33
    first = {
        "choices": [{"index": 0, "delta": {"content": ""}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 0},
    }
    later = {
        "choices": [{"index": 0, "delta": {"content": "x"}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1},
    }
    assert stream(events(first, later)).completion_tokens == 1


def test_44_ollama_context_ids_are_not_taken_for_output() -> None:
    body = {"response": "hi", "done": True, "context": [1, 2, 3, 4]}
    choice = only(parse(body))
    assert choice.text == "hi"
    assert len(choice.path) == 1
    assert only(parse({"response": "hi", "done": True})).text == "hi"
