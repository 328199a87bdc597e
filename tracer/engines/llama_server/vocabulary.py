"""Text and tokens through the server: rendering, tokenizing, and the bytes of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracer.engines.http.endpoint import Endpoint
from tracer.engines.http.pieces import SEPARATOR, PieceBook
from tracer.engines.http.refusals import refusal_of
from tracer.episode import Message
from tracer.errors import EngineError
from tracer.http_body import HttpBody


class ServerVocabulary:
    """Rendering and tokenizing as the server does it; pieces are remembered in ``book``."""

    def __init__(self) -> None:
        self.book = PieceBook()
        self._separator_ids: list[int] | None = None
        self._prefix: str | None = None

    def piece(self, endpoint: Endpoint, token_id: int) -> bytes | None:
        """The token's bytes; None when the server cannot spell them (parts of a character)."""

        def spell(token_ids: Sequence[int]) -> str | None:
            content = _ask(endpoint, "/detokenize", {"tokens": list(token_ids)}).get("content")
            return content if isinstance(content, str) else None

        def separator() -> Sequence[int]:
            if self._separator_ids is None:
                self._separator_ids = self.tokenize(endpoint, SEPARATOR)
            return self._separator_ids

        return self.book.piece(token_id, spell, separator)

    def tokenize(self, endpoint: Endpoint, text: str) -> list[int]:
        """Ids of a text; special tokens in it are parsed, none is added."""
        asked = {"content": text, "add_special": False, "parse_special": True, "with_pieces": True}
        tokens = _ask(endpoint, "/tokenize", asked).get("tokens")
        if not isinstance(tokens, list):
            raise EngineError("The server's /tokenize answered without tokens.")
        ids: list[int] = []
        for token in tokens:
            if isinstance(token, dict):
                self._learn(token)
                ids.append(int(token["id"]))
            else:
                ids.append(int(token))
        return ids

    def _learn(self, token: dict[str, Any]) -> None:
        piece = token.get("piece")
        if isinstance(piece, str):
            self.book.learn({int(token["id"]): piece.encode()})
        elif isinstance(piece, list):
            self.book.learn({int(token["id"]): bytes(piece)})

    def render(
        self, endpoint: Endpoint, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None
    ) -> str:
        """The chat template's text; begins with the token that the server puts before every prompt."""
        body: dict[str, Any] = {"messages": [{"role": m.role, "content": m.content} for m in messages]}
        if tools:
            body["tools"] = [as_function(tool) for tool in tools]
        prompt = _ask(endpoint, "/apply-template", body).get("prompt")
        if not isinstance(prompt, str):
            raise EngineError("The server's /apply-template answered without a prompt.")
        if self._prefix is None:
            self._prefix = self._added_prefix(endpoint)
        return prompt if prompt.startswith(self._prefix) else self._prefix + prompt

    def body_prompt_ids(self, endpoint: Endpoint, body: HttpBody) -> tuple[int, ...] | None:
        """Ids of a recorded body's prompt, by the server's own template and tokenizer."""
        fields = body.fields()
        if "messages" in fields:
            text = _ask(endpoint, "/apply-template", fields).get("prompt")
            if not isinstance(text, str):
                return None
            prefix = self._added_prefix(endpoint) if self._prefix is None else self._prefix
            self._prefix = prefix
            return tuple(self.tokenize(endpoint, text if text.startswith(prefix) else prefix + text))
        prompt = fields.get("prompt")
        if isinstance(prompt, str):
            asked = {"content": prompt, "add_special": True, "parse_special": True}
            tokens = _ask(endpoint, "/tokenize", asked).get("tokens")
            return tuple(int(token) for token in tokens) if isinstance(tokens, list) else None
        if isinstance(prompt, list) and all(isinstance(token, int) for token in prompt):
            return tuple(prompt)
        return None

    def _added_prefix(self, endpoint: Endpoint) -> str:
        """Text of what the server adds before a text prompt (the begin token), often nothing."""
        asked = {"content": "", "add_special": True, "parse_special": True, "with_pieces": True}
        tokens = _ask(endpoint, "/tokenize", asked).get("tokens")
        pieces = [token.get("piece") for token in tokens or () if isinstance(token, dict)]
        return "".join(piece for piece in pieces if isinstance(piece, str))


def as_function(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool's description in the form that OpenAI's routes take."""
    return tool if "function" in tool else {"type": "function", "function": tool}


def _ask(endpoint: Endpoint, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = endpoint.post(path, body)
    if not reply.ok:
        raise refusal_of(reply.status, reply.body)
    parsed = reply.json()
    return parsed if isinstance(parsed, dict) else {}
