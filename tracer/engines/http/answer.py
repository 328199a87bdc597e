"""One answer, parsed: the columns of each choice, exposure, and what went wrong.

``parse_body`` takes a whole body, ``StreamedAnswer`` a stream; both end in ``ParsedAnswer``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tracer.columns import Alternatives, PathColumns
from tracer.engines.http.answer_columns import ColumnsRequest, build_columns
from tracer.engines.http.assemble import AnswerParts, ChoiceParts
from tracer.engines.http.cached_count import CachedCount, cached_count
from tracer.engines.http.local_ids import LocalIds
from tracer.engines.http.refusals import error_object
from tracer.engines.http.sse import DONE, SseReader
from tracer.engines.http.wire import TokenEntry, WireAnswer, WireError, decode_wire
from tracer.episode import Identity, RequestError, Scale, StopReason

UNSET_SEED = 0xFFFFFFFF
"""llama.cpp's echo of a seed that was not given."""


def _no_piece(_: int) -> bytes | None:
    return None


@dataclass(frozen=True, slots=True)
class Asked:
    """What the request asked for, as far as its answer cannot be read without it."""

    top_k: int | None = None
    greedy: bool = True
    local_ids: LocalIds = field(default_factory=LocalIds)
    piece: Callable[[int], bytes | None] = _no_piece
    """Bytes of ids that are known from elsewhere."""


@dataclass(frozen=True, slots=True)
class ParsedChoice:
    """One of the answer's ``n`` choices."""

    index: int
    path: PathColumns
    alternatives: Alternatives | None
    scale: Scale | None
    identity: Identity
    stop: StopReason
    text: str
    pieces: dict[int, bytes]
    not_observed: dict[str, str]
    reasoning: str = ""
    tool_calls: tuple[dict[str, str], ...] = ()
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """An answer with everything that was in it. Durations in seconds."""

    choices: tuple[ParsedChoice, ...]
    count: CachedCount
    prompt_ids: tuple[int, ...] | None = None
    completion_tokens: int | None = None
    model: str | None = None
    fingerprint: str | None = None
    prompt_s: float | None = None
    decode_s: float | None = None
    first_token_s: float | None = None
    slot: int | None = None
    slot_tokens: int | None = None
    """llama.cpp: tokens that the slot holds afterwards. This is not exposure."""
    truncated: bool = False
    effective_sampling: dict[str, Any] = field(default_factory=dict)
    """llama.cpp's echo of the settings that it used; an unset seed is absent."""
    error: RequestError | None = None
    notes: tuple[str, ...] = ()


def parse_body(body: bytes, asked: Asked) -> ParsedAnswer:
    """A whole answer. Raises ``WireError`` when it has no known form."""
    answers, mended = decode_wire(body)
    parts = AnswerParts()
    for answer in answers:
        parts.add(answer)
    return _parsed(parts, asked, (mended,) if mended else ())


class StreamedAnswer:
    """An answer that arrives in events. What arrived stays when the stream breaks."""

    def __init__(self, asked: Asked, on_progress: Callable[[int, int], None] | None = None) -> None:
        self._asked = asked
        self._on_progress = on_progress
        self._reader = SseReader()
        self._parts = AnswerParts()
        self._notes: list[str] = []
        self._head = bytearray()
        self._started = time.monotonic()
        self._first_token_s: float | None = None
        self._done = False

    def feed(self, received: bytes) -> None:
        """Take bytes as they come."""
        if self._reader.events == 0:
            self._head += received  # kept for a server that answers without streaming
        elif self._head:
            self._head.clear()
        for event in self._reader.feed(received):
            self._take(event)

    def finish(self, broken: str | None = None) -> ParsedAnswer:
        """The end of the stream; ``broken`` says how the connection ended if not properly."""
        rest = self._reader.finish()
        if rest is not None and not self._take_rest(rest):
            broken = broken or "the stream was cut inside an event"
        if self._reader.events == 0 and self._parts.pieces == 0:
            if self._head.lstrip().startswith((b"{", b"[")):
                return parse_body(bytes(self._head), self._asked)  # it answered without streaming
            broken = broken or "empty stream: the server answered without a single event"
        if broken is not None and self._parts.error is None:
            self._parts.error = {"type": "broken_stream", "message": broken}
        parsed = _parsed(self._parts, self._asked, tuple(self._notes))
        return _with_first_token(parsed, self._first_token_s)

    def _take_rest(self, rest: bytes) -> bool:
        try:
            self._take(rest)
        except WireError:
            return False
        return True

    def _take(self, event: bytes) -> None:
        if event == DONE:
            self._done = True
            return
        answers, mended = decode_wire(event)
        if mended and mended not in self._notes:
            self._notes.append(mended)
        for answer in answers:
            self._parts.add(answer)
            self._watch(answer)

    def _watch(self, answer: WireAnswer) -> None:
        progress = answer.prompt_progress
        if progress is not None:
            if self._on_progress is not None:
                self._on_progress(progress.processed - progress.cache, progress.total - progress.cache)
            return
        if self._first_token_s is None and any(
            p.text or p.ids or p.entries for p in self._parts.choices.values()
        ):
            self._first_token_s = time.monotonic() - self._started


def _with_first_token(parsed: ParsedAnswer, first_token_s: float | None) -> ParsedAnswer:
    return replace(parsed, first_token_s=first_token_s)


def _parsed(parts: AnswerParts, asked: Asked, notes: tuple[str, ...]) -> ParsedAnswer:
    count = cached_count(parts)
    choices = tuple(_choice(parts.choices[i], parts, asked, count) for i in sorted(parts.choices))
    native, timings = parts.native, parts.timings
    first = parts.choices.get(min(parts.choices, default=0))
    notes += _uncovered(parts)
    return ParsedAnswer(
        choices=choices,
        count=count,
        prompt_ids=_whole(first.prompt_ids if first is not None else None),
        completion_tokens=_completion_tokens(parts),
        model=parts.model,
        fingerprint=parts.fingerprint,
        prompt_s=_seconds(timings.prompt_ms if timings is not None else None),
        decode_s=_seconds(timings.predicted_ms if timings is not None else None),
        slot=native.id_slot if native is not None else None,
        slot_tokens=native.tokens_cached if native is not None else None,
        truncated=bool(native is not None and native.truncated),
        effective_sampling=_sampling_echo(native),
        error=error_object(parts.error, 200) if parts.error is not None else None,
        notes=notes,
    )


def _choice(choice: ChoiceParts, parts: AnswerParts, asked: Asked, count: CachedCount) -> ParsedChoice:
    text, reasoning = "".join(choice.text), "".join(choice.reasoning)
    entries = _without_echo(choice, parts, count)
    columns = build_columns(
        ColumnsRequest(
            text=reasoning + text,
            ids=choice.ids,
            entries=entries,
            top_k=asked.top_k,
            greedy=asked.greedy,
            local_ids=asked.local_ids,
            piece=asked.piece,
            after_sampling=choice.after_sampling,
        )
    )
    return ParsedChoice(
        index=choice.index,
        path=columns.path,
        alternatives=columns.alternatives,
        scale=columns.scale,
        identity=columns.identity,
        stop=StopReason.ERROR if parts.error is not None else stop_reason(choice.finish_reason),
        text=text,
        pieces=columns.pieces,
        not_observed=columns.not_observed,
        reasoning=reasoning,
        tool_calls=tuple(choice.tool_calls[place] for place in sorted(choice.tool_calls)),
        finish_reason=choice.finish_reason,
    )


def _without_echo(choice: ChoiceParts, parts: AnswerParts, count: CachedCount) -> list[TokenEntry] | None:
    """With ``echo`` the prompt's entries come first; they are no output."""
    entries, produced = choice.entries, _completion_tokens(parts)
    if entries is None or produced is None or not count.prompt_tokens or len(parts.choices) != 1:
        return entries
    if len(entries) == count.prompt_tokens + produced:
        return entries[count.prompt_tokens :]
    return entries


def _uncovered(parts: AnswerParts) -> tuple[str, ...]:
    """Some servers leave the tokens of tool calls out of the logprobs."""
    produced = _completion_tokens(parts)
    only = next(iter(parts.choices.values())) if len(parts.choices) == 1 else None
    if produced is None or only is None or only.entries is None or only.ids is not None:
        return ()
    if len(only.entries) >= produced:
        return ()
    return (f"numbers came for {len(only.entries)} of {produced} generated tokens",)


def stop_reason(finish_reason: str | None) -> StopReason:
    """Every server's word for why it stopped, as ours."""
    if finish_reason in ("stop", "eos", "word", "end_turn", "stop_sequence", "tool_calls", "tool_use"):
        return StopReason.STOP
    if finish_reason in ("length", "limit", "max_tokens"):
        return StopReason.LENGTH
    if finish_reason in ("abort", "error", "content_filter"):
        return StopReason.ERROR
    return StopReason.UNKNOWN


def _completion_tokens(parts: AnswerParts) -> int | None:
    usage = parts.usage
    if usage is not None and (usage.completion_tokens or usage.output_tokens) is not None:
        return usage.completion_tokens if usage.completion_tokens is not None else usage.output_tokens
    if parts.sglang is not None:
        return parts.sglang.completion_tokens
    if parts.native is not None:
        return parts.native.tokens_predicted if parts.native.done is None else parts.native.eval_count
    return None


def _whole(ids: list[int | None] | None) -> tuple[int, ...] | None:
    """Ids of the prompt; a null among them (seen at position 0) means that they are not known."""
    if ids is None or any(token is None for token in ids):
        return None
    return tuple(token for token in ids if token is not None)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000.0


_ECHOED = (
    "temperature",
    "seed",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "n_probs",
    "grammar",
    "samplers",
)


def _sampling_echo(native: WireAnswer | None) -> dict[str, Any]:
    settings = native.generation_settings if native is not None else None
    echo = {key: settings[key] for key in _ECHOED if key in settings} if settings else {}
    if echo.get("seed") == UNSET_SEED:
        del echo["seed"]
    return echo
