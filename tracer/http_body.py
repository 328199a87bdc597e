"""A recorded request body, to be sent again on the same route (the way ``body``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class HttpBody:
    """What a client sent: its route and its bytes, without headers."""

    route: str
    content: bytes

    def fields(self) -> dict[str, Any]:
        """The body parsed. Raises ``UsageError`` when it is no JSON object (a redacted or torn one)."""
        import json

        from tracer.errors import UsageError

        try:
            fields = json.loads(self.content)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise UsageError("a recorded body is no JSON object, so it cannot be sent again.")
        return fields


@runtime_checkable
class BodyEngine(Protocol):
    """An engine that can serve a recorded body, with only its cache fields changed."""

    def body_prompt_ids(self, body: HttpBody) -> tuple[int, ...] | None:
        """The prompt's ids as the server will make them, without serving it; None if it cannot say."""
        ...
