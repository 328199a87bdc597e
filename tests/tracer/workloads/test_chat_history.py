"""How answers go back into the next prompt, under templates that behave and templates that do not."""

import pytest

from tracer.engines.fake import FakeEngine
from tracer.engines.fake_model import END, tokenize
from tracer.episode import Message
from tracer.errors import UsageError
from tracer.workloads.source import ChatHistory


def user(text):
    return Message(role="user", content=text)


class Templated:
    """The fake vocabulary under a template of the test's own."""

    def __init__(self, render, start=()):
        self._render, self._start, self.tools = render, list(start), "not asked"

    def render(self, messages, tools=None):
        self.tools = tools
        return self._render(messages)

    def tokenize(self, text):
        return self._start + tokenize(text)

    def piece(self, token_id):
        return FakeEngine().piece(token_id)


def chatml(messages):
    return "".join(f"<|{m.role}|>{m.content}<|end|>\n" for m in messages) + "<|assistant|>"


def asked(history, *texts):
    history.add(*[user(text) for text in texts])
    return history.prompt()


def test_generated_ids_stay_and_only_the_rest_of_the_template_is_added():
    history = ChatHistory(Templated(chatml), "ids")
    first = asked(history, "Hi.")
    odd = tuple(b"the answer")  # not as the tokenizer would cut it
    history.answer("the answer", (*odd, END))
    second = asked(history, "More.")
    assert second.ids == first.ids + odd + (END,) + tuple(tokenize("\n<|user|>More.<|end|>\n<|assistant|>"))


def test_an_answer_that_was_cut_off_is_closed_by_the_template():
    history = ChatHistory(Templated(chatml), "ids")
    first = asked(history, "Hi.")
    history.answer("the", tuple(tokenize("the")))
    assert asked(history, "More.").ids[len(first.ids) :] == tuple(
        tokenize("the") + tokenize("<|end|>\n<|user|>More.<|end|>\n<|assistant|>")
    )


def test_an_empty_answer():
    history = ChatHistory(Templated(chatml), "ids")
    first = asked(history, "Hi.")
    history.answer("", ())
    assert asked(history, "More.").ids == first.ids + tuple(
        tokenize("<|end|>\n<|user|>More.<|end|>\n<|assistant|>")
    )


def test_a_template_that_trims_answers_does_not_matter_to_ids():
    def trimming(messages):
        return chatml([Message(role=m.role, content=m.content.strip()) for m in messages])

    history = ChatHistory(Templated(trimming), "ids")
    first = asked(history, "Hi.")
    history.answer("  spaced  ", (*tokenize("  spaced  "), END))
    second = asked(history, "More.")
    assert second.ids[: len(first.ids)] == first.ids
    assert second.ids[len(first.ids) :][: len(tokenize("  spaced  "))] == tuple(tokenize("  spaced  "))


def test_a_template_that_drops_answers_is_refused():
    history = ChatHistory(
        Templated(lambda messages: chatml([m for m in messages if m.role != "assistant"])), "ids"
    )
    asked(history, "Hi.")
    history.answer("gone", tuple(tokenize("gone")))
    history.add(user("More."))
    with pytest.raises(UsageError, match="--history messages"):
        history.prompt()


def test_what_a_tokenizer_puts_before_every_text_comes_once():
    history = ChatHistory(Templated(chatml, start=[300]), "ids")
    asked(history, "Hi.")
    history.answer("yes", (*tokenize("yes"), END))
    assert asked(history, "More.").ids.count(300) == 1
    history.answer_instead("no")
    assert asked(history, "Again.").ids.count(300) == 1


def test_an_answer_instead_of_the_generated_one():
    history = ChatHistory(Templated(chatml), "ids")
    asked(history, "Hi.")
    history.answer_instead("the oracle says so")
    prompt = asked(history, "More.")
    whole = chatml([user("Hi."), Message(role="assistant", content="the oracle says so"), user("More.")])
    assert prompt.ids == tuple(tokenize(whole))
    assert prompt.retokenized_at is None


def test_messages_history_notes_where_tokenizing_changed_the_ids():
    history = ChatHistory(Templated(chatml), "messages")
    first = asked(history, "Hi.")
    history.answer("ab the", (*b"ab the", END))  # one byte a token; the tokenizer takes pairs
    second = asked(history, "More.")
    whole = chatml([user("Hi."), Message(role="assistant", content="ab the"), user("More.")])
    assert second.ids == tuple(tokenize(whole))
    assert second.retokenized_at is not None
    assert second.retokenized_at >= len(first.ids)
    assert first.retokenized_at is None

    stable = ChatHistory(Templated(chatml), "messages")
    asked(stable, "Hi.")
    stable.answer("ab the", (*tokenize("ab the"), END))
    assert asked(stable, "More.").retokenized_at is None


def test_another_text_is_not_called_retokenizing():
    history = ChatHistory(Templated(chatml), "messages")
    asked(history, "Hi.")
    history.answer("other words", (*tokenize("the answer"), END))
    assert asked(history, "More.").retokenized_at is None


def test_messages_added_hold_everything_since_the_prompt_before():
    history = ChatHistory(Templated(chatml), "ids")
    history.add(Message(role="system", content="Be brief."))
    assert [m.role for m in asked(history, "Hi.").messages_added] == ["system", "user"]
    history.answer("Yes.", (*tokenize("Yes."), END))
    assert [m.role for m in asked(history, "A", "B").messages_added] == ["assistant", "user", "user"]


def test_tools_reach_the_template():
    engine = Templated(chatml)
    asked(ChatHistory(engine, "ids", [{"name": "calc"}]), "Hi.")
    assert engine.tools == [{"name": "calc"}]
