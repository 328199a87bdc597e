"""The sentence that explains a flip, in plain words.

For instance: "`Paris` led by 0.011 when cold; `paris` leads by 0.032 when warm; the logits moved by
up to 0.62". Tokens are hostile text and go through ``tracer.clean_text`` here.
"""

from __future__ import annotations

import math

from replay.verdicts import Flip, FlipSide
from tracer.clean_text import token
from tracer.episode import Arm, CacheState, Scale

_WHEN = {
    CacheState.COLD: "when cold",
    CacheState.WARM: "when warm",
    CacheState.NO_PROMPT_CACHE: "without the prompt cache",
    CacheState.SNAPSHOT: "from the snapshot",
    CacheState.AS_SERVED: "as served",
}


def explain(flip: Flip, a: Arm, b: Arm) -> str:
    """One sentence without a full stop; never a number that was not observed."""
    when_a, when_b = _when(a, b)
    parts = [
        _side(flip.a, flip.b, when_a, "led", "was chosen", "the answer had ended"),
        _side(flip.b, flip.a, when_b, "leads", "is chosen", "the answer has ended"),
        _moved(flip),
    ]
    return "; ".join(parts)


def amount(value: float) -> str:
    """A margin or drift with two significant digits, without an exponent down to 0.0001."""
    if not math.isfinite(value):
        return "more than any number"
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.2g}"


def _when(a: Arm, b: Arm) -> tuple[str, str]:
    """How to name both sides: by state where that tells them apart, else by label."""
    if a.state is not b.state:
        return _WHEN[a.state], _WHEN[b.state]
    if a.label != b.label:
        return f"in {a.label}", f"in {b.label}"
    return f"in arm {a.index}", f"in the other arm {b.index}"


def _side(own: FlipSide, other: FlipSide, when: str, leads: str, chosen: str, ended: str) -> str:
    if own.token_id is None:
        return f"{ended} {when}"
    token = named_token(own)
    if own.forced:
        return f"{token} was forced {when}, so it has no margin there"
    if own.margin is None:
        return f"{token} {chosen} {when} (margin not observed: {own.why_no_margin})"
    if own.exact_tie:
        rival = named_token(other) if other.token_id is not None and own.other_rank == 1 else "the next token"
        return f"{token} and {rival} {'were' if leads == 'led' else 'are'} exactly tied {when}"
    return f"{token} {leads} by {amount(own.margin)} {when}"


def _moved(flip: Flip) -> str:
    what = "log-probabilities" if flip.scale is Scale.LOGPROB else "logits"
    if flip.drift_at is not None:
        if not math.isfinite(flip.drift_at):
            return f"the {what} are not finite in one of them"
        return f"the {what} moved by up to {amount(flip.drift_at)}"
    if flip.drift_before is not None:
        of = "" if flip.drift_from is None else flip.drift_from.of
        return f"before this token the {what}{of} moved by up to {amount(flip.drift_before)}"
    return f"how far the {what} moved was not observed"


def named_token(side: FlipSide) -> str:
    """The token in backticks as it may be shown, spaces visible; ‹id› when its text is not known."""
    return f"`{token(side.token_id, side.piece)}`"
