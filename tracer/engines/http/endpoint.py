"""One request to a server: sent once, never repeated, never redirected, through no proxy.

This is the one place where that is decided. A retry would meet a cache that the failed attempt
has changed, and a redirect would send prompts to a host that the user did not name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import msgspec

from tracer.errors import EngineDied, EngineError, EngineMissing, UsageError

MAX_BODY_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. ``wall_s``: seconds from sending to the last byte."""

    status: int
    body: bytes
    wall_s: float

    @property
    def ok(self) -> bool:
        """Whether the server did what was asked."""
        return self.status < 400

    def json(self) -> Any:
        """The body as plain values; None when it is no JSON."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How a streamed request ended. ``broken``: why the stream did not end properly."""

    status: int
    body: bytes
    """The whole body where the status is an error's, else empty."""
    wall_s: float
    broken: str | None = None


class Endpoint:
    """A server's base URL and the connection to it."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 600.0,
        api_key: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = clean_url(url)
        headers = {"accept-encoding": "gzip, deflate"}
        if api_key:
            headers["authorization"] = f"Bearer {api_key}"
        parts = urlsplit(url if "://" in url else f"http://{url}")
        auth = (parts.username, parts.password or "") if parts.username else None
        # A kept connection that the server has closed meanwhile would fail a request that was never
        # served; without a retry that would look like a death. New connections cost little locally.
        keep = 4 if self.url.startswith("https") else 0
        self._client = httpx.Client(
            base_url=self.url,
            timeout=httpx.Timeout(timeout_s, connect=10.0),
            headers=headers,
            auth=auth,
            follow_redirects=False,
            trust_env=False,
            transport=transport
            or httpx.HTTPTransport(retries=0, limits=httpx.Limits(max_keepalive_connections=keep)),
        )

    def get(self, path: str, *, timeout_s: float | None = None) -> Reply:
        """Ask for something that changes nothing."""
        return self._send("GET", path, None, timeout_s)

    def post(
        self, path: str, body: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> Reply:
        """Send JSON and wait for the whole answer."""
        return self._send("POST", path, None if body is None else msgspec.json.encode(body), timeout_s)

    def _send(self, method: str, path: str, content: bytes | None, timeout_s: float | None) -> Reply:
        started = time.monotonic()
        extra: dict[str, Any] = {} if timeout_s is None else {"timeout": timeout_s}
        if content is not None:
            extra |= {"content": content, "headers": {"content-type": "application/json"}}
        try:
            with self._client.stream(method, path, **extra) as response:
                body = bytearray()
                for part in response.iter_bytes():
                    body += part
                    if len(body) > MAX_BODY_BYTES:
                        raise EngineError(
                            f"The answer of {self.url}{path} is larger than 256 MiB; it was given up."
                        )
        except httpx.HTTPError as problem:
            raise self._failure(problem, path) from problem
        return Reply(response.status_code, bytes(body), time.monotonic() - started)

    def stream(self, path: str, body: Mapping[str, Any], feed: Callable[[bytes], None]) -> StreamEnd:
        """Send JSON and feed the answer's bytes as they come. A break after the first byte is told."""
        started, received = time.monotonic(), 0
        content, status = msgspec.json.encode(body), 0
        try:
            with self._client.stream(
                "POST", path, content=content, headers={"content-type": "application/json"}
            ) as response:
                status = response.status_code
                if status >= 400:
                    return StreamEnd(status, response.read(), time.monotonic() - started)
                for part in response.iter_bytes():
                    received += len(part)
                    feed(part)
        except httpx.HTTPError as problem:
            if not status:
                raise self._failure(problem, path) from problem
            what = f"the connection broke after {received} bytes ({_name(problem)})"
            return StreamEnd(status, b"", time.monotonic() - started, what)
        return StreamEnd(status, b"", time.monotonic() - started)

    def _failure(self, problem: httpx.HTTPError, path: str) -> EngineError:
        where = f"{self.url}{path}"
        if isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout):
            return EngineMissing(
                f"No server answers at {self.url}; start it, or give its address with --url."
            )
        if isinstance(problem, httpx.TimeoutException):
            return EngineError(f"{where} did not answer in time; give more with --timeout or send less.")
        return EngineDied(
            f"The connection to {where} broke while the request was running ({_name(problem)})."
        )

    def close(self) -> None:
        """Release the connections."""
        self._client.close()


def _name(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__


def clean_url(url: str) -> str:
    """The base URL without user info, query and fragment, which may hold secrets and are never kept."""
    if "://" not in url:
        url = f"http://{url}"
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        shown = url.rpartition("@")[2]
        raise UsageError(f"{shown!r} is no address of a server; give one like http://127.0.0.1:8080.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = host if port is None else f"{host}:{port}"
    return urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
