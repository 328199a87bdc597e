"""From the server's parsed answer to what the arm loop writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracer.engines.base import GenerateCall, Generation
from tracer.engines.http.answer import ParsedAnswer
from tracer.engines.http.refusals import HttpRefusal, error_object
from tracer.episode import ExposureSource, Timing
from tracer.exposure import expected_tokens


def generation_of(
    call: GenerateCall,
    parsed: ParsedAnswer,
    *,
    held: Sequence[int] | None,
    interference: str | None,
    timing: Timing,
) -> Generation:
    """``held``: what the slot held before, if nobody but us can have changed it; else None."""
    if not parsed.choices:
        raise HttpRefusal(error_object("the server answered without a completion", 200))
    choice, count = parsed.choices[0], parsed.count
    notes = [note for note in (count.note, interference, *parsed.notes) if note]
    if count.prompt_tokens is not None and count.prompt_tokens != len(call.prompt_ids):
        notes.append(
            f"the server counts {count.prompt_tokens} prompt tokens, {len(call.prompt_ids)} were sent"
        )
    notes += _other_sampling(call, parsed)
    not_observed = dict(choice.not_observed)
    if call.keep_rows:
        not_observed["rows"] = "the server does not give whole rows"
    extra: dict[str, Any] = {"truncated": True} if parsed.truncated else {}
    return Generation(
        path=choice.path,
        alternatives=choice.alternatives,
        scale=choice.scale,
        stop=choice.stop,
        text=choice.text,
        identity=choice.identity,
        prompt_tokens=len(call.prompt_ids),
        cached_tokens=count.cached_tokens,
        exposure_source=count.source if count.cached_tokens is not None else ExposureSource.NOT_OBSERVED,
        exposure_note="; ".join(notes) or None,
        prompt_cache_tokens=_from_second_layer(call, count.cached_tokens, held),
        pieces=choice.pieces,
        timing=timing,
        not_observed=not_observed,
        extra=extra,
        error=parsed.error,
    )


def _from_second_layer(call: GenerateCall, cached: int | None, held: Sequence[int] | None) -> int | None:
    """Cached tokens beyond what the slot itself held: nobody else can have brought them back."""
    if cached is None or held is None:
        return None
    return max(cached - (expected_tokens(held, call.prompt_ids) or 0), 0)


def _other_sampling(call: GenerateCall, parsed: ParsedAnswer) -> list[str]:
    """The server echoes what it used; a setting that was not taken over would be a silent cause."""
    asked = {"temperature": call.sampling.temperature, "seed": call.sampling.seed}
    used = parsed.effective_sampling
    return [
        f"the server used {name} {used[name]} instead of {value}"
        for name, value in asked.items()
        if value is not None and name in used and used[name] != value
    ]
