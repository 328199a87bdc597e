"""Which episode a proxied request belongs to: by header, by command, or by conversation prefix."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

EPISODE_HEADER = "x-cachetrace-episode"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_KEPT_CONVERSATIONS = 4096


def safe_name(name: str) -> str:
    """A client's episode name as a file name: nothing that a file system or a shell would read."""
    cleaned = _UNSAFE.sub("-", name).strip("-.")[:80]
    return cleaned or "episode"


class EpisodeNames:
    """Names the episode of each request, in the order of arrival."""

    def __init__(self, only: str | None = None) -> None:
        self._only = safe_name(only) if only is not None else None
        self._by_conversation: dict[bytes, str] = {}
        self._count = 0

    def name(self, header: str | None, fields: dict[str, Any]) -> str:
        """The header wins, then the one command; else a request continues the episode whose earlier
        request's messages begin this one's, and any other request begins a new episode.
        """
        if header:
            return safe_name(header)
        if self._only is not None:
            return self._only
        prefixes = _conversation_prefixes(fields)
        for prefix in reversed(prefixes):
            known = self._by_conversation.get(prefix)
            if known is not None:
                break
        else:
            known = f"episode-{self._count:04d}"
            self._count += 1
        if prefixes:
            self._by_conversation[prefixes[-1]] = known
            if len(self._by_conversation) > _KEPT_CONVERSATIONS:
                self._by_conversation.pop(next(iter(self._by_conversation)))
        return known


def _conversation_prefixes(fields: dict[str, Any]) -> list[bytes]:
    """A digest of messages[:1], [:2], … up to all of them; of the text alone on the completions route.

    A prefix that ends before the first message of a user is not unique to a conversation: every
    conversation of an agent begins with the same system prompt.
    """
    messages = fields.get("messages")
    if not isinstance(messages, list):
        return []
    digest = hashlib.sha256()
    prefixes, seen_user = [], False
    for message in messages:
        digest.update(json.dumps(message, sort_keys=True, ensure_ascii=True).encode())
        digest.update(b"\0")
        seen_user = seen_user or (isinstance(message, dict) and message.get("role") == "user")
        if seen_user:
            prefixes.append(digest.copy().digest())
    return prefixes
