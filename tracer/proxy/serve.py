"""Runs the proxy beside a command, or until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from tracer.engines.http.additions import DEFAULT_TOP_K, Upstream
from tracer.engines.http.recognise import Recognised, recognise
from tracer.errors import UsageError
from tracer.proxy.app import ProxyOptions, build_app
from tracer.proxy.episodes import EpisodeNames
from tracer.proxy.recording import Recording
from tracer.tracefile.scrub import scrub_url

BASE_URL_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_BASE_URL")
"""Read by the official openai clients and by most tools built on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRun:
    """What ``cachetrace record --proxy`` was asked for."""

    bind: str
    """HOST:PORT; port 0 takes a free one."""
    upstream_url: str
    folder: Path
    command: tuple[str, ...] = ()
    episode: str | None = None
    top_k: int = DEFAULT_TOP_K
    redact: bool = False
    timeout_s: float = 600.0
    recorded_command: str | None = None


@dataclass(frozen=True, slots=True)
class ProxyResult:
    """What was recorded, and how the command ended."""

    files: tuple[Path, ...]
    requests: int
    exit_code: int | None


def parse_bind(bind: str) -> tuple[str, int]:
    """HOST:PORT. Raises ``UsageError`` when it is neither that nor a port alone."""
    host, _, port = bind.rpartition(":")
    try:
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number < 65536:
        raise UsageError(f"--proxy wants HOST:PORT, for instance 127.0.0.1:8900, not {bind!r}.")
    return host.strip("[]") or "127.0.0.1", number


def run_proxy(run: ProxyRun, say: Callable[[str], None]) -> ProxyResult:
    """Serve until the command ends (or Ctrl-C) and write every exchange. ``say`` speaks to the user."""
    host, port = parse_bind(run.bind)
    base_url = run.upstream_url.rstrip("/").removesuffix("/v1")
    upstream = recognise(base_url)
    recording = Recording(
        run.folder,
        upstream.info,
        upstream.capabilities,
        say,
        top_k=run.top_k,
        redact=run.redact,
        command=run.recorded_command,
    )
    listener = _listen(host, port)
    try:
        options = ProxyOptions(
            upstream_url=base_url,
            upstream=_kind(upstream),
            bound_host=host,
            names=EpisodeNames(run.episode or (Path(run.command[0]).stem if run.command else None)),
            record=recording.take,
            top_k=run.top_k,
            timeout_s=run.timeout_s,
        )
        exit_code = _serve(options, listener, run.command, say)
    finally:
        listener.close()
        recording.close()
    return ProxyResult(recording.files, recording.written, exit_code)


def _kind(upstream: Recognised) -> Upstream:
    named = {"llama-server": Upstream.LLAMA_SERVER, "vllm": Upstream.VLLM}
    return named.get(upstream.engine, Upstream.OPENAI)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, the event loop switches Nagle's delay off on every connection: without
    # it a small answer waits 40 ms for the client's acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UsageError(f"the proxy cannot listen on {host}:{port} ({error.strerror}).") from error
    return listener


def _serve(
    options: ProxyOptions, listener: socket.socket, command: Sequence[str], say: Callable[[str], None]
) -> int | None:
    app = build_app(options)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            lifespan="on",
            timeout_graceful_shutdown=5,
        )
    )
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}"
    say(f"recording what passes from {url}/v1 to {scrub_url(options.upstream_url)}")
    if not command:
        say("point your agent's base URL there; Ctrl-C ends the recording.")
        server.run(sockets=[listener])
        return None
    ended: list[int] = []
    child = threading.Thread(target=_run_command, args=(command, url, server, ended, say))

    async def serve() -> None:
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        child.start()
        await serving

    asyncio.run(serve())
    child.join()
    return ended[0] if ended else None


def _run_command(
    command: Sequence[str], url: str, server: uvicorn.Server, ended: list[int], say: Callable[[str], None]
) -> None:
    environment = dict(os.environ)
    for name in BASE_URL_VARIABLES:
        environment[name] = f"{url}/v1"
    say(f"set for the command: {', '.join(f'{name}={url}/v1' for name in BASE_URL_VARIABLES)}")
    try:
        with subprocess.Popen(list(command), env=environment) as child:  # noqa: S603  # the user's own command
            ended.append(_wait(child, server))
    except OSError as error:
        say(f"the command {command[0]} could not be started ({error.strerror}).")
        ended.append(127)
    finally:
        server.should_exit = True


def _wait(child: subprocess.Popen[bytes], server: uvicorn.Server) -> int:
    while True:
        try:
            return child.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            if server.should_exit:
                child.send_signal(signal.SIGINT if sys.platform != "win32" else signal.SIGTERM)
                return child.wait()
