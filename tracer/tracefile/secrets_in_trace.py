"""Where a trace holds text that looks like a secret: in descriptions, and in the tokens themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracer.tracefile.reader import TraceReader
from tracer.tracefile.scrub import secret_spans


class LikelySecret(Struct, frozen=True, kw_only=True):
    """A place that should be looked at before the trace is given away. The secret is not repeated."""

    sentence: str
    arm: int | None = None
    request: int | None = None


def find_likely_secrets(trace: TraceReader) -> Iterator[LikelySecret]:
    """Every description, recorded body, prompt and output with a likely secret, once a request."""
    for kind in _kinds(msgspec.to_builtins(trace.episode)):
        yield LikelySecret(sentence=f"the episode's description holds what looks like a {kind}.")
    for arm in trace.arms:
        description = {**msgspec.to_builtins(arm), "end": msgspec.to_builtins(trace.end(arm))}
        for kind in _kinds(description):
            yield LikelySecret(
                sentence=f"arm {arm.index}: its description holds what looks like a {kind}.", arm=arm.index
            )
        for request in trace.requests(arm):
            kinds = set(_kinds(msgspec.to_builtins(request, builtin_types=(bytes,))))
            tokens = trace.path(arm, request.index).token_ids
            tail = trace.prompt_ids(arm, request.index)
            if tail is not None and request.prompt is not None:
                # What is in common with an earlier prompt was looked at there.
                tail = tail[max(0, request.prompt.common_tokens - 64) :]
            for ids in (tokens, tail):
                if ids is not None:
                    kinds |= {kind for _, _, kind in token_secret_spans(trace, ids)}
            for kind in sorted(kinds):
                sentence = f"arm {arm.index}, request {request.index} holds what looks like a {kind}."
                yield LikelySecret(sentence=sentence, arm=arm.index, request=request.index)


def token_secret_spans(trace: TraceReader, ids: NDArray[np.int32]) -> list[tuple[int, int, str]]:
    """Spans (first token, token after the last, kind) whose bytes spell a likely secret."""
    pieces = [trace.piece(token) or b"" for token in ids.tolist()]
    # The patterns are ASCII, so bytes and characters of Latin-1 have the same positions.
    text = b"".join(pieces).decode("latin-1")
    spans = secret_spans(text)
    if not spans:
        return []
    ends = np.cumsum([len(piece) for piece in pieces])
    return [
        (int(np.searchsorted(ends, start, "right")), int(np.searchsorted(ends, end, "left")) + 1, kind)
        for start, end, kind in spans
    ]


def _kinds(described: Any) -> list[str]:
    return sorted({kind for text in _texts(described) for _, _, kind in secret_spans(text)})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(name)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
