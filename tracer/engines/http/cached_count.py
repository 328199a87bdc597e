"""How many prompt tokens a server says it reused: a number, zero, or not observed.

Which field may be believed depends on who sends it: some send a constant 0, some send null for
"not counted", some count what the slot holds afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracer.engines.http.assemble import AnswerParts
from tracer.episode import ExposureSource


@dataclass(frozen=True, slots=True)
class CachedCount:
    """Prompt tokens in all and from a cache. None = the server does not say."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    source: ExposureSource = ExposureSource.NOT_OBSERVED
    note: str | None = None


def cached_count(parts: AnswerParts) -> CachedCount:
    """The best account in an answer; disagreements between two accounts are noted."""
    count = _count(parts)
    if (
        count.cached_tokens is not None
        and count.prompt_tokens is not None
        and count.cached_tokens > count.prompt_tokens
    ):
        note = f"the server says {count.cached_tokens} cached of only {count.prompt_tokens} prompt tokens"
        return CachedCount(count.prompt_tokens, count.cached_tokens, count.source, _join(count.note, note))
    return count


def _count(parts: AnswerParts) -> CachedCount:
    prompt, in_usage, note = _from_usage(parts)
    timings, native = parts.timings, parts.native
    if timings is not None and timings.cache_n is not None:
        computed = timings.prompt_n
        total = timings.cache_n + computed if computed is not None else prompt
        if in_usage is not None and in_usage != timings.cache_n:
            note = f"timings say {timings.cache_n} cached tokens, usage says {in_usage}"
        elif prompt is not None and total is not None and prompt != total:
            note = f"timings account for {total} prompt tokens, usage for {prompt}"
        return CachedCount(total, timings.cache_n, ExposureSource.ENGINE, note)
    if parts.sglang is not None:
        meta = parts.sglang
        source = ExposureSource.NOT_OBSERVED if meta.cached_tokens is None else ExposureSource.ENGINE
        return CachedCount(meta.prompt_tokens, meta.cached_tokens, source)
    if native is not None and native.done is not None:
        return _from_ollama(parts)
    if native is not None and prompt is None:
        return CachedCount(native.tokens_evaluated)
    source = ExposureSource.USAGE if in_usage is not None else ExposureSource.NOT_OBSERVED
    return CachedCount(prompt, in_usage, source, note)


def _from_usage(parts: AnswerParts) -> tuple[int | None, int | None, str | None]:
    """(prompt tokens, cached tokens, note) of the usage object in any of its three dialects."""
    usage = parts.usage
    if usage is None:
        return None, None, None
    if usage.cache_read_input_tokens is not None:
        created = usage.cache_creation_input_tokens or 0
        rest = usage.input_tokens
        total = None if rest is None else rest + usage.cache_read_input_tokens + created
        return total, usage.cache_read_input_tokens, None
    if usage.prompt_tokens is not None:
        details = usage.prompt_tokens_details
        return usage.prompt_tokens, details.cached_tokens if details is not None else None, None
    details = usage.input_tokens_details
    if details is None or not details.cached_tokens:
        # vLLM's responses route sends a constant 0 here, so 0 says nothing.
        return usage.input_tokens, None, "the responses route does not count cached tokens reliably"
    return usage.input_tokens, details.cached_tokens, None


def _from_ollama(parts: AnswerParts) -> CachedCount:
    native = parts.native
    assert native is not None
    if native.prompt_eval_cached_count is not None:
        return CachedCount(native.prompt_eval_count, native.prompt_eval_cached_count, ExposureSource.ENGINE)
    # Whether prompt_eval_count includes reused tokens depends on the version; 0 or absence say nothing.
    return CachedCount(
        native.prompt_eval_count or None, note="this server does not say how many prompt tokens it reused"
    )


def _join(first: str | None, second: str) -> str:
    return f"{first}; {second}" if first else second
