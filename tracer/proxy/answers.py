"""What the client sees: the upstream's answer without what only the recording asked for."""

from __future__ import annotations

import json
from typing import Any

from tracer.engines.http.additions import Added, EditedRequest, Route, Upstream

DONE = b"[DONE]"


def for_client(body: bytes, edited: EditedRequest, route: Route, upstream: Upstream) -> bytes:
    """A whole answer as it would have been without our additions. Unreadable bodies pass as they are."""
    if not edited.added:
        return body
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(answer, dict) or "choices" not in answer:
        return body
    _strip(answer, edited.added, route, upstream, streamed=False)
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def event_for_client(data: bytes, edited: EditedRequest, route: Route, upstream: Upstream) -> bytes | None:
    """The data of one event of a stream for the client; None = the client does not get this event."""
    if not edited.added or data == DONE:
        return data
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if not isinstance(event, dict) or "choices" not in event:
        return data
    if Added.USAGE in edited.added:
        if event.get("usage") is not None and not event["choices"]:
            return None
        event.pop("usage", None)
    _strip(event, edited.added, route, upstream, streamed=True)
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _strip(
    answer: dict[str, Any], added: frozenset[Added], route: Route, upstream: Upstream, *, streamed: bool
) -> None:
    choices = [choice for choice in answer.get("choices") or () if isinstance(choice, dict)]
    if Added.LOGPROBS in added:
        for choice in choices:
            _strip_logprobs(choice, route, upstream)
    if Added.TOKEN_IDS in added:
        for holder in (answer, *choices):
            _strip_token_ids(holder, route, streamed=streamed)


def _strip_logprobs(choice: dict[str, Any], route: Route, upstream: Upstream) -> None:
    if "logprobs" not in choice:
        return
    # Unasked, llama.cpp's chat route leaves the key out; every other known server sends null.
    if upstream is Upstream.LLAMA_SERVER and route is Route.CHAT:
        del choice["logprobs"]
    else:
        choice["logprobs"] = None


def _strip_token_ids(holder: dict[str, Any], route: Route, *, streamed: bool) -> None:
    for name in ("token_ids", "prompt_token_ids"):
        if name not in holder:
            continue
        # vLLM's chat stream leaves unasked fields out; its other answers hold them as null.
        if streamed and route is Route.CHAT:
            del holder[name]
        else:
            holder[name] = None
