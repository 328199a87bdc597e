"""Other clients of a server that we did not start: their requests change what a cache holds."""

from __future__ import annotations

from typing import Any

from tracer.engines.http.endpoint import Endpoint


class TrafficWatch:
    """Looks at the slots between our requests. The server numbers its tasks, so none goes unseen."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._last: dict[int, int] | None = None
        self.blind: str | None = None
        """Why other traffic cannot be seen; None while it can."""

    def before_request(self) -> str | None:
        """What others did since our last request; None = nothing, or it cannot be seen."""
        slots = self._slots()
        if slots is None:
            return None
        busy = [slot["id"] for slot in slots if slot.get("is_processing") is True]
        if busy:
            return "another client's request was running on this server"
        seen = _tasks(slots)
        if self._last is not None and seen != self._last:
            return "another client used this server between our requests"
        return None

    def after_request(self) -> None:
        """Remember how our own request left the slots."""
        slots = self._slots()
        self._last = None if slots is None else _tasks(slots)

    def _slots(self) -> list[dict[str, Any]] | None:
        if self.blind is not None:
            return None
        reply = self._endpoint.get("/slots")
        slots = reply.json() if reply.ok else None
        if not isinstance(slots, list) or not all(isinstance(s, dict) and "id" in s for s in slots):
            self.blind = "the server does not show its slots (start it with --slots)"
            return None
        return slots


def _tasks(slots: list[dict[str, Any]]) -> dict[int, int]:
    """The last task of each slot; absent before its first request."""
    return {slot["id"]: slot["id_task"] for slot in slots if isinstance(slot.get("id_task"), int)}
