"""The real llama.cpp server on a port of loopback."""

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest


@pytest.fixture(scope="module")
def llama_url(
    llama_server_binary: Path, smollm2: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    command = [llama_server_binary, "-m", smollm2, "--port", port]
    command += ["-t", 2, "-np", 1, "-c", 2048, "--jinja", "--no-warmup"]
    with log.open("wb") as out:
        server = subprocess.Popen([str(part) for part in command], stdout=out, stderr=out)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            assert server.poll() is None, log.read_text()[-2000:]
            try:
                if httpx.get(url + "/health").status_code == 200:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(20)
