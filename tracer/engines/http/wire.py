"""The shapes of answers on the wire, decoded by content and not by endpoint.

One permissive struct covers llama.cpp's native answer, chat and completions (OpenAI, vLLM,
llama.cpp's own variants), SGLang's and Ollama's native answers and Anthropic's. A whole body and
one event of a stream have the same shape. Unknown fields are skipped without being built.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tracer.errors import EngineError


class WireError(EngineError):
    """An answer is no JSON, or none of the shapes that are known."""


TokenId = Annotated[int, Meta(ge=0, lt=1 << 31)]


class TopEntry(Struct, gc=False):
    """One alternative: named by id, by string, by bytes, or by several of them."""

    id: TokenId | None = None
    token_id: TokenId | None = None
    token: str | None = None
    tok_str: str | None = None
    bytes: list[int] | None = None
    logprob: float | None = None
    prob: float | None = None


class TokenEntry(TopEntry, gc=False):
    """The numbers of one position; which list it has tells who sent it."""

    content: str | None = None
    """Old llama.cpp: the chosen piece."""
    top_logprobs: list[TopEntry] | None = None
    top_probs: list[TopEntry] | None = None
    probs: list[TopEntry] | None = None


class Logprobs(Struct):
    """Chat-shaped (``content``) or the legacy four arrays of completions."""

    content: list[TokenEntry] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float | None] | None] | None = None


class WireMessage(Struct):
    """A chat message, or the part of one that a stream's event brings."""

    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[Any] | None = None


class WireChoice(Struct):
    """One of ``n`` answers."""

    index: int = 0
    text: str | None = None
    message: WireMessage | None = None
    delta: WireMessage | None = None
    logprobs: Logprobs | None = None
    finish_reason: str | None = None
    token_ids: list[TokenId] | None = None
    prompt_token_ids: list[TokenId | None] | None = None


class TokenDetails(Struct):
    """``cached_tokens`` absent or null = the server does not say."""

    cached_tokens: int | None = None


class Usage(Struct):
    """Token counts under the names of OpenAI, of the responses route, and of Anthropic."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: TokenDetails | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: TokenDetails | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class Timings(Struct):
    """llama.cpp's own account of a request; times in milliseconds."""

    cache_n: int | None = None
    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None


class PromptProgress(Struct):
    """llama.cpp with ``return_progress``."""

    total: int = 0
    cache: int = 0
    processed: int = 0


class SglangMeta(Struct):
    """SGLang's ``meta_info``: triples of logprob, id and text."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: Any = None
    output_token_logprobs: list[tuple[float | None, TokenId, str | None]] | None = None
    output_top_logprobs: list[list[tuple[float | None, TokenId, str | None]] | None] | None = None


class WireAnswer(Struct):
    """A whole answer or one event of a stream."""

    object: str | None = None
    type: str | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    choices: list[WireChoice] | None = None
    usage: Usage | None = None
    error: Any = None
    detail: Any = None
    prompt_token_ids: list[int | None] | None = None
    # llama.cpp, native
    index: int | None = None
    content: str | list[Any] | None = None
    tokens: list[TokenId] | None = None
    completion_probabilities: list[TokenEntry] | None = None
    timings: Timings | None = None
    stop: bool | None = None
    stop_type: str | None = None
    stopping_word: str | None = None
    truncated: bool | None = None
    tokens_predicted: int | None = None
    tokens_evaluated: int | None = None
    tokens_cached: int | None = None
    """What the slot holds afterwards. NOT exposure."""
    id_slot: int | None = None
    generation_settings: dict[str, Any] | None = None
    prompt_progress: PromptProgress | None = None
    # SGLang, native
    text: str | None = None
    output_ids: list[TokenId] | None = None
    meta_info: SglangMeta | None = None
    # Ollama, native
    response: str | None = None
    message: WireMessage | str | None = None
    context: list[int] | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    prompt_eval_cached_count: int | None = None
    eval_count: int | None = None
    # responses route
    output: list[Any] | None = None
    stop_reason: str | None = None


_DECODER: msgspec.json.Decoder[WireAnswer | list[WireAnswer]] = msgspec.json.Decoder(
    WireAnswer | list[WireAnswer]
)


def decode_wire(body: bytes) -> tuple[list[WireAnswer], str | None]:
    """The answers in a body (SGLang sends a list for ``n`` > 1), and what had to be mended.

    Bare NaN and Infinity, invalid UTF-8 and lone surrogates are accepted; ids and logprobs of an
    unknown form are dropped and named. Raises ``WireError`` for anything else.
    """
    note = None
    try:
        decoded = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        plain = _plain(body)
        try:
            decoded = _convert(plain)
        except msgspec.ValidationError as problem:
            note = f"the ids or logprobs have a form that is not known ({problem})"
            try:
                decoded = _convert(_without_logprobs(plain))
            except msgspec.ValidationError as final:
                raise WireError(f"The server's answer has a form that is not known: {final}.") from final
    except RecursionError:
        raise WireError("The server's answer is nested too deep to be read.") from None
    return (decoded if isinstance(decoded, list) else [decoded]), note


def _convert(plain: Any) -> WireAnswer | list[WireAnswer]:
    if not isinstance(plain, dict | list):
        raise WireError("The server's answer is JSON but neither an object nor a list.")
    return msgspec.convert(plain, WireAnswer | list[WireAnswer], strict=False)


def _plain(body: bytes) -> Any:
    """What JSON's stricter reader refuses: bare NaN, broken UTF-8, lone surrogates."""
    if not body.strip():
        raise WireError("The server answered with an empty body.")
    try:
        return _joined(json.loads(body.decode("utf-8", "replace")))
    except ValueError as problem:
        raise WireError(f"The server's answer is no JSON: {problem}.") from problem
    except RecursionError:
        raise WireError("The server's answer is nested too deep to be read.") from None


def _joined(value: Any) -> Any:
    """Lone halves of surrogate pairs cannot be stored; they become U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_joined(item) for item in value]
    if isinstance(value, dict):
        return {_joined(key): _joined(item) for key, item in value.items()}
    return value


_NUMBERS = (
    "logprobs",
    "completion_probabilities",
    "meta_info",
    "tokens",
    "token_ids",
    "output_ids",
    "prompt_token_ids",
)


def _without_logprobs(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_without_logprobs(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    kept = {key: value for key, value in plain.items() if key not in _NUMBERS}
    if isinstance(kept.get("choices"), list):
        kept["choices"] = [_without_logprobs(choice) for choice in kept["choices"]]
    return kept
