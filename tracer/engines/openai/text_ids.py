"""Prompts as ids where no tokenizer is known: one local id for each byte of the request's JSON.

They are no tokens and are never shown as such. They let a prompt be stored, compared and replayed
exactly, in another process too, since the id of a byte is always the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tracer.engines.http.local_ids import LocalIds
from tracer.episode import Message
from tracer.errors import UsageError


class TextIds:
    """Text to local ids and back; the same table also names token strings of answers."""

    def __init__(self) -> None:
        self.local_ids = LocalIds()
        self._of_byte = [self.local_ids.id_of(bytes([byte])) for byte in range(256)]
        self._to_byte = {local_id: byte for byte, local_id in enumerate(self._of_byte)}

    def ids(self, text: str) -> list[int]:
        """One id for each byte."""
        return [self._of_byte[byte] for byte in text.encode()]

    def text(self, ids: Sequence[int]) -> str | None:
        """The text of such ids; None when others are among them."""
        spelled = [self._to_byte.get(local_id) for local_id in ids]
        if any(byte is None for byte in spelled):
            return None
        return bytes(byte for byte in spelled if byte is not None).decode("utf-8", "replace")


def render(messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None) -> str:
    """Messages and tools as the JSON that goes into the request's body."""
    body: dict[str, Any] = {"messages": [{"role": m.role, "content": m.content} for m in messages]}
    if tools:
        body["tools"] = [
            tool if "function" in tool else {"type": "function", "function": tool} for tool in tools
        ]
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def body_of(text: str | None) -> dict[str, Any]:
    """The part of a body that a prompt stands for. Raises ``UsageError`` when it is none."""
    try:
        body = None if text is None else json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        raise UsageError(
            "An endpoint of OpenAI's shape takes messages and no token ids: record with --history messages, "
            "and replay there only what was recorded there."
        )
    return {key: body[key] for key in ("messages", "tools") if key in body}
