"""The proxy as an ASGI application: one upstream, no redirects, no retries, nothing sent of its own."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import httpx
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route as AppRoute

from tracer.engines.http.additions import DEFAULT_TOP_K, EditedRequest, Upstream, edit_request, route_of
from tracer.engines.http.sse import DONE, SseReader
from tracer.errors import EngineError
from tracer.proxy.answers import event_for_client, for_client
from tracer.proxy.episodes import EPISODE_HEADER, EpisodeNames
from tracer.proxy.exchange import Exchange
from tracer.proxy.guard import host_allowed, origin_allowed

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]
# Headers that belong to one connection, or that describe bytes which we may change.
_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
    "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip
MAX_BODY_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    """What the application needs to know. ``record`` must not block."""

    upstream_url: str
    upstream: Upstream
    bound_host: str
    names: EpisodeNames
    record: Callable[[Exchange], None]
    top_k: int = DEFAULT_TOP_K
    timeout_s: float = 600.0


def build_app(options: ProxyOptions) -> Starlette:
    """The application. It holds one connection pool for its one upstream."""
    client = httpx.AsyncClient(
        base_url=options.upstream_url,
        timeout=httpx.Timeout(options.timeout_s, connect=10.0),
        follow_redirects=False,
        trust_env=False,  # a proxy variable must not send recorded prompts elsewhere
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
    )
    proxy = _Proxy(options, client)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    return Starlette(routes=[AppRoute("/{path:path}", proxy.pass_on, methods=METHODS)], lifespan=lifespan)


class _Proxy:
    def __init__(self, options: ProxyOptions, client: httpx.AsyncClient) -> None:
        self._options = options
        self._client = client
        self._open: dict[int, Exchange] = {}
        self._count = 0

    async def pass_on(self, request: Request) -> Response:
        """Serve one request of a client."""
        options = self._options
        if not host_allowed(request.headers.get("host"), options.bound_host):
            return _refusal(403, "this proxy answers only requests that name this machine as their host.")
        if not origin_allowed(request.headers.get("origin"), options.bound_host):
            return _refusal(403, "this proxy does not answer web pages of other hosts.")
        arrived, started_at = time.monotonic(), time.time()
        try:
            body = await _read_body(request)
        except ClientDisconnect:
            return Response(status_code=499)
        if body is None:
            return _refusal(413, "the request is larger than 256 MiB.")
        route = route_of(request.url.path) if request.method == "POST" else None
        edited = edit_request(body, route, options.upstream, options.top_k) if route is not None else None
        if route is None or edited is None:
            return await self._untouched(request, body)
        exchange = Exchange(
            number=self._count,
            episode=options.names.name(request.headers.get(EPISODE_HEADER), edited.fields),
            path=request.url.path,
            route=route,
            fields=edited.fields,
            body=body,
            added=edited.added,
            top_k=edited.top_k,
            streamed=edited.streamed,
            started_at=started_at,
            arrived=arrived,
        )
        self._count += 1
        self._enter(exchange)
        return await self._recorded(request, edited, exchange)

    async def _untouched(self, request: Request, body: bytes) -> Response:
        try:
            answer = await self._send(request, body, recorded=False)
        except httpx.HTTPError as error:
            return _refusal(502, _unreachable(self._options.upstream_url, error))
        passed = StreamingResponse(
            _raw(answer), status_code=answer.status_code, background=BackgroundTask(answer.aclose)
        )
        return _with_headers(passed, answer.headers)

    async def _recorded(self, request: Request, edited: EditedRequest, exchange: Exchange) -> Response:
        waited = time.monotonic()
        try:
            answer = await self._send(request, edited.body, recorded=True)
        except httpx.HTTPError as error:
            exchange.upstream_s += time.monotonic() - waited
            exchange.broken = _unreachable(self._options.upstream_url, error)
            self._leave(exchange)
            return _refusal(504 if isinstance(error, httpx.TimeoutException) else 502, exchange.broken)
        exchange.upstream_s += time.monotonic() - waited
        exchange.status = answer.status_code
        if "text/event-stream" in answer.headers.get("content-type", ""):
            exchange.answer_is_stream = True
            stream = StreamingResponse(self._events(answer, edited, exchange), answer.status_code)
            return _with_headers(stream, answer.headers, resized=True)
        whole = await self._whole(answer, exchange)
        if whole is None:
            self._leave(exchange)
            return _refusal(502, exchange.broken or "the upstream broke off its answer.")
        content = for_client(whole, edited, exchange.route, self._options.upstream)
        # Recorded once the client has its answer: the recording's thread would take the interpreter's
        # lock from the sending of it.
        recorded = BackgroundTask(self._left, exchange)
        passed = Response(content, answer.status_code, background=recorded)
        return _with_headers(passed, answer.headers, resized=True)

    async def _whole(self, answer: httpx.Response, exchange: Exchange) -> bytes | None:
        waited = time.monotonic()
        try:
            async for received in answer.aiter_bytes():
                exchange.first_byte = exchange.first_byte or time.monotonic()
                exchange.answer += received
        except httpx.HTTPError as error:
            exchange.broken = f"the upstream broke off its answer ({type(error).__name__})."
            return None
        finally:
            exchange.upstream_s += time.monotonic() - waited
            await answer.aclose()
        return bytes(exchange.answer)

    async def _events(
        self, answer: httpx.Response, edited: EditedRequest, exchange: Exchange
    ) -> AsyncIterator[bytes]:
        """The stream for the client, event by event, as soon as each is whole."""
        reader, complete = SseReader(), False
        waited = time.monotonic()
        try:
            async for received in answer.aiter_bytes():
                now = time.monotonic()
                exchange.upstream_s += now - waited
                exchange.first_byte = exchange.first_byte or now
                exchange.answer += received
                if not edited.added:
                    yield received
                else:
                    outgoing = self._edited_events(reader.feed(received), edited, exchange)
                    if outgoing:
                        yield outgoing
                waited = time.monotonic()
            rest = reader.finish() if edited.added else None
            if rest is not None:
                yield self._edited_events(iter((rest,)), edited, exchange)
            complete = True
        except httpx.HTTPError as error:
            exchange.broken = f"the upstream broke off its stream ({type(error).__name__})."
        except EngineError as error:
            exchange.broken = str(error)
        finally:
            # Clients close a stream once they have read its last event, before its end has come.
            complete = complete or DONE in exchange.answer[-64:]
            if not complete and exchange.broken is None:
                exchange.broken = "the client went away before the stream ended."
            self._leave(exchange)
            with anyio.CancelScope(shield=True):  # a client that went away cancels everything else here
                await answer.aclose()

    def _edited_events(self, events: Iterator[bytes], edited: EditedRequest, exchange: Exchange) -> bytes:
        outgoing = bytearray()
        for data in events:
            shown = event_for_client(data, edited, exchange.route, self._options.upstream)
            if shown is not None:
                outgoing += b"data: " + shown + b"\n\n"
        return bytes(outgoing)

    async def _send(self, request: Request, body: bytes, *, recorded: bool) -> httpx.Response:
        headers = [
            (n, v)
            for n, v in request.headers.items()
            if n not in _HOP and n not in ("host", "content-length")
        ]
        if recorded:
            # The bytes are read here, so they must come as they are.
            headers = [(n, v) for n, v in headers if n not in ("accept-encoding", EPISODE_HEADER)]
            headers.append(("accept-encoding", "identity"))
        outgoing = self._client.build_request(
            request.method,
            httpx.URL(path=request.url.path, query=request.url.query.encode()),
            headers=headers,
            content=body if body or request.method == "POST" else None,
        )
        return await self._client.send(outgoing, stream=True)

    def _enter(self, exchange: Exchange) -> None:
        self._open[exchange.number] = exchange
        if len(self._open) > 1:
            for each in self._open.values():
                each.overlapped = True

    async def _left(self, exchange: Exchange) -> None:
        self._leave(exchange)

    def _leave(self, exchange: Exchange) -> None:
        exchange.finished = time.monotonic()
        self._open.pop(exchange.number, None)
        self._options.record(exchange)


async def _read_body(request: Request) -> bytes | None:
    body = bytearray()
    async for received in request.stream():
        body += received
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


async def _raw(answer: httpx.Response) -> AsyncIterator[bytes]:
    async for received in answer.aiter_raw():
        yield received


def _with_headers(response: Response, headers: httpx.Headers, *, resized: bool = False) -> Response:
    """The upstream's headers on our response; ``resized`` = the body's length may have changed."""
    ours = [] if not resized else [pair for pair in response.raw_headers if pair[0] == b"content-length"]
    left_out = _HOP | {"content-length"} if resized else _HOP
    theirs = [
        (name.lower(), value) for name, value in headers.raw if name.decode("latin-1").lower() not in left_out
    ]
    response.raw_headers = theirs + ours
    return response


def _refusal(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": {"message": f"cachetrace: {sentence}", "type": "proxy"}}, status)


def _unreachable(url: str, error: Exception) -> str:
    from tracer.tracefile.scrub import scrub_url

    kind = "did not answer in time" if isinstance(error, httpx.TimeoutException) else "cannot be reached"
    return f"the upstream {scrub_url(url)} {kind} ({type(error).__name__})."
