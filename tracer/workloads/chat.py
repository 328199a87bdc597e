"""``chat FILE.jsonl``: conversations from a file; each user message becomes a request.

One conversation a line: ``{"id", "messages": [{"role", "content"}], "tools": [...]?}``. The model's
own answers go into the history; assistant messages of the file stand in their place only with
``--agent oracle``. Messages of other roles go in with the user message that follows them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from tracer.episode import Message, Outcome, WorkloadSpec
from tracer.errors import UsageError
from tracer.request_source import Answer, AnswerDigest, PlannedRequest, RequestSource
from tracer.workloads.base import Tokenizer, Workload
from tracer.workloads.options import refuse_options
from tracer.workloads.source import ChatHistory, History

CONVERSATION_SHA256 = "conversation_sha256"
FILE_SHA256 = "file_sha256"
_BESIDE_THE_CONVERSATION = ("turns", CONVERSATION_SHA256, FILE_SHA256)
"""Parameters that are not fields of the conversation. Traces from before the hashes lack them."""


class ChatMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message of a file."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str


class Conversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a file."""

    id: str | int
    messages: list[ChatMessage]
    tools: list[dict[str, Any]] | None = None

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of what reaches the prompts: messages and tools as canonical JSON, without the id."""
        said = msgspec.json.encode([self.messages, self.tools], order="deterministic")
        return hashlib.sha256(said).hexdigest()


class ChatFamily:
    """``--workload chat``: one episode a line of the file."""

    name = "chat"

    def episodes(
        self,
        *,
        file: Path | None = None,
        turns: int | None = None,
        agent: Literal["model", "oracle"] | None = None,
        history: History | None = None,
        **options: Any,
    ) -> Iterator[Workload]:
        """Every conversation of ``file``, each up to its first ``turns`` user messages."""
        refuse_options(self.name, options)
        if file is None:
            raise UsageError("the workload chat needs a file: --workload chat --file CONVERSATIONS.jsonl.")
        content = _content(Path(file))
        file_sha256 = hashlib.sha256(content).hexdigest()
        for conversation in _conversations(content, Path(file)):
            params = msgspec.to_builtins(conversation)
            params |= {CONVERSATION_SHA256: conversation.sha256, FILE_SHA256: file_sha256}
            if turns is not None:
                params["turns"] = turns
            spec = WorkloadSpec(
                name="chat",
                params=params,
                history=history or "ids",
                agent=agent or "model",
                version="1",
            )
            yield Chat(spec)

    def from_spec(self, spec: WorkloadSpec) -> Workload:
        """The same conversation again; its messages are in the trace."""
        return Chat(spec)


def read_conversations(path: Path) -> list[Conversation]:
    """All conversations of a file. Raises ``UsageError`` that names the line at fault."""
    return _conversations(_content(path), path)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error


def _conversations(content: bytes, path: Path) -> list[Conversation]:
    found: dict[str, Conversation] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            conversation = msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"), type=Conversation)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"{path}, line {number}: {error}.") from error
        name = str(conversation.id)
        if not any(m.role == "user" for m in conversation.messages):
            raise UsageError(f"{path}, line {number}: the conversation has no user message.")
        if name in found:
            raise UsageError(f"{path}, line {number}: the id {name!r} stands on an earlier line too.")
        found[name] = conversation
    if not found:
        raise UsageError(f"{path} holds no conversation.")
    return list(found.values())


class Chat:
    """One conversation of a file."""

    def __init__(self, spec: WorkloadSpec) -> None:
        self.spec = spec
        params = {name: value for name, value in spec.params.items() if name not in _BESIDE_THE_CONVERSATION}
        try:
            self._conversation = msgspec.convert(params, Conversation)
            self._turns = msgspec.convert(spec.params.get("turns"), int | None)
        except msgspec.ValidationError as error:
            raise UsageError(
                f"the trace does not hold a conversation that can be run again: {error}."
            ) from error

    @property
    def episode_id(self) -> str:
        return str(self._conversation.id)

    def start(self, tokenizer: Tokenizer) -> RequestSource:
        """A fresh history."""
        return ChatSource(self._conversation, self._turns, self.spec, tokenizer)


class ChatSource:
    """One execution of a conversation."""

    def __init__(
        self, conversation: Conversation, turns: int | None, spec: WorkloadSpec, tokenizer: Tokenizer
    ) -> None:
        self._history = ChatHistory(tokenizer, spec.history, conversation.tools)
        self._oracle = spec.agent == "oracle"
        self._turns = _turns(conversation)[:turns]
        self._turn = 0

    @property
    def planned(self) -> int | None:
        return len(self._turns)

    def next_request(self) -> PlannedRequest | None:
        if self._turn >= len(self._turns):
            return None
        self._history.add(*self._turns[self._turn][0])
        prompt = self._history.prompt()
        return PlannedRequest(
            prompt_ids=prompt.ids,
            turn=self._turn,
            messages_added=prompt.messages_added,
            retokenized_at=prompt.retokenized_at,
        )

    def digest(self, answer: Answer) -> AnswerDigest:
        given = self._turns[self._turn][1]
        if self._oracle and given is not None:
            self._history.answer_instead(given)
        else:
            self._history.answer(answer.text, answer.token_ids)
        self._turn += 1
        return AnswerDigest()

    def outcome(self) -> Outcome | None:
        """A conversation has no score."""
        return None


def _turns(conversation: Conversation) -> list[tuple[tuple[Message, ...], str | None]]:
    """For each user message: the messages up to it, and the file's own answer if it gives one."""
    turns: list[tuple[tuple[Message, ...], str | None]] = []
    waiting: list[Message] = []
    for message in conversation.messages:
        if message.role == "assistant":
            if turns and not waiting and turns[-1][1] is None:
                turns[-1] = (turns[-1][0], message.content)
            continue
        waiting.append(Message(role=message.role, content=message.content))
        if message.role == "user":
            turns.append((tuple(waiting), None))
            waiting = []
    return turns
