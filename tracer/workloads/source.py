"""The history of a chat as token ids: how an answer goes back into the next prompt.

``ids`` history: the generated ids themselves stay, and only what the chat template puts after an
answer is tokenized and appended. That text is found by rendering the conversation with a marker
in the answer's place, so it does not depend on what the model wrote (a template may trim or strip
an answer; in this mode the ids that were generated stand, as in an engine that keeps its tokens).
``messages`` history: all messages are rendered and tokenized anew for every request, as agents do
that talk to a chat endpoint; where that changes the ids of an answer is noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tracer.episode import Message
from tracer.errors import UsageError
from tracer.exposure import common_prefix
from tracer.prefix_break import same_text_at
from tracer.workloads.base import Tokenizer

History = Literal["ids", "messages"]

_MARKER = "cachetraceAnswerStandsHere"


@dataclass(frozen=True, slots=True)
class HistoryPrompt:
    """The prompt that a history makes now."""

    ids: tuple[int, ...]
    messages_added: tuple[Message, ...]
    """Since the prompt before, the answer that went into the history included."""
    retokenized_at: int | None


class ChatHistory:
    """A conversation that grows: ``add`` messages, take ``prompt``, put the answer in, and so on."""

    def __init__(
        self, tokenizer: Tokenizer, history: History, tools: Sequence[dict[str, Any]] | None = None
    ) -> None:
        self._tokenizer = tokenizer
        self._history = history
        self._tools = list(tools) if tools else None
        self._messages: list[Message] = []
        self._added = 0
        self._answer_at: int | None = None
        self._ids: tuple[int, ...] = ()
        self._generated = False

    def add(self, *messages: Message) -> None:
        """Append messages of the user, the system or a tool."""
        self._messages.extend(messages)

    def prompt(self) -> HistoryPrompt:
        """Render what there is, up to the generation prompt."""
        held = self._ids
        retokenized_at = None
        if self._history == "ids" and self._answer_at is not None:
            ids = held + self._after_answer(held)
        else:
            ids = tuple(self._tokenizer.tokenize(self._render(self._messages)))
            if self._generated:
                retokenized_at = self._retokenized_at(held, ids)
        added = tuple(self._messages[self._added :])
        self._added = len(self._messages)
        self._ids = ids
        return HistoryPrompt(ids, added, retokenized_at)

    def answer(self, text: str, token_ids: Sequence[int]) -> None:
        """Put the generated answer into the history."""
        self._put(text)
        self._ids += tuple(token_ids)
        self._generated = True

    def answer_instead(self, text: str) -> None:
        """Put another answer in the generated one's place (teacher-forced)."""
        self._put(text)
        self._ids += self._tokenize_piece(text)
        self._generated = False

    def _put(self, text: str) -> None:
        self._answer_at = len(self._messages)
        self._messages.append(Message(role="assistant", content=text))

    def _after_answer(self, held: tuple[int, ...]) -> tuple[int, ...]:
        """Ids of what the template puts between the last answer and the next one."""
        assert self._answer_at is not None
        marked = list(self._messages)
        marked[self._answer_at] = Message(role="assistant", content=_MARKER)
        _, found, after = self._render(marked).rpartition(_MARKER)
        if not found:
            raise UsageError(
                "this model's chat template does not repeat an answer as it was, so generated ids cannot go "
                "back into the next prompt; use --history messages."
            )
        ids = self._tokenize_piece(after)
        # A model that ended its answer itself has already written the template's end mark.
        return ids[1:] if held and ids and held[-1] == ids[0] else ids

    def _tokenize_piece(self, text: str) -> tuple[int, ...]:
        """Ids of a part of a prompt: without what a tokenizer puts at the start of every text."""
        ids, start = self._tokenizer.tokenize(text), self._tokenizer.tokenize("")
        return tuple(ids[len(start) :] if start and ids[: len(start)] == start else ids)

    def _render(self, messages: Sequence[Message]) -> str:
        return self._tokenizer.render(messages, self._tools)

    def _retokenized_at(self, held: tuple[int, ...], ids: tuple[int, ...]) -> int | None:
        position = common_prefix(held, ids)
        return position if same_text_at(held, ids, position, self._tokenizer.piece) else None
