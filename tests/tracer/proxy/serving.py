"""A scripted upstream and the proxy before it, both on real sockets. Faults are the point here."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tracer.engines.http.additions import Upstream
from tracer.episode import Capabilities, EngineInfo
from tracer.proxy.app import ProxyOptions, build_app
from tracer.proxy.episodes import EpisodeNames
from tracer.proxy.recording import Recording


class ScriptedUpstream:
    """Answers chat requests with the words of the last message, in OpenAI's shape."""

    def __init__(self) -> None:
        self.seen: list[dict[str, object]] = []
        self.headers: list[dict[str, str]] = []
        self.app = Starlette(
            routes=[
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/models", self.models),
                Route("/moved", self.moved),
            ]
        )

    async def models(self, _: Request) -> Response:
        return JSONResponse({"data": [{"id": "m"}]}, headers={"x-custom": "kept"})

    async def moved(self, _: Request) -> Response:
        return Response(status_code=302, headers={"location": "http://127.0.0.1:9/elsewhere"})

    async def chat(self, request: Request) -> Response:
        fields = await request.json()
        self.seen.append(fields)
        self.headers.append(dict(request.headers))
        words = str(fields["messages"][-1]["content"]).split(" ")
        fault = fields.get("fault")
        if fault == "500":
            return PlainTextResponse("boom", 500)
        if fault == "400":
            return JSONResponse({"error": {"message": "no such field", "type": "invalid"}}, 400)
        if fault == "redirect":
            return Response(status_code=307, headers={"location": "http://127.0.0.1:9/"})
        if not fields.get("stream"):
            await asyncio.sleep(float(fields.get("delay", 0)))
            return JSONResponse(self.answer(words, fields))
        return StreamingResponse(self.events(words, fields, fault), media_type="text/event-stream")

    def answer(self, words: list[str], fields: dict[str, object]) -> dict[str, object]:
        choice: dict[str, object] = {
            "index": 0,
            "message": {"role": "assistant", "content": " ".join(words)},
            "finish_reason": "stop",
            "logprobs": {"content": [entry(word) for word in words]} if fields.get("logprobs") else None,
        }
        return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage(len(words))}

    async def events(self, words: list[str], fields: dict[str, object], fault: object):
        def event(body: dict[str, object]) -> bytes:
            return b"data: " + json.dumps(body).encode() + b"\n\n"

        for number, word in enumerate(words):
            if fault == "break" and number == 2:
                yield b'data: {"choices": [{"ind'
                raise RuntimeError("scripted break")
            logprobs = {"content": [entry(word)]} if fields.get("logprobs") else None
            yield event({"choices": [{"index": 0, "delta": {"content": word}, "logprobs": logprobs}]})
            await asyncio.sleep(float(fields.get("delay", 0)))
        yield event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        if (fields.get("stream_options") or {}).get("include_usage"):  # type: ignore[union-attr]
            yield event({"choices": [], "usage": usage(len(words))})
        yield b"data: [DONE]\n\n"


def entry(word: str) -> dict[str, object]:
    def one(text: str, value: float) -> dict[str, object]:
        return {"token": text, "bytes": list(text.encode()), "logprob": value}

    return {**one(word, -0.5), "top_logprobs": [one(word, -0.5), one("other", -1.5)]}


def usage(tokens: int) -> dict[str, object]:
    return {
        "prompt_tokens": 10,
        "completion_tokens": tokens,
        "total_tokens": 10 + tokens,
        "prompt_tokens_details": {"cached_tokens": 4},
    }


@contextlib.contextmanager
def served(app: object) -> Iterator[str]:
    """The application on a free port of loopback."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="critical", lifespan="on", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    while not server.started:
        time.sleep(0.005)
    try:
        yield url
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


@contextlib.contextmanager
def proxied(
    folder: Path, upstream_url: str, say: Callable[[str], None] = lambda _: None, *, redact: bool = False
) -> Iterator[str]:
    """The proxy before ``upstream_url``; its traces are whole when the block ends."""
    recording = Recording(
        folder, EngineInfo(engine="openai"), Capabilities(top_k=20), say, top_k=20, redact=redact
    )
    options = ProxyOptions(
        upstream_url=upstream_url,
        upstream=Upstream.OPENAI,
        bound_host="127.0.0.1",
        names=EpisodeNames(),
        record=recording.take,
        timeout_s=5,
    )
    try:
        with served(build_app(options)) as url:
            yield url
    finally:
        recording.close()
