"""Hostile wire inputs about the numbers: shapes, stand-ins, placeholders, strings, alignment."""

import json

import numpy as np
import pytest

from tests.tracer.engines.http.wire_bodies import captured, chat, entry, native, only, parse
from tracer.columns import PositionFlag, margins
from tracer.engines.http.local_ids import FIRST_LOCAL_ID
from tracer.episode import Identity, Scale, StopReason


def has(flags: np.ndarray, flag: PositionFlag) -> list[bool]:
    return [bool(value & flag) for value in flags]


def test_native_answer_of_the_llama_server() -> None:
    choice = only(parse(captured("llama-server-0c1e570/c1.json"), top_k=3))
    assert list(choice.path.token_ids) == [504, 1296, 5574, 338, 359, 768]
    assert choice.identity is Identity.TOKEN_ID
    assert choice.scale is Scale.LOGPROB
    assert choice.stop is StopReason.LENGTH
    assert choice.alternatives is not None
    assert choice.path.chosen_values is not None
    assert choice.path.chosen_values[0] == np.float32(-1.5656594038009644)
    assert list(choice.alternatives.ids[0]) == [504, 33, 16705]
    assert choice.pieces[16705] == b"Three"
    assert not choice.not_observed


def test_20_completions_with_chat_shaped_logprobs() -> None:
    choice = only(parse(captured("llama-server-0c1e570/v1c.json"), top_k=3))
    assert list(choice.path.token_ids) == [504, 1296, 5574, 338]
    assert choice.identity is Identity.TOKEN_ID
    assert choice.alternatives is not None
    assert choice.alternatives.counts.tolist() == [3, 3, 3, 3]


def test_21_legacy_arrays_with_nulls_and_empty_ends() -> None:
    arrays = {
        "tokens": ["a", "b"],
        "token_logprobs": [None, -0.5],
        "top_logprobs": [None, {"b": -0.5, "c": -1.0}],
    }
    choice = only(parse({"choices": [{"index": 0, "text": "ab", "logprobs": arrays, "token_ids": [7, 8]}]}))
    assert has(choice.path.flags, PositionFlag.VALUE) == [False, True]
    assert "1 of 2 values were null" in choice.not_observed["chosen_values"]
    empty = {"tokens": [], "token_logprobs": [], "top_logprobs": []}
    assert len(only(parse({"choices": [{"index": 0, "text": "", "logprobs": empty}]})).path) == 0


def test_21_echoed_prompt_entries_are_no_output() -> None:
    choice = only(parse(captured("vllm-0.32.0-cpu/cmpl_echo.json"), top_k=1))
    assert list(choice.path.token_ids) == [42944, 30]


def test_22_a_map_keyed_by_text_collapses_and_has_any_order() -> None:
    arrays = {"tokens": ["\n"], "token_logprobs": [-0.8], "top_logprobs": [{"x": -2.0, "\n": -0.8}]}
    choice = only(
        parse({"choices": [{"index": 0, "text": "\n", "logprobs": arrays, "token_ids": [198]}]}, top_k=3)
    )
    assert choice.alternatives is not None
    assert choice.alternatives.counts.tolist() == [2]
    assert choice.alternatives.ids[0][0] == 198
    assert choice.alternatives.values[0].tolist() == pytest.approx([-0.8, -2.0])


@pytest.mark.parametrize("tops", [[], None])
def test_23_no_top_list_beside_a_logprob(tops: list[object] | None) -> None:
    one = entry(5, "a", -0.25, tops) if tops is not None else entry(5, "a", -0.25)
    choice = only(parse(native([5], [one]), top_k=20))
    assert choice.path.chosen_values is not None
    assert choice.path.chosen_values.tolist() == [-0.25]
    assert choice.alternatives is None
    assert "alternatives" in choice.not_observed


def test_23_logprobs_null_or_absent() -> None:
    for more in ({"logprobs": None}, {}):
        choice = only(
            parse({"choices": [{"index": 0, "message": {"content": "two words"}, **more}]}, top_k=5)
        )
        assert choice.path.chosen_values is None
        assert choice.identity is Identity.TEXT
        assert len(choice.path) == 2
        assert choice.not_observed["margins"] == "the server sent no logprobs"
        assert choice.scale is None


def test_24_a_forced_token_has_no_margin() -> None:
    one = entry(9, "yes", -18.65, [(3, "The", -0.066), (4, "A", -3.0)])
    choice = only(parse(native([9], [one]), top_k=2))
    assert has(choice.path.flags, PositionFlag.FORCED) == [True]
    assert choice.alternatives is not None
    assert np.isnan(margins(choice.alternatives, choice.path.flags)[0])
    sampled = only(parse(native([9], [one]), top_k=2, greedy=False))
    assert has(sampled.path.flags, PositionFlag.FORCED) == [False]


@pytest.mark.parametrize("stand_in", ["-9999.0", "-3.4028235e38", "null"])
def test_25_stand_ins_are_not_numbers(stand_in: str) -> None:
    body = json.dumps(native([5], [entry(5, "a", 123.5, [(5, "a", 123.5), (6, "b", -0.5)])])).replace(
        "123.5", stand_in
    )
    choice = only(parse(body.encode(), top_k=2))
    assert has(choice.path.flags, PositionFlag.VALUE) == [False]
    assert choice.path.chosen_values is None
    assert choice.alternatives is not None
    assert choice.alternatives.counts.tolist() == [1]
    assert np.isnan(margins(choice.alternatives, choice.path.flags)[0])
    assert "chosen_values" in choice.not_observed


@pytest.mark.parametrize("bare", ["NaN", "-Infinity"])
def test_25_bare_non_finite_tokens_are_read_and_kept_as_what_they_are(bare: str) -> None:
    body = json.dumps(
        native([5, 6], [entry(5, "a", 123.5, []), entry(6, "b", -1, [(6, "b", -1), (7, "c", -2)])])
    )
    choice = only(parse(body.replace("123.5", bare).encode(), top_k=2))
    assert has(choice.path.flags, PositionFlag.VALUE) == [True, True]
    assert choice.path.chosen_values is not None
    assert not np.isfinite(choice.path.chosen_values[0])
    assert choice.path.chosen_values[1] == -1.0


def test_25_minus_zero_and_integers() -> None:
    one = entry(5, "a", -0.0, [(5, "a", -0.0), (6, "b", -8)])
    choice = only(parse(native([5], [one]), top_k=2))
    assert choice.path.chosen_values is not None
    assert choice.path.chosen_values[0] == 0.0
    assert choice.alternatives is not None
    assert choice.alternatives.values[0][1] == -8.0


def test_26_probabilities_after_sampling_are_not_the_models_numbers() -> None:
    one = {
        "id": 5,
        "token": "a",
        "bytes": [97],
        "prob": 1.0,
        "top_probs": [{"id": 5, "token": "a", "prob": 1.0}],
    }
    choice = only(parse(native([5], [one]), top_k=5))
    assert list(choice.path.token_ids) == [5]
    assert choice.path.chosen_values is None
    assert choice.alternatives is None
    assert "after sampling" in choice.not_observed["margins"]


def test_27_old_form_with_probabilities_and_strings() -> None:
    old = [
        {"content": "a", "probs": [{"tok_str": "a", "prob": 0.75}, {"tok_str": "b", "prob": 0.25}]},
        {"content": "c", "probs": [{"tok_str": "c", "prob": 1.0}]},
    ]
    choice = only(parse({"content": "ac", "stop": True, "completion_probabilities": old}, top_k=2))
    assert choice.identity is Identity.TOKEN_STRING
    assert choice.path.chosen_values is not None
    assert choice.path.chosen_values[0] == pytest.approx(np.log(0.75))
    assert has(choice.path.flags, PositionFlag.VALUE) == [True, False]
    assert choice.path.token_ids.min() >= FIRST_LOCAL_ID


def test_28_odd_token_strings_keep_their_ids_apart() -> None:
    odd = [
        "",
        "\ufffd",
        "bytes:\\xf0\\x9f",
        "\\xf0\\x9f",
        "<0xE2>",
        "Ġthe",
        "▁the",
        "token_id:262",
        "same",
        "same",
    ]
    entries = [
        entry(i, token, -0.5, [(i, token, -0.5), (90 + i, token, -1.0)]) for i, token in enumerate(odd)
    ]
    entries[0]["bytes"] = []
    entries[1]["bytes"] = [239, 191, 189]
    choice = only(parse(native(list(range(10)), entries), top_k=2))
    assert list(choice.path.token_ids) == list(range(10))
    assert choice.alternatives is not None
    assert (choice.alternatives.counts == 2).all()
    assert choice.pieces[1] == b"\xef\xbf\xbd"
    assert 0 not in choice.pieces


def test_28_strings_stand_in_for_ids_where_there_are_none() -> None:
    first = only(parse(captured("vllm-0.32.0-cpu/cmpl_logprobs.json"), top_k=3))
    again = only(
        parse(captured("vllm-0.32.0-cpu/cmpl_n2.json").replace(b'"index": 1', b'"index": 0'), top_k=1)
    )
    assert first.identity is Identity.TOKEN_STRING
    assert first.path.token_ids[0] == again.path.token_ids[0]
    assert first.pieces[int(first.path.token_ids[0])] == b" Lisbon"
    assert (
        only(parse(chat(entry(None, "bytes:\\xf0\\x9f", -1.0, bytes=None)))).pieces.popitem()[1]
        == b"\xf0\x9f"
    )


def test_28_token_id_strings_are_ids_and_not_spelled_bytes() -> None:
    choice = only(parse(captured("vllm-0.32.0-cpu/chat_logprobs_idstr.json"), top_k=2))
    assert list(choice.path.token_ids) == [33, 30, 3950, 42]
    assert choice.alternatives is not None
    assert list(choice.alternatives.ids[0]) == [33, 504]
    assert choice.pieces[3950] == b" Red"
    assert 504 not in choice.pieces


def test_29_bytes_null_or_absent() -> None:
    without = entry(None, "é", -0.5)
    del without["bytes"]
    choice = only(parse(chat(entry(None, "é", -0.5, bytes=None), without)))
    assert choice.path.token_ids[0] == choice.path.token_ids[1]
    assert choice.pieces[int(choice.path.token_ids[0])] == "é".encode()


def test_30_a_stop_words_entries_are_trimmed() -> None:
    entries = [entry(i, chr(97 + i), -0.5, [(i, chr(97 + i), -0.5), (50, "z", -2)]) for i in range(6)]
    choice = only(parse(native(list(range(8)), entries, stop_type="word", stopping_word="gh"), top_k=2))
    assert len(choice.path) == 8
    assert has(choice.path.flags, PositionFlag.VALUE) == [True] * 6 + [False] * 2
    assert "last 2 of 8 tokens" in choice.not_observed["chosen_values"]
    assert choice.alternatives is not None
    assert choice.alternatives.counts.tolist() == [2] * 6 + [0] * 2
    assert choice.stop is StopReason.STOP


def test_30_entries_missing_in_the_middle_do_not_shift_the_rest() -> None:
    entries = [entry(i, str(i), -float(i)) for i in (10, 12, 13)]
    choice = only(parse(native([10, 11, 12, 13], entries), top_k=0))
    assert choice.path.chosen_values is not None
    assert has(choice.path.flags, PositionFlag.VALUE) == [True, False, True, True]
    assert choice.path.chosen_values[[0, 2, 3]].tolist() == [-10, -12, -13]


def test_31_one_entry_for_two_tokens_is_merged() -> None:
    pieces = {1: b"Hel", 2: b"lo", 3: b"!"}
    entries = [entry(None, "Hello", -0.5), entry(None, "!", -0.25)]
    choice = only(parse(native([1, 2, 3], entries), top_k=0, piece=pieces.get))
    assert has(choice.path.flags, PositionFlag.MERGED) == [True, True, False]
    assert has(choice.path.flags, PositionFlag.VALUE) == [False, False, True]
    assert "share one entry" in choice.not_observed["chosen_values"]
    by_id = [entry(77, "Hello", -0.5), entry(3, "!", -0.25)]
    merged = only(parse(native([1, 2, 3], by_id), top_k=0, piece=pieces.get))
    assert has(merged.path.flags, PositionFlag.MERGED) == [True, True, False]


def test_31_a_drafted_tokens_placeholder_has_no_numbers() -> None:
    entries = [entry(1, "a", -0.5, [(1, "a", -0.5), (2, "b", -1)]), entry(3, "c", 0.0, [])]
    choice = only(parse(native([1, 3], entries), top_k=2))
    assert has(choice.path.flags, PositionFlag.VALUE) == [True, False]
    assert "placeholder" in choice.not_observed["margins"]


def test_32_reasoning_tokens_are_in_the_numbers_but_not_in_the_content() -> None:
    body = chat(entry(1, "hm", -0.5), entry(2, "4", -0.25), text="4")
    body["choices"][0]["message"] |= {
        "reasoning_content": "hm",
        "tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}],
    }
    choice = only(parse(body))
    assert list(choice.path.token_ids) == [1, 2]
    assert (choice.text, choice.reasoning) == ("4", "hm")
    assert choice.tool_calls == ({"name": "f", "arguments": "{}"},)


def test_33_token_ids_null_or_short_and_prompt_ids() -> None:
    answer = parse(captured("vllm-0.32.0-cpu/chat_logprobs_idstr.json"))
    assert answer.prompt_ids is not None
    assert len(answer.prompt_ids) == 34
    short = {"index": 0, "message": {"content": "ab"}, "token_ids": [5], "prompt_token_ids": [None, 4]}
    odd = parse({"choices": [short], "usage": {"prompt_tokens": 2, "completion_tokens": 2}})
    assert list(only(odd).path.token_ids) == [5]
    assert odd.prompt_ids is None


def test_34_an_unset_seed_is_not_a_seed() -> None:
    assert "seed" not in parse(captured("llama-server-0c1e570/c5_after_erase.json")).effective_sampling
    assert parse(captured("llama-server-0c1e570/c1.json")).effective_sampling["seed"] == 42


def test_35_a_full_context_is_told() -> None:
    answer = parse(native([1], [entry(1, "a", -1.0)], truncated=True, stop_type="limit"))
    assert answer.truncated
    assert only(answer).stop is StopReason.LENGTH


def test_41_the_same_id_over_and_over_without_numbers() -> None:
    choice = only(parse(native([0] * 64, [entry(0, "!", None, []) for _ in range(64)]), top_k=20))
    assert len(choice.path) == 64
    assert choice.path.chosen_values is None
    assert "64 of 64 values were null" in choice.not_observed["chosen_values"]


def test_raw_logits_in_the_logprob_fields_are_called_logits() -> None:
    assert only(parse(captured("vllm-0.32.0-cpu/E_rawlogits.json"), top_k=3)).scale is Scale.LOGIT
    assert (
        only(parse(captured("vllm-0.32.0-cpu/E_inference_generate_skip.json"), top_k=1)).scale is Scale.LOGIT
    )


def test_every_alternative_with_the_chosen_id_is_one_alternative() -> None:
    one = entry(5, "a", -0.5, [(5, "a", -0.5), (5, "a", -1.0), (5, "a", -2.0)])
    choice = only(parse(native([5], [one]), top_k=3))
    assert choice.alternatives is not None
    assert choice.alternatives.counts.tolist() == [1]


def test_certainty_left_over_by_truncation_is_not_a_number() -> None:
    one = entry(5, "a", 0.0, [(5, "a", 0.0), (6, "b", -3.4028235e38)])
    choice = only(parse(native([5], [one]), top_k=2))
    assert has(choice.path.flags, PositionFlag.VALUE) == [False]


def test_sglang_native() -> None:
    meta = {
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "cached_tokens": 6,
        "finish_reason": {"type": "length", "length": 2},
        "output_token_logprobs": [[-0.5, 11, None], [-3.4028234663852886e38, 12, "x"]],
        "output_top_logprobs": [[[-0.5, 11, None], [-0.75, 13, None]], None],
    }
    answer = parse({"text": "ab", "output_ids": [11, 12], "meta_info": meta}, top_k=2)
    choice = only(answer)
    assert list(choice.path.token_ids) == [11, 12]
    assert has(choice.path.flags, PositionFlag.VALUE) == [True, False]
    assert choice.alternatives is not None
    assert choice.alternatives.counts.tolist() == [2, 0]
    assert (answer.count.prompt_tokens, answer.count.cached_tokens) == (7, 6)
    assert choice.stop is StopReason.LENGTH
