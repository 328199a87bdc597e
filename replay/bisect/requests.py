"""Which recorded requests a bisect asks: few and short, since every candidate has to serve them twice."""

from __future__ import annotations

from collections.abc import Sequence

from replay.recorded_source import RecordedSource
from replay.verdicts import RequestVerdict, Verdict
from tracer.episode import Outcome, Priming, Request
from tracer.errors import UsageError
from tracer.request_source import Answer, AnswerDigest, PlannedRequest

FEW = 4
"""Episodes of so many requests are asked whole."""
LOOKED_AT = 12
"""Of longer ones the default configuration is looked at over so many requests first."""
DIFFERENT = (Verdict.FLIPPED, Verdict.DRIFTED)
LENGTHS = 3
"""So many differing requests of different prompt lengths are enough to try candidates on."""


class SelectedRequests:
    """A ``RequestSource``: some requests of a recorded arm, in order."""

    def __init__(self, source: RecordedSource, selected: Sequence[int]) -> None:
        self._source = source
        self._selected = frozenset(selected)
        self._next = 0

    @property
    def planned(self) -> int | None:
        return len(self._selected)

    def next_request(self) -> PlannedRequest | None:
        """The next selected request."""
        while (planned := self._source.next_request()) is not None:
            self._next += 1
            if self._next - 1 in self._selected:
                return planned
        return None

    def digest(self, answer: Answer) -> AnswerDigest:
        """As the recorded source does."""
        return self._source.digest(answer)

    def outcome(self) -> Outcome | None:
        """Some of the requests do not lead to an outcome."""
        return None


def askable(requests: Sequence[Request]) -> tuple[int, ...]:
    """The recorded requests up to the first that failed."""
    found: list[int] = []
    for request in requests:
        if request.error is not None:
            break
        found.append(request.index)
    return tuple(found)


def asked_for(text: str, there: Sequence[int], priming: Priming) -> tuple[int, ...]:
    """The requests that ``--requests`` names, each with the one before it where that fills its cache.

    Raises ``UsageError`` when a request is not there.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() for word in words):
        raise UsageError("--requests takes numbers with commas, counted from 0, for instance 1,2,4.")
    wanted = {int(word) for word in words}
    missing = sorted(wanted - set(there))
    if missing:
        raise UsageError(f"there is no request {missing[0]} to ask: the recording has {len(there)}, from 0.")
    if priming is Priming.OWN:
        wanted |= {index - 1 for index in wanted if index > 0}
    return tuple(sorted(wanted))


def shortest_differing(
    verdicts: Sequence[RequestVerdict], requests: Sequence[Request], priming: Priming
) -> tuple[int, ...]:
    """Of requests that were looked at, the ones to try candidates on.

    The shortest that flipped, and the shortest others that differ, up to ``LENGTHS`` different prompt
    lengths. With the priming ``own`` all requests up to the last of them are asked, so that each meets
    the cache that it met in the episode.
    """
    lengths = {request.index: request.prompt_tokens or 0 for request in requests}
    differing = [v for v in verdicts if v.verdict in DIFFERENT]
    by_length = sorted(differing, key=lambda v: (lengths[v.request], v.request))
    flips = [v for v in by_length if v.verdict is Verdict.FLIPPED]
    chosen: dict[int, int] = {}
    for verdict in (*flips[:1], *by_length):
        if len(chosen) < LENGTHS:
            chosen.setdefault(lengths[verdict.request], verdict.request)
    targets = sorted(chosen.values())
    return tuple(range(targets[-1] + 1)) if priming is Priming.OWN else tuple(targets)
