"""Text and tokens through the server: rendering, tokenizing, and the bytes of token ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tracer.engines.http.endpoint import Endpoint, Reply
from tracer.engines.http.refusals import refusal_of
from tracer.episode import Message
from tracer.errors import EngineError

_SEPARATOR = "\n=¦=\n"
"""Put between tokens that are spelled together in one request; ordinary text does not hold it."""
_BATCH = 512


class ServerVocabulary:
    """Remembers the bytes of every token id that was seen, and asks for others in batches."""

    def __init__(self) -> None:
        self._pieces: dict[int, bytes | None] = {}
        self._wanted: set[int] = set()
        self._separator_ids: list[int] | None = None
        self._prefix: str | None = None

    def learn(self, pieces: dict[int, bytes]) -> None:
        """Bytes that an answer named."""
        self._pieces.update(pieces)

    def expect(self, token_ids: Iterable[int]) -> None:
        """Ids that ``piece`` may be asked for soon, so that one request answers for all."""
        self._wanted.update(token for token in token_ids if token not in self._pieces)

    def known(self, token_id: int) -> bytes | None:
        """The token's bytes as far as they are known without asking."""
        return self._pieces.get(token_id)

    def piece(self, endpoint: Endpoint, token_id: int) -> bytes | None:
        """The token's bytes; None when the server cannot spell them (parts of a character)."""
        if token_id not in self._pieces:
            self._spell(endpoint, [*sorted(self._wanted - {token_id}), token_id])
            self._wanted.clear()
        return self._pieces.get(token_id)

    def _spell(self, endpoint: Endpoint, token_ids: Sequence[int]) -> None:
        if self._separator_ids is None:
            self._separator_ids = self.tokenize(endpoint, _SEPARATOR)
        for start in range(0, len(token_ids), _BATCH):
            batch = token_ids[start : start + _BATCH]
            line = list(self._separator_ids)
            for token in batch:
                line += [token, *self._separator_ids]
            content = _ask(endpoint, "/detokenize", {"tokens": line}).get("content")
            parts = content.split(_SEPARATOR) if isinstance(content, str) else []
            spelled = parts[1:-1] if len(parts) == len(batch) + 2 else []
            for place, token in enumerate(batch):
                text = spelled[place] if spelled else "\ufffd"
                self._pieces[token] = None if "\ufffd" in text else text.encode()

    def tokenize(self, endpoint: Endpoint, text: str) -> list[int]:
        """Ids of a text; special tokens in it are parsed, none is added."""
        asked = {"content": text, "add_special": False, "parse_special": True, "with_pieces": True}
        tokens = _ask(endpoint, "/tokenize", asked).get("tokens")
        if not isinstance(tokens, list):
            raise EngineError("The server's /tokenize answered without tokens.")
        ids: list[int] = []
        for token in tokens:
            if isinstance(token, dict):
                self._learn_piece(token)
                ids.append(int(token["id"]))
            else:
                ids.append(int(token))
        return ids

    def _learn_piece(self, token: dict[str, Any]) -> None:
        piece = token.get("piece")
        if isinstance(piece, str):
            self._pieces[int(token["id"])] = piece.encode()
        elif isinstance(piece, list):
            self._pieces[int(token["id"])] = bytes(piece)

    def render(
        self, endpoint: Endpoint, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None
    ) -> str:
        """The chat template's text; begins with the token that the server puts before every prompt."""
        body: dict[str, Any] = {"messages": [{"role": m.role, "content": m.content} for m in messages]}
        if tools:
            body["tools"] = [
                tool if "function" in tool else {"type": "function", "function": tool} for tool in tools
            ]
        prompt = _ask(endpoint, "/apply-template", body).get("prompt")
        if not isinstance(prompt, str):
            raise EngineError("The server's /apply-template answered without a prompt.")
        if self._prefix is None:
            self._prefix = self._added_prefix(endpoint)
        return prompt if prompt.startswith(self._prefix) else self._prefix + prompt

    def _added_prefix(self, endpoint: Endpoint) -> str:
        """Text of what the server adds before a text prompt (the begin token), often nothing."""
        asked = {"content": "", "add_special": True, "parse_special": True, "with_pieces": True}
        tokens = _ask(endpoint, "/tokenize", asked).get("tokens")
        pieces = [token.get("piece") for token in tokens or () if isinstance(token, dict)]
        return "".join(piece for piece in pieces if isinstance(piece, str))


def _ask(endpoint: Endpoint, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply: Reply = endpoint.post(path, body)
    if not reply.ok:
        raise refusal_of(reply.status, reply.body)
    parsed = reply.json()
    return parsed if isinstance(parsed, dict) else {}
