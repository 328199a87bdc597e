"""Where an episode first differs: the request, and the token when the difference is one of tokens."""

from __future__ import annotations

from msgspec import Struct

from replay.verdicts import Comparison, Verdict

_DIFFERENT = (Verdict.FLIPPED, Verdict.PROMPT_CHANGED, Verdict.DOWNSTREAM)


class FirstDifference(Struct, frozen=True, kw_only=True):
    """Indices count from 0. ``token`` is None when the prompt changed with no flip before it."""

    request: int
    token: int | None


def first_difference(comparison: Comparison) -> FirstDifference | None:
    """The first request that differs; None when none does."""
    first = next((r for r in comparison.requests if r.verdict in _DIFFERENT), None)
    if first is None:
        return None
    return FirstDifference(request=first.request, token=first.flip.position if first.flip else None)
