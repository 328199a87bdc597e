"""Text and tokens through vLLM: its routes give ids for messages, and text for ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracer.engines.http.endpoint import Endpoint
from tracer.engines.http.pieces import SEPARATOR, PieceBook
from tracer.engines.http.refusals import refusal_of
from tracer.episode import Message
from tracer.errors import EngineError


class VllmVocabulary:
    """Rendering is done by asking for the ids of the messages and for the text of those ids."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self.book = PieceBook()
        self._endpoint = endpoint
        self._model = model
        self._separator_ids: list[int] | None = None

    def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None) -> str:
        """The chat template's text, ending in the generation prompt."""
        body: dict[str, Any] = {
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            "add_generation_prompt": True,
        }
        if tools:
            body["tools"] = [
                tool if "function" in tool else {"type": "function", "function": tool} for tool in tools
            ]
        text = self._spell(self._ids(body))
        if text is None:
            raise EngineError("The server's /detokenize answered without text.")
        return text

    def tokenize(self, text: str) -> list[int]:
        """Ids of a text; special tokens in it are parsed, none is added."""
        return self._ids({"prompt": text, "add_special_tokens": False})

    def piece(self, token_id: int) -> bytes | None:
        """The token's bytes; None when the server cannot spell them (parts of a character)."""
        return self.book.piece(token_id, self._spell, self._separator)

    def _separator(self) -> Sequence[int]:
        if self._separator_ids is None:
            self._separator_ids = self.tokenize(SEPARATOR)
        return self._separator_ids

    def _ids(self, body: dict[str, Any]) -> list[int]:
        tokens = self._ask("/tokenize", body).get("tokens")
        if not isinstance(tokens, list):
            raise EngineError("The server's /tokenize answered without tokens.")
        return [int(token) for token in tokens]

    def _spell(self, token_ids: Sequence[int]) -> str | None:
        text = self._ask("/detokenize", {"tokens": list(token_ids)}).get("prompt")
        return text if isinstance(text, str) else None

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        reply = self._endpoint.post(path, {"model": self._model} | body)
        if not reply.ok:
            raise refusal_of(reply.status, reply.body)
        parsed = reply.json()
        return parsed if isinstance(parsed, dict) else {}
