"""The items of an experiment: prompts that do not depend on each other's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracer.episode import Identity, Message, Outcome
from tracer.errors import UsageError
from tracer.request_source import Answer, AnswerDigest, PlannedRequest
from tracer.tracefile import TraceReader
from tracer.workloads.base import Tokenizer

_TIMES = 6
SYSTEM = "You are a careful assistant that answers in short sentences. " * _TIMES

QUESTIONS = (
    "Explain why the sky is blue.",
    "List three uses of copper.",
    "A train leaves at 3 pm and travels 120 km at 60 km/h. When does it arrive?",
    "Write a short poem about a river.",
    "What is the capital of France and why is it famous?",
    "Describe how bread is made.",
    "Give me a recipe for tomato soup.",
    "Tom has 5 apples and buys 7 more, then gives 3 away. How many are left?",
    "Summarise the water cycle.",
    "Name the planets in order.",
    "How do I sort a list in Python?",
    "Write a JSON object describing a cat.",
    "What makes a good cup of tea?",
    "Why do leaves change their colour in autumn?",
    "Which animals sleep through the winter, and how?",
    "Explain what a prime number is, with two examples.",
)


@dataclass(frozen=True, slots=True)
class Item:
    """One prompt and its number."""

    number: int
    prompt_ids: tuple[int, ...]


def built_in_items(tokenizer: Tokenizer, count: int, *, shared_prefix: bool) -> tuple[Item, ...]:
    """Questions under one system prompt, or ones that depart from each other at once.

    A second layer only stores a state that the next prompt would mostly overwrite, so it stays idle
    between items that share most of their tokens. Raises ``UsageError``.
    """
    if not 1 <= count <= len(QUESTIONS):
        raise UsageError(
            f"there are 1 to {len(QUESTIONS)} built-in items; give a trace file to take its requests."
        )
    items = []
    for number, question in enumerate(QUESTIONS[:count]):
        system = SYSTEM if shared_prefix else f"{question} " * _TIMES
        messages = (Message(role="system", content=system), Message(role="user", content=question))
        items.append(Item(number, tuple(tokenizer.tokenize(tokenizer.render(messages)))))
    return tuple(items)


def items_of_trace(trace: TraceReader, arm: int, count: int | None = None) -> tuple[Item, ...]:
    """The requests of a recorded arm, each as an item of its own. Raises ``UsageError``."""
    items = []
    for request in trace.requests(arm)[:count]:
        ids = trace.prompt_ids(arm, request.index)
        if ids is None or request.identity is not Identity.TOKEN_ID:
            raise UsageError(f"request {request.index} has no token ids, so it cannot be an item.")
        items.append(Item(request.index, tuple(ids.tolist())))
    if not items:
        raise UsageError("this arm has no request that could be an item.")
    return tuple(items)


class ItemSource:
    """A ``RequestSource`` that asks the items in the order given; ``turn`` is the item's number."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._next = 0

    @property
    def planned(self) -> int | None:
        """The number of items."""
        return len(self._items)

    def next_request(self) -> PlannedRequest | None:
        """The next item."""
        if self._next == len(self._items):
            return None
        item = self._items[self._next]
        self._next += 1
        return PlannedRequest(prompt_ids=item.prompt_ids, turn=item.number)

    def digest(self, answer: Answer) -> AnswerDigest:  # noqa: ARG002  # no agent goes on with it
        """Nothing: no item depends on an answer."""
        return AnswerDigest()

    def outcome(self) -> Outcome | None:
        """Items are not scored."""
        return None
