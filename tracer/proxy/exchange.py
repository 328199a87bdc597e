"""One request and its answer as they passed through the proxy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tracer.engines.http.additions import Added, Route


@dataclass(slots=True)
class Exchange:
    """Filled while it passes; given to the recording when the client has its last byte.

    ``answer`` holds the upstream's bytes as they came: a whole body, or the stream's events.
    Times: Unix seconds for ``started_at``, else seconds on the monotonic clock.
    """

    number: int
    """Order of arrival, from 0."""
    episode: str
    path: str
    route: Route
    fields: dict[str, Any]
    body: bytes
    """The client's own body, byte for byte."""
    added: frozenset[Added]
    top_k: int | None
    streamed: bool
    started_at: float
    arrived: float
    upstream_s: float = 0.0
    """Time spent waiting for the upstream."""
    finished: float | None = None
    first_byte: float | None = None
    status: int | None = None
    answer: bytearray = field(default_factory=bytearray)
    answer_is_stream: bool = False
    broken: str | None = None
    """How the exchange ended if not properly."""
    overlapped: bool = False
    """Other requests were in flight at the same time."""

    @property
    def wall_s(self) -> float | None:
        """Arrival of the request to the last byte for the client."""
        return None if self.finished is None else self.finished - self.arrived

    @property
    def added_s(self) -> float | None:
        """What of the wall time was ours."""
        wall = self.wall_s
        return None if wall is None else max(wall - self.upstream_s, 0.0)
