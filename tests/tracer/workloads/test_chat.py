"""Conversations from a file."""

import hashlib
import json

import pytest
from msgspec.structs import replace

from tracer.engines.fake import FakeEngine
from tracer.errors import UsageError
from tracer.request_source import Answer
from tracer.workloads.chat import ChatFamily, read_conversations
from tracer.workloads.registry import family, workload_from_spec

TALK = {
    "id": "talk-1",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Good day."},
        {"role": "user", "content": "What is rain?"},
        {"role": "user", "content": "And snow?"},
    ],
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "talks.jsonl"
    path.write_text(json.dumps(TALK) + "\n\n" + json.dumps({**TALK, "id": 2}) + "\n", encoding="utf-8")
    return path


def play(workload, text="Yes."):
    engine, asked = FakeEngine(), []
    source = workload.start(engine)
    while (planned := source.next_request()) is not None:
        asked.append(planned)
        source.digest(Answer((*engine.tokenize(text), 256), text, stopped_by_length=False))
    assert source.planned == len(asked)
    return engine, asked


def text_of(engine, ids):
    return b"".join(engine.piece(i) for i in ids).decode()


def test_each_user_message_is_a_request_and_own_answers_stay(file):
    first, second = ChatFamily().episodes(file=file)
    assert (first.episode_id, second.episode_id) == ("talk-1", "2")
    engine, asked = play(first)
    assert len(asked) == 3
    assert text_of(engine, asked[1].prompt_ids) == (
        "<|system|>Be brief.<|end|><|user|>Hello.<|end|><|assistant|>Yes.<|end|>"
        "<|user|>What is rain?<|end|><|assistant|>"
    )
    assert [m.content for m in asked[1].messages_added] == ["Yes.", "What is rain?"]


def test_with_the_oracle_answers_of_the_file_stand_where_it_has_them(file):
    first, _ = ChatFamily().episodes(file=file, agent="oracle")
    engine, asked = play(first)
    last = text_of(engine, asked[2].prompt_ids)
    assert "<|assistant|>Good day.<|end|><|user|>What is rain?<|end|><|assistant|>Yes.<|end|>" in last


def test_turns_and_spec(file):
    first, _ = ChatFamily().episodes(file=file, turns=2, history="messages")
    again = workload_from_spec(first.spec)
    assert [p.prompt_ids for p in play(again)[1]] == [p.prompt_ids for p in play(first)[1]]
    assert len(play(again)[1]) == 2
    assert again.start(FakeEngine()).outcome() is None


def test_the_file_and_what_reaches_the_prompts_are_hashed(file, tmp_path):
    first, second = (episode.spec.params for episode in ChatFamily().episodes(file=file))
    assert first["file_sha256"] == second["file_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert first["conversation_sha256"] == second["conversation_sha256"]  # they differ by their id only

    def hash_of(**changed):
        path = tmp_path / "other.jsonl"
        path.write_text(json.dumps({**TALK, **changed}, indent=None, separators=(",", ":")), encoding="utf-8")
        return next(ChatFamily().episodes(file=path)).spec.params["conversation_sha256"]

    assert hash_of() == first["conversation_sha256"]  # spaces of the file's JSON do not matter
    others = {
        hash_of(messages=TALK["messages"][1:]),
        hash_of(tools=[{"name": "look"}]),
        first["conversation_sha256"],
    }
    assert len(others) == 3


def test_an_episode_from_before_the_hashes_asks_the_same(file):
    first, _ = ChatFamily().episodes(file=file)
    old = replace(first.spec, params={k: v for k, v in first.spec.params.items() if "sha256" not in k})
    assert set(old.params) == {"id", "messages", "tools"}
    again = workload_from_spec(old)
    assert again.episode_id == first.episode_id
    assert [p.prompt_ids for p in play(again)[1]] == [p.prompt_ids for p in play(first)[1]]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("{", "truncated"),
        ("[1]", "Expected `object`"),
        ('{"id": "x"}', "messages"),
        ('{"id": "x", "messages": []}', "no user message"),
        ('{"id": "x", "messages": [{"role": "user"}]}', "content"),
        ('{"id": "x", "messages": [{"role": "robot", "content": "a"}]}', "role"),
        ('{"id": "x", "messages": [{"role": "user", "content": ["a"]}]}', "content"),
        ('{"id": "x", "messages": [{"role": "user", "content": "a"}], "temprature": 1}', "temprature"),
        (json.dumps(TALK), "stands on an earlier line"),
        ("\udcff", "line 2"),
    ],
)
def test_a_mistake_names_its_line(tmp_path, line, word):
    path = tmp_path / "bad.jsonl"
    path.write_bytes((json.dumps(TALK) + "\n" + line).encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=r"line 2") as caught:
        read_conversations(path)
    assert word in str(caught.value)


def test_an_empty_or_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_conversations(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(UsageError, match="no conversation"):
        read_conversations(tmp_path / "empty.jsonl")
    with pytest.raises(UsageError, match="--file"):
        list(ChatFamily().episodes())


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    path = tmp_path / "bom.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(TALK).encode())
    assert len(read_conversations(path)) == 1


def test_a_trace_that_holds_no_conversation_is_refused(file):
    first, _ = ChatFamily().episodes(file=file)
    with pytest.raises(UsageError, match="does not hold a conversation"):
        workload_from_spec(replace(first.spec, params={"messages": 5}))
    with pytest.raises(UsageError, match="no workload"):
        family("golf")
