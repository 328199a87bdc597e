"""From wire answers to the parts of each choice: text, ids, entries, why it stopped.

A whole body is one piece, a stream many; both go through ``AnswerParts.add``. Choices of ``n`` > 1
arrive interleaved and are kept apart by their index.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tracer.engines.http.wire import (
    Logprobs,
    SglangMeta,
    Timings,
    TokenEntry,
    TopEntry,
    Usage,
    WireAnswer,
    WireChoice,
    WireMessage,
)


@dataclass(slots=True)
class ChoiceParts:
    """What has arrived of one choice."""

    index: int
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    tool_calls: dict[int, dict[str, str]] = field(default_factory=dict)
    ids: list[int] | None = None
    entries: list[TokenEntry] | None = None
    finish_reason: str | None = None
    prompt_ids: list[int | None] | None = None
    after_sampling: bool = False
    """Probabilities after the samplers: they say nothing about the model's own numbers."""

    def add_ids(self, ids: Sequence[int] | None) -> None:
        """More output ids; None = this piece names none."""
        if ids is not None:
            self.ids = [*(self.ids or []), *ids]

    def add_entries(self, entries: list[TokenEntry] | None) -> None:
        """More positions with numbers; None = this piece has none."""
        if entries is not None:
            self.entries = [*self.entries, *entries] if self.entries else list(entries)


@dataclass(slots=True)
class AnswerParts:
    """What has arrived of an answer: its choices and the facts that stand beside them."""

    choices: dict[int, ChoiceParts] = field(default_factory=dict)
    usage: Usage | None = None
    timings: Timings | None = None
    native: WireAnswer | None = None
    """llama.cpp's last native piece, SGLang's or Ollama's answer: the facts at its top level."""
    sglang: SglangMeta | None = None
    model: str | None = None
    fingerprint: str | None = None
    object: str | None = None
    error: Any = None
    pieces: int = 0

    def add(self, wire: WireAnswer) -> None:
        """Take one body or one event."""
        self.pieces += 1
        self.model = wire.model or self.model
        self.fingerprint = wire.system_fingerprint or self.fingerprint
        self.object = wire.object or self.object
        self.timings = wire.timings or self.timings
        self._add_usage(wire.usage)
        if wire.error is not None or (wire.detail is not None and wire.choices is None):
            self.error = wire.error if wire.error is not None else wire.detail
        for choice in wire.choices or ():
            self._add_choice(choice, wire)
        if wire.choices is None:
            self._add_native(wire)

    def _add_usage(self, usage: Usage | None) -> None:
        """The last usage counts (some servers send one with every event; they are not summed)."""
        if usage is None:
            return
        if usage.prompt_tokens_details is None and self.usage is not None:
            usage.prompt_tokens_details = self.usage.prompt_tokens_details
        self.usage = usage

    def _choice(self, index: int) -> ChoiceParts:
        return self.choices.setdefault(index, ChoiceParts(index))

    def _add_choice(self, choice: WireChoice, wire: WireAnswer) -> None:
        parts = self._choice(choice.index)
        parts.finish_reason = choice.finish_reason or parts.finish_reason
        if choice.text is not None:
            parts.text.append(choice.text)
        for message in (choice.message, choice.delta):
            if message is not None:
                _add_message(parts, message)
        parts.add_ids(choice.token_ids)
        if choice.logprobs is not None:
            parts.add_entries(entries_of(choice.logprobs))
        if wire.completion_probabilities is not None and len(wire.choices or ()) == 1:
            _add_probabilities(parts, wire.completion_probabilities)
        parts.prompt_ids = choice.prompt_token_ids or wire.prompt_token_ids or parts.prompt_ids

    def _add_native(self, wire: WireAnswer) -> None:
        if wire.output_ids is not None or wire.meta_info is not None:
            self._add_sglang(wire)
        elif wire.done is not None or wire.response is not None or isinstance(wire.message, WireMessage):
            self._add_ollama(wire)
        elif isinstance(wire.content, list):
            self._choice(0).text.append(_block_text(wire.content))
            self._choice(0).finish_reason = wire.stop_reason
        elif wire.output is not None:
            self._choice(0).text.append(_block_text(wire.output))
        elif isinstance(wire.content, str):
            self._add_llama(wire, wire.content)

    def _add_llama(self, wire: WireAnswer, content: str) -> None:
        self.native = wire
        parts = self._choice(wire.index or 0)
        if wire.prompt_progress is not None and not wire.tokens_predicted:
            return  # such a piece carries tokens [0], which is no token
        parts.text.append(content)
        parts.add_ids(wire.tokens)
        parts.finish_reason = wire.stop_type or parts.finish_reason
        if wire.completion_probabilities is not None:
            _add_probabilities(parts, wire.completion_probabilities)

    def _add_sglang(self, wire: WireAnswer) -> None:
        parts = self._choice(len(self.choices))
        parts.text.append(wire.text or "")
        meta = wire.meta_info
        if meta is None:
            parts.add_ids(wire.output_ids)
            return
        self.sglang = meta
        triples = meta.output_token_logprobs
        parts.add_ids(
            wire.output_ids if wire.output_ids is not None or triples is None else [t[1] for t in triples]
        )
        if triples is not None:
            tops = meta.output_top_logprobs or []
            parts.add_entries(
                [
                    TokenEntry(
                        id=token, logprob=value, top_logprobs=_triples(tops[i] if i < len(tops) else None)
                    )
                    for i, (value, token, _) in enumerate(triples)
                ]
            )
        reason = meta.finish_reason
        parts.finish_reason = reason.get("type") if isinstance(reason, dict) else reason

    def _add_ollama(self, wire: WireAnswer) -> None:
        self.native = wire
        parts = self._choice(0)
        if wire.response is not None:
            parts.text.append(wire.response)
        if isinstance(wire.message, WireMessage):
            _add_message(parts, wire.message)
        parts.finish_reason = wire.done_reason or parts.finish_reason


def entries_of(logprobs: Logprobs) -> list[TokenEntry] | None:
    """Chat-shaped entries as they are, the legacy arrays made into the same; None = neither."""
    if logprobs.content is not None:
        return logprobs.content
    if logprobs.tokens is None:
        return None
    values, tops = logprobs.token_logprobs or [], logprobs.top_logprobs or []
    return [
        TokenEntry(
            token=token,
            logprob=values[i] if i < len(values) else None,
            top_logprobs=_from_map(tops[i] if i < len(tops) else None),
        )
        for i, token in enumerate(logprobs.tokens)
    ]


def _from_map(tops: dict[str, float | None] | None) -> list[TopEntry] | None:
    if tops is None:
        return None
    return [TopEntry(token=token, logprob=value) for token, value in tops.items()]


def _triples(tops: list[tuple[float | None, int, str | None]] | None) -> list[TopEntry] | None:
    return None if tops is None else [TopEntry(id=token, logprob=value) for value, token, _ in tops]


def _add_probabilities(parts: ChoiceParts, entries: list[TokenEntry]) -> None:
    """llama.cpp's ``completion_probabilities``: today's, after sampling, or the old form."""
    if any(
        entry.top_probs is not None or (entry.prob is not None and entry.logprob is None) for entry in entries
    ):
        parts.after_sampling = True
        entries = [TokenEntry(id=e.id, token=e.token, bytes=e.bytes) for e in entries]
    elif any(entry.probs is not None for entry in entries):
        entries = [_old_entry(entry) for entry in entries]
    parts.add_entries(entries)


def _old_entry(entry: TokenEntry) -> TokenEntry:
    tops = [TopEntry(token=top.tok_str, logprob=_log(top.prob)) for top in entry.probs or ()]
    own = next((top.logprob for top in tops if top.token == entry.content), None)
    return TokenEntry(token=entry.content, logprob=own, top_logprobs=tops)


def _log(probability: float | None) -> float | None:
    """Natural log; a probability of 1 beside no other says only that nothing else was left."""
    return math.log(probability) if probability is not None and 0.0 < probability < 1.0 else None


def _add_message(parts: ChoiceParts, message: WireMessage) -> None:
    if isinstance(message.content, str):
        parts.text.append(message.content)
    elif message.content is not None:
        parts.text.append(_block_text(message.content))
    reasoning = message.reasoning_content or message.reasoning
    if reasoning:
        parts.reasoning.append(reasoning)
    for place, call in enumerate(message.tool_calls or ()):
        if isinstance(call, dict):
            _add_tool_call(parts, call.get("index", place), call.get("function"))


def _add_tool_call(parts: ChoiceParts, place: Any, function: Any) -> None:
    """Streams bring a call's name once and its arguments in parts."""
    if not isinstance(function, dict) or not isinstance(place, int):
        return
    call = parts.tool_calls.setdefault(place, {"name": "", "arguments": ""})
    for key in ("name", "arguments"):
        if isinstance(function.get(key), str):
            call[key] += function[key]


def _block_text(blocks: list[Any]) -> str:
    """Text of content blocks (Anthropic, responses route), nested at most once."""
    found: list[str] = []
    for block in blocks:
        if not isinstance(block, dict):
            continue
        if isinstance(block.get("text"), str):
            found.append(block["text"])
        inner = block.get("content")
        if isinstance(inner, list):
            found += [b["text"] for b in inner if isinstance(b, dict) and isinstance(b.get("text"), str)]
    return "".join(found)
