"""Where a prompt departs from the one before plus its answer, and the guess at why."""

import pytest

from tracer.engines.fake import FakeEngine
from tracer.engines.fake_model import END, tokenize
from tracer.prefix_break import PreviousRequest, find_prefix_break

PIECE = FakeEngine().piece
SYSTEM = "<|system|>You keep the office in order. {} Be brief and polite to every client.<|end|>"
USER = "<|user|>What is on the calendar for Tuesday, and who has booked the large room?<|end|><|assistant|>"


def previous(prompt, answer="Nothing."):
    return PreviousRequest(tuple(tokenize(prompt)), (*tokenize(answer), END))


def found(before, now, answer="Nothing.", after=None):
    prompt = now if after is None else now + after
    return find_prefix_break(previous(before, answer), tokenize(prompt), PIECE)


def test_the_first_request_has_no_break():
    assert find_prefix_break(None, tokenize("Hello"), PIECE) is None


def test_a_prompt_that_only_appends_has_no_break():
    start = SYSTEM.format("") + USER
    assert found(start, start + "Nothing.<|end|><|user|>Thank you.<|end|><|assistant|>") is None


def test_position_and_loss_are_counted_in_tokens():
    before, now = SYSTEM.format("It is 10:41:07.") + USER, SYSTEM.format("It is 10:41:09.") + USER
    broken = found(before, now)
    held = tokenize(before) + tokenize("Nothing.") + [END]
    assert held[: broken.position] == tokenize(now)[: broken.position]
    assert held[broken.position] != tokenize(now)[broken.position]
    assert broken.reuse_lost_tokens == len(held) - broken.position
    assert broken.context_before.endswith("10:41:0")
    assert (broken.was[:2], broken.now[:2]) == ("7.", "9.")


@pytest.mark.parametrize(
    ("was", "now", "cause"),
    [
        ("It is 10:41:07.", "It is 10:42:00.", "clock or date"),
        ("Today is 2026-11-29.", "Today is 2026-11-30.", "clock or date"),
        ("Today is 9 October 2026.", "Today is 10 October 2026.", "clock or date"),
        ("Now: 1764412345.", "Now: 1764412399.", "clock or date"),
        (
            "Session 3f2a9c41-77d0-4e0b-9a53-0c1d2e3f4a5b.",
            "Session 9b1c8d70-12ab-4cde-8f01-23456789abcd.",
            "random id",
        ),
        ("Call id call_x8Kq2LmZ7w.", "Call id call_p3Rt9VbN1c.", "random id"),
        (
            'Tools: {"name": "calc", "args": {"a": 1, "b": 2}}.',
            'Tools: {"args": {"b": 2, "a": 1}, "name": "calc"}.',
            "key order or spacing of equal JSON",
        ),
        (
            'Tools: {"name": "calc", "args": [1, 2]}.',
            'Tools: {"name":"calc","args":[1,2]}.',
            "key order or spacing of equal JSON",
        ),
        ("Speak English only, please.", "Answer in French today, please.", "earlier text changed"),
    ],
)
def test_causes_from_what_changed_in_the_system_prompt(was, now, cause):
    assert found(SYSTEM.format(was) + USER, SYSTEM.format(now) + USER).cause == cause


def test_unequal_json_is_not_called_key_order():
    was, now = 'Tools: {"name": "calc", "n": 1}.', 'Tools: {"name": "calc", "n": 2}.'
    assert found(SYSTEM.format(was) + USER, SYSTEM.format(now) + USER).cause == "earlier text changed"


def test_equal_numbers_elsewhere_are_not_called_a_clock():
    was, now = "Open from 10:30 to noon, in the hall.", "Open from 10:30 to dusk, in the hall."
    assert found(SYSTEM.format(was) + USER, SYSTEM.format(now) + USER).cause == "earlier text changed"


def test_retokenized_answer():
    start = SYSTEM.format("") + USER
    letters = tuple(b"the rain")  # one byte a token, where the tokenizer would take pairs
    broken = find_prefix_break(
        PreviousRequest(tuple(tokenize(start)), (*letters, END)),
        tokenize(start + "the rain<|end|><|user|>Thanks.<|end|>"),
        PIECE,
    )
    assert broken.cause == "re-tokenized: the same text as other ids"
    assert broken.position == len(tokenize(start))
    assert broken.reuse_lost_tokens == len(letters) + 1


def test_stripped_reasoning():
    start = SYSTEM.format("") + USER
    answer = "<think>They ask about Tuesday.</think>Nothing."
    assert found(start, start + "Nothing.<|end|><|user|>Thanks.<|end|>", answer).cause == "stripped reasoning"


def test_another_answer_in_the_history():
    start = SYSTEM.format("") + USER
    cause = found(start, start + "A meeting at nine.<|end|><|user|>Thanks.<|end|>").cause
    assert cause == "the answer in the history is not the generated one"


def test_another_conversation():
    cause = found(SYSTEM.format("") + USER, "<|user|>Write a poem about a river in spring.<|end|>").cause
    assert cause == "conversation switched"


def test_template_change():
    before = SYSTEM.format("") + USER
    now = SYSTEM.format("") + "<|tool|>none<|end|>" + USER
    assert found(before, now).cause == "template change"


def test_shorter_prompt():
    before = SYSTEM.format("") + USER
    assert found(before, SYSTEM.format("")).cause == "shorter prompt"


@pytest.mark.parametrize("junk", ["{" * 5000, "\x1b[31m" * 50, "1" * 6000 + "}", "\ud800"])
def test_hostile_text_gives_some_break_and_no_error(junk):
    safe = junk.encode("utf-8", "replace").decode()
    broken = found(SYSTEM.format(safe + "a") + USER, SYSTEM.format(safe + "b") + USER)
    assert broken.position > 0
