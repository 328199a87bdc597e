"""How long two arms agree: the share of requests without a flip up to each output token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct


class Survival(Struct, frozen=True, kw_only=True):
    """A step curve: after ``times[i]`` tokens the share ``agreeing[i]`` still agrees."""

    times: tuple[int, ...]
    agreeing: tuple[float, ...]
    at_risk: tuple[int, ...]
    requests: int
    flips: int


def survival_of_agreement(agreed_tokens: Sequence[int], flipped: Sequence[bool]) -> Survival | None:
    """Kaplan-Meier estimate; None without requests.

    agreed_tokens[i]: tokens of request i that agree before its flip, or all of them when none flipped;
    such requests end unflipped and are censored there.
    Source: E. L. Kaplan, P. Meier, JASA 53 (1958) 457-481.
    """
    if not agreed_tokens:
        return None
    tokens = np.asarray(agreed_tokens, dtype=np.int64)
    events = np.asarray(flipped, dtype=bool)
    times = np.unique(tokens[events])
    at_risk = np.array([int(np.count_nonzero(tokens >= t)) for t in times], dtype=np.int64)
    flips = np.array([int(np.count_nonzero(events & (tokens == t))) for t in times], dtype=np.int64)
    agreeing = np.cumprod(1 - flips / np.maximum(at_risk, 1))
    return Survival(
        times=tuple(times.tolist()),
        agreeing=tuple(agreeing.tolist()),
        at_risk=tuple(at_risk.tolist()),
        requests=len(tokens),
        flips=int(events.sum()),
    )
