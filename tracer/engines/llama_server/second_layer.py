"""Whether an attached server has its second layer on: no route says it, so it is seen.

Two short texts with nothing in common are sent in turn, and the first one again. Only a second
layer can bring the first one back, since the slot held the other one in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tracer.engines.http.answer import Asked, parse_body
from tracer.engines.http.endpoint import Endpoint
from tracer.engines.http.refusals import refusal_of

_ONE = "Amber lanterns sway above the quiet harbour while gulls circle slowly."
_OTHER = "Seven copper kettles whistle; nobody in the long kitchen notices them."

Tokenize = Callable[[Endpoint, str], Sequence[int]]


@dataclass(frozen=True, slots=True)
class SeenLayer:
    """``on``: None = it could not be told. ``held``: what the slot holds after looking."""

    on: bool | None
    held: tuple[int, ...] | None = None


def see_second_layer(endpoint: Endpoint, tokenize: Tokenize, slot: int | None) -> SeenLayer:
    """Three requests of about 15 tokens each. They replace what the slot held."""
    one, other = (tuple(tokenize(endpoint, text)) for text in (_ONE, _OTHER))
    cached = [occupy(endpoint, prompt, slot, use_cache=True) for prompt in (one, other, one)]
    if cached[1] != 0 or cached[2] is None:
        return SeenLayer(None)
    return SeenLayer(cached[2] > 0, one)


def overwrite(endpoint: Endpoint, tokenize: Tokenize, slot: int | None) -> tuple[int, ...] | None:
    """Make the slot hold a short text that no real prompt begins with; returns what it holds."""
    prompt = tuple(tokenize(endpoint, _ONE))
    return prompt if occupy(endpoint, prompt, slot, use_cache=False) == 0 else None


def occupy(endpoint: Endpoint, prompt: tuple[int, ...], slot: int | None, *, use_cache: bool) -> int | None:
    """Serve one token, so that the slot then holds the prompt; cached tokens, None = not told."""
    body: dict[str, Any] = {
        "prompt": list(prompt),
        "n_predict": 1,
        "temperature": 0,
        "cache_prompt": use_cache,
        "return_tokens": True,
    }
    if slot is not None:
        body["id_slot"] = slot
    reply = endpoint.post("/completion", body)
    if not reply.ok:
        raise refusal_of(reply.status, reply.body)
    return parse_body(reply.body, Asked(top_k=0)).count.cached_tokens
