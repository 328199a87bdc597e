"""Where the arm loop gets its next prompt from: a workload, or a recorded arm.

The loop drives a source like this, and knows nothing else about it::

    while (planned := source.next_request()) is not None:
        ... serve it ...
        digest = source.digest(answer)  # tool calls and results, stored with the request
    outcome = source.outcome()
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tracer.episode import Message, Outcome, Sampling, ToolCall, ToolResult
from tracer.http_body import HttpBody


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """The next request of an arm."""

    prompt_ids: tuple[int, ...]
    turn: int = 0
    step: int = 0
    messages_added: tuple[Message, ...] = ()
    max_new_tokens: int | None = None
    """None = as the arm's sampling says."""
    forced_ids: tuple[int, ...] | None = None
    """Way ``forced``: the recorded output, to be decoded instead of chosen."""
    recorded_output_ids: tuple[int, ...] | None = None
    """Priming ``lockstep``: what the cache shall hold after this request's prompt."""
    retokenized_at: int | None = None
    body: HttpBody | None = None
    """Way ``body``: what is sent; the prompt's ids then only say what it comes to."""
    sampling: Sampling | None = None
    """None = the arm's."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine answered, as far as a workload may use it."""

    token_ids: tuple[int, ...]
    text: str
    stopped_by_length: bool


@dataclass(frozen=True, slots=True)
class AnswerDigest:
    """What the agent made of an answer. Stored with the request that produced it."""

    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()


class RequestSource(Protocol):
    """A generator of prompts. It never talks to an engine."""

    @property
    def planned(self) -> int | None:
        """How many requests will come, None when that depends on the answers."""
        ...

    def next_request(self) -> PlannedRequest | None:
        """The next request, None at the end of the episode."""
        ...

    def digest(self, answer: Answer) -> AnswerDigest:
        """Take the answer to the last request: parse it, run its tools, extend the history."""
        ...

    def outcome(self) -> Outcome | None:
        """How the task ended; None when this source does not score."""
        ...
