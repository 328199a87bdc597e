"""What the proxy adds to a client's request so that the answer holds numbers, and nothing else.

A field that the client set itself is never changed, with one exception: ``stream_options`` gains
``include_usage`` where the upstream counts cached tokens only there. Additions are appended to the
body's own bytes, so that everything the client wrote goes upstream byte for byte.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

DEFAULT_TOP_K = 20


class Upstream(StrEnum):
    """Who answers, as far as it decides which fields may be added."""

    LLAMA_SERVER = "llama-server"
    VLLM = "vllm"
    OPENAI = "openai"
    """Anything else of OpenAI's shape: only fields of OpenAI's own schema are added."""


class Route(StrEnum):
    """The routes that are recorded. All others pass through untouched."""

    CHAT = "chat"
    COMPLETIONS = "completions"


class Added(StrEnum):
    """What of an answer the client did not ask for and must not see."""

    LOGPROBS = "logprobs"
    TOKEN_IDS = "token_ids"
    USAGE = "usage"


@dataclass(frozen=True, slots=True)
class EditedRequest:
    """A request as it goes upstream."""

    body: bytes
    fields: dict[str, Any]
    """The client's own body, parsed."""
    added: frozenset[Added]
    top_k: int | None
    """Alternatives that the answer will hold; None when the client decided it."""
    streamed: bool


def route_of(path: str) -> Route | None:
    """The recorded route that a request path names, None for all others."""
    trimmed = path.rstrip("/")
    if trimmed.endswith("/chat/completions"):
        return Route.CHAT
    if trimmed in ("/v1/completions", "/completions"):
        return Route.COMPLETIONS
    return None


def edit_request(body: bytes, route: Route, upstream: Upstream, top_k: int) -> EditedRequest | None:
    """The request with our additions; None when the body is no JSON object (it then passes as it is)."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    new: dict[str, Any] = {}
    added: set[Added] = set()
    if not _asks_for_logprobs(fields, route):
        new |= _logprob_fields(route, upstream, top_k)
        added.add(Added.LOGPROBS)
    if upstream is Upstream.VLLM and not fields.get("return_token_ids"):
        new["return_token_ids"] = True
        added.add(Added.TOKEN_IDS)
    streamed = bool(fields.get("stream"))
    # llama.cpp's server sends its own counts with the last event of any stream.
    if streamed and upstream is not Upstream.LLAMA_SERVER and not _asks_for_usage(fields):
        new["stream_options"] = {**(fields.get("stream_options") or {}), "include_usage": True}
        added.add(Added.USAGE)
    return EditedRequest(
        body=_with_fields(body, fields, new),
        fields=fields,
        added=frozenset(added),
        top_k=top_k if Added.LOGPROBS in added else None,
        streamed=streamed,
    )


def _asks_for_logprobs(fields: dict[str, Any], route: Route) -> bool:
    if fields.get("n_probs"):
        return True
    asked = fields.get("logprobs")
    # On the completions route 0 asks for the chosen token's logprob alone.
    return bool(asked) if route is Route.CHAT else asked is not None and asked is not False


def _asks_for_usage(fields: dict[str, Any]) -> bool:
    options = fields.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


def _logprob_fields(route: Route, upstream: Upstream, top_k: int) -> dict[str, Any]:
    if upstream is Upstream.LLAMA_SERVER:
        # The OpenAI field is refused together with tools in a stream; the native one never is.
        return {"n_probs": top_k}
    if route is Route.CHAT:
        return {"logprobs": True, "top_logprobs": top_k}
    named = {"return_tokens_as_token_ids": True} if upstream is Upstream.VLLM else {}
    return {"logprobs": top_k if upstream is Upstream.VLLM else min(top_k, 5), **named}


def _with_fields(body: bytes, fields: dict[str, Any], new: dict[str, Any]) -> bytes:
    if not new:
        return body
    if any(name in fields for name in new):
        # A client's own null or false is replaced: two fields of one name would be ambiguous.
        return json.dumps({**fields, **new}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    head = body.rstrip()[:-1].rstrip()
    comma = b"" if head.endswith(b"{") else b","
    return head + comma + json.dumps(new).encode()[1:]
