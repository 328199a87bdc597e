"""One answer of an OpenAI-shaped completion, as the released logs keep it, turned into columns.

The two engines write tokens differently: llama.cpp gives entries with ids, vLLM parallel lists of
strings without ids. Where an answer has no entries its whole text is compared as one token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from msgspec import Struct, field

from tracer.columns import Alternatives, PathColumns, PositionFlag
from tracer.episode import Identity, StopReason


class Refusal(Exception):
    """A point of the layout that does not hold; the caller adds file and line."""


class TokenEntry(Struct, frozen=True):
    """llama.cpp: one entry of ``choices[0].logprobs.content`` or of its ``top_logprobs``."""

    id: int
    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: list[TokenEntry] = []


class Logprobs(Struct, frozen=True):
    """Either engine's ``choices[0].logprobs``."""

    content: list[TokenEntry] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None
    text_offset: list[int] | None = None


class Choice(Struct, frozen=True):
    """The only completion of a request."""

    text: str
    index: int = 0
    finish_reason: str | None = None
    logprobs: Logprobs | None = None


class PromptDetails(Struct, frozen=True):
    """``usage.prompt_tokens_details``."""

    cached_tokens: int | None = None


class Usage(Struct, frozen=True):
    """Token counts as the engine says them."""

    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: PromptDetails | None = None


class Timings(Struct, frozen=True):
    """llama.cpp's own counts; milliseconds."""

    cache_n: int | None = None
    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_ms: float | None = None


class Response(Struct, frozen=True):
    """The completion object; other fields are ignored."""

    choices: list[Choice]
    usage: Usage
    created: int
    model: str | None = None
    timings: Timings | None = field(default=None)


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """Columns of one answer; ids are local to the trace unless ``identity`` is TOKEN_ID."""

    identity: Identity
    path: PathColumns
    alternatives: Alternatives | None
    pieces: dict[int, bytes]
    text: str
    stop: StopReason
    cached_tokens: int | None


class LocalIds:
    """Numbers for token strings, dense from 0, shared by all arms of one trace."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}

    def of(self, piece: bytes) -> int:
        """The number of a string; new ones are numbered on."""
        return self._known.setdefault(piece, len(self._known))


def parse_answer(response: Response, backend: str, local: LocalIds) -> ParsedAnswer:
    """Columns of an answer; ``Refusal`` when a point of the layout does not hold."""
    if len(response.choices) != 1:
        raise Refusal(f"the answer has {len(response.choices)} choices where the harness asks for one")
    choice = response.choices[0]
    if choice.finish_reason not in ("stop", "length"):
        raise Refusal(f"finish_reason is {choice.finish_reason!r} and not stop or length")
    logprobs = choice.logprobs
    if logprobs is not None and logprobs.content:
        if backend != "llamacpp":
            raise Refusal("a vLLM answer carries llama.cpp's token entries")
        columns = _from_entries(logprobs.content, response.usage.completion_tokens)
        identity = Identity.TOKEN_ID
    elif logprobs is not None and logprobs.tokens:
        if backend != "vllm":
            raise Refusal("a llama.cpp answer carries vLLM's token strings")
        columns = _from_strings(logprobs, local)
        identity = Identity.TOKEN_STRING
    else:
        columns = _from_text(choice.text, local)
        identity = Identity.TEXT
    path, alternatives, pieces = columns
    stop = StopReason.STOP if choice.finish_reason == "stop" else StopReason.LENGTH
    cached = _cached_tokens(response)
    return ParsedAnswer(identity, path, alternatives, pieces, choice.text, stop, cached)


Columns = tuple[PathColumns, Alternatives | None, dict[int, bytes]]


def _from_entries(entries: Sequence[TokenEntry], completion_tokens: int) -> Columns:
    if len(entries) > completion_tokens:
        raise Refusal(f"{len(entries)} token entries for {completion_tokens} completion tokens")
    pieces: dict[int, bytes] = {}
    for entry in entries:
        for one in (entry, *entry.top_logprobs):
            pieces[one.id] = _piece(one)
    flags = np.full(len(entries), PositionFlag.VALUE, np.uint8)
    if len(entries) < completion_tokens:
        # Which entry swallowed another is not known, so no position of this answer is a token.
        flags |= np.uint8(PositionFlag.MERGED)
    k = max(len(entry.top_logprobs) for entry in entries)
    ids = np.full((len(entries), k), -1, np.int32)
    values = np.full((len(entries), k), -np.inf, np.float32)
    counts = np.zeros(len(entries), np.uint8)
    for row, entry in enumerate(entries):
        top = entry.top_logprobs
        if any(first.logprob < second.logprob for first, second in pairwise(top)):
            raise Refusal("top_logprobs are not sorted by falling logprob")
        counts[row] = len(top)
        ids[row, : len(top)] = [one.id for one in top]
        values[row, : len(top)] = [one.logprob for one in top]
        if top:
            flags[row] |= np.uint8(PositionFlag.ALTERNATIVES)
        if len(top) > 1 and top[0].logprob == top[1].logprob:
            flags[row] |= np.uint8(PositionFlag.EXACT_TIE)
    path = PathColumns(
        token_ids=np.array([entry.id for entry in entries], np.int32),
        flags=flags,
        chosen_values=np.array([entry.logprob for entry in entries], np.float32),
    )
    return path, Alternatives(ids, values, counts) if k else None, pieces


def _piece(entry: TokenEntry) -> bytes:
    if entry.bytes is None:
        return entry.token.encode("utf-8", "surrogatepass")
    if any(not 0 <= b <= 255 for b in entry.bytes):
        raise Refusal("the bytes of a token entry are not bytes")
    return bytes(entry.bytes)


def _from_strings(logprobs: Logprobs, local: LocalIds) -> Columns:
    tokens, values = logprobs.tokens or [], logprobs.token_logprobs
    if values is None or len(values) != len(tokens):
        raise Refusal("token_logprobs is not as long as tokens")
    offsets, top = logprobs.text_offset, logprobs.top_logprobs
    if offsets is not None and (len(offsets) != len(tokens) or offsets != sorted(offsets)):
        raise Refusal("text_offset does not rise along with tokens")
    if top is not None and len(top) != len(tokens):
        raise Refusal("top_logprobs is not as long as tokens")
    encoded = [token.encode("utf-8", "surrogatepass") for token in tokens]
    ids = np.array([local.of(piece) for piece in encoded], np.int32)
    pieces = dict(zip(ids.tolist(), encoded, strict=True))
    seen = np.array([value is not None for value in values])
    chosen = np.array([np.nan if value is None else value for value in values], np.float32)
    flags = np.where(seen, PositionFlag.VALUE, 0).astype(np.uint8)
    path = PathColumns(token_ids=ids, flags=flags, chosen_values=chosen)
    return path, _string_alternatives(top, local, pieces), pieces


def _string_alternatives(
    top: Sequence[dict[str, float] | None] | None, local: LocalIds, pieces: dict[int, bytes]
) -> Alternatives | None:
    if top is None:
        return None
    k = max((len(row) for row in top if row), default=0)
    if not k:
        return None
    ids = np.full((len(top), k), -1, np.int32)
    values = np.full((len(top), k), -np.inf, np.float32)
    counts = np.zeros(len(top), np.uint8)
    for place, row in enumerate(top):
        ordered = sorted((row or {}).items(), key=lambda item: -item[1])
        counts[place] = len(ordered)
        for rank, (token, value) in enumerate(ordered):
            piece = token.encode("utf-8", "surrogatepass")
            ids[place, rank], values[place, rank] = local.of(piece), value
            pieces[int(ids[place, rank])] = piece
    return Alternatives(ids, values, counts)


def _from_text(text: str, local: LocalIds) -> Columns:
    piece = text.encode("utf-8", "surrogatepass")
    if not piece:
        return PathColumns(np.empty(0, np.int32), np.empty(0, np.uint8)), None, {}
    number = local.of(piece)
    return PathColumns(np.array([number], np.int32), np.zeros(1, np.uint8)), None, {number: piece}


def _cached_tokens(response: Response) -> int | None:
    """The engine's count; null is not observed and never 0. Two counts must agree."""
    details = response.usage.prompt_tokens_details
    said = details.cached_tokens if details is not None else None
    timed = response.timings.cache_n if response.timings is not None else None
    if said is not None and timed is not None and said != timed:
        raise Refusal(f"usage says {said} cached tokens and timings say {timed}")
    found = said if said is not None else timed
    if found is not None and not 0 <= found <= response.usage.prompt_tokens:
        raise Refusal(f"{found} cached tokens of {response.usage.prompt_tokens} prompt tokens")
    return found


def require(holds: bool, why: str) -> None:
    """Refuse when a point of the layout does not hold."""
    if not holds:
        raise Refusal(why)
