"""Serving a recorded body: the client's own request, our additions, and only cache fields changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tracer.engines.http.additions import Route, Upstream, edit_request, route_of
from tracer.engines.http.answer import Asked, ParsedAnswer, StreamedAnswer, parse_body
from tracer.engines.http.endpoint import Endpoint
from tracer.engines.http.refusals import refusal_of
from tracer.errors import UsageError
from tracer.http_body import HttpBody


def body_to_send(
    body: HttpBody, upstream: Upstream, top_k: int, cache_fields: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields that go to the server. Raises ``UsageError`` for a route that is not recorded."""
    edited = edit_request(body.content, _route(body), upstream, top_k)
    if edited is None:
        raise UsageError("a recorded body is no JSON object, so it cannot be sent again.")
    sent: dict[str, Any] = json.loads(edited.body)
    return sent | dict(cache_fields)


def serve_body(
    endpoint: Endpoint,
    body: HttpBody,
    fields: Mapping[str, Any],
    asked: Asked,
    broken_because: Callable[[str], str] = str,
) -> ParsedAnswer:
    """Send it as it was sent, streamed if it was streamed. Raises as ``Endpoint`` does, and refusals."""
    if not fields.get("stream"):
        reply = endpoint.post(body.route, fields)
        if not reply.ok:
            raise refusal_of(reply.status, reply.body)
        return parse_body(reply.body, asked)
    answer = StreamedAnswer(asked)
    end = endpoint.stream(body.route, fields, answer.feed)
    if end.status >= 400:
        raise refusal_of(end.status, end.body)
    return answer.finish(None if end.broken is None else broken_because(end.broken))


def _route(body: HttpBody) -> Route:
    route = route_of(body.route)
    if route is None:
        raise UsageError(f"the route {body.route} is not one that can be sent again.")
    return route
