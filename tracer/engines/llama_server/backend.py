"""The server behind the engine: attached to, or launched and restarted by us.

Both answer the same questions: where it is, which layers it has, whether it can be emptied, and
what a broken connection means.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tracer.engines.choice import EngineChoice
from tracer.engines.http.endpoint import Endpoint
from tracer.engines.http.launched import LaunchedServer, free_port
from tracer.engines.llama_server.arguments import ServerSettings
from tracer.engines.llama_server.described import describe, read_facts, require_llama_server
from tracer.engines.llama_server.slot_files import SlotFolder
from tracer.episode import EngineInfo
from tracer.errors import EngineDied, EngineError, UsageError

BINARY_VARIABLE = "CACHETRACE_LLAMA_SERVER"
"""Names the server binary where --server-bin is not given."""
KEY_VARIABLE = "CACHETRACE_API_KEY"


class Backend(Protocol):
    """A running server."""

    owned: bool
    """We started it: it can be restarted, and nobody else talks to it."""
    slot_folder: SlotFolder | None
    """Where slot files lie; None when the server's disk is not ours."""

    @property
    def endpoint(self) -> Endpoint:
        """How to reach it."""
        ...

    @property
    def info(self) -> EngineInfo:
        """What it is configured to."""
        ...

    def set_layers(self, *, prefix_cache: bool, prompt_cache: bool) -> bool:
        """Have the layers like this; True when the server was started anew for it."""
        ...

    def restart(self) -> None:
        """A fresh server with the same settings. Raises ``EngineError`` when it is not ours."""
        ...

    def death(self, while_doing: str, problem: EngineError) -> EngineError:
        """What a failed request means: the server's death, or the problem itself."""
        ...

    def close(self) -> None:
        """Stop what was launched, release the connection."""
        ...


class AttachedBackend:
    """Somebody else's server. It is never emptied, restarted, or written to."""

    owned = False
    slot_folder: SlotFolder | None = None

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self.endpoint = Endpoint(url, timeout_s=timeout_s, api_key=os.environ.get(KEY_VARIABLE))
        facts = read_facts(self.endpoint)
        require_llama_server(facts, self.endpoint.url)
        self.slots = max(len(facts.slots), 1)
        self._info = describe(facts)

    @property
    def info(self) -> EngineInfo:
        return self._info

    def set_layers(self, *, prefix_cache: bool, prompt_cache: bool) -> bool:  # noqa: ARG002  # as deployed
        return False

    def restart(self) -> None:
        raise EngineError("The server was not started by cachetrace, so it cannot be restarted.")

    def death(self, while_doing: str, problem: EngineError) -> EngineError:
        return EngineDied(f"The server at {self.endpoint.url} stopped answering {while_doing} ({problem}).")

    def close(self) -> None:
        self.endpoint.close()


class LaunchedBackend:
    """A server of our own, on a free port of the loopback interface."""

    owned = True

    def __init__(self, settings: ServerSettings, *, timeout_s: float) -> None:
        from tracer.engines.llama.model import file_sha256

        self._settings = settings
        self._timeout_s = timeout_s
        self._layers = (True, True)
        self._model_hash = f"sha256:{file_sha256(settings.model)}"
        self._model_bytes = settings.model.stat().st_size
        self._version = _version(settings.binary)
        self.slot_folder: SlotFolder | None = SlotFolder()
        self._server: LaunchedServer | None = None
        self._endpoint: Endpoint | None = None
        self._info: EngineInfo | None = None

    @property
    def endpoint(self) -> Endpoint:
        if self._endpoint is None:
            self._start()
        assert self._endpoint is not None
        return self._endpoint

    @property
    def info(self) -> EngineInfo:
        if self._info is None:
            self._start()
        assert self._info is not None
        return self._info

    def _start(self) -> None:
        assert self.slot_folder is not None
        settings, (prefix_cache, prompt_cache) = self._settings, self._layers
        port = free_port()
        command = settings.command(
            port, self.slot_folder.path, prefix_cache=prefix_cache, prompt_cache=prompt_cache
        )
        # Settings of the server in our environment would change it behind the recorded command line.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("LLAMA_ARG_")}
        self._server = LaunchedServer(port, command, environment=environment, start_timeout_s=self._timeout_s)
        self._endpoint = Endpoint(self._server.url, timeout_s=self._timeout_s, api_key=settings.api_key)
        self._info = self._described(self._endpoint, tuple(self._server.lines))

    def _described(self, endpoint: Endpoint, log: Sequence[str]) -> EngineInfo:
        from msgspec.structs import replace

        prefix_cache, prompt_cache = self._layers
        mib = self._settings.prompt_cache_mib if prompt_cache else 0
        info = describe(
            read_facts(endpoint),
            settings=self._settings,
            version=self._version,
            log=log,
            model_hash=self._model_hash,
            prefix_cache=prefix_cache,
            prompt_cache_bytes=None if mib < 0 else mib << 20,
        )
        return replace(info, model_bytes=self._model_bytes)

    def set_layers(self, *, prefix_cache: bool, prompt_cache: bool) -> bool:
        wanted = (prefix_cache, prompt_cache and self._settings.prompt_cache_mib != 0)
        if wanted == self._layers:
            return False
        self._layers = wanted
        self._stop()
        return True

    def restart(self) -> None:
        self._stop()
        self._start()

    def death(self, while_doing: str, problem: EngineError) -> EngineError:
        if self._server is None or not self._server.wait_for_death():
            return problem
        return EngineDied(f"The server that cachetrace started died {while_doing} ({self._server.death()}).")

    def _stop(self) -> None:
        if self._endpoint is not None:
            self._endpoint.close()
        if self._server is not None:
            self._server.stop()
        self._endpoint = self._server = self._info = None

    def close(self) -> None:
        self._stop()
        if self.slot_folder is not None:
            self.slot_folder.remove()


def _version(binary: Path) -> str | None:
    """The binary's own account of its version, None when it gives none."""
    try:
        done = subprocess.run(  # noqa: S603  # the user's own binary, named on the command line
            [str(binary), "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    for line in (done.stdout + done.stderr).splitlines():
        if line.startswith("version:"):
            return line.removeprefix("version:").strip()
    return None


def open_backend(choice: EngineChoice) -> Backend:
    """Attach or launch, as the user asked."""
    if choice.url is not None:
        if choice.server_bin is not None or choice.server_args:
            raise UsageError(
                "Give either --url (a running server) or --server-bin (one to launch), not both."
            )
        return AttachedBackend(choice.url, timeout_s=choice.timeout_s)
    from tracer.engines.llama.library import usable_cores

    binary = _binary(choice)
    if choice.model is None:
        from tracer.model_store import default_model_path

        model = default_model_path()
    else:
        model = Path(choice.model).expanduser()
    if not model.is_file():
        raise UsageError(f"There is no model file {str(model)!r}; check --model.")
    settings = ServerSettings.of(choice, binary, model.resolve(), usable_cores())
    return LaunchedBackend(settings, timeout_s=choice.timeout_s)


def _binary(choice: EngineChoice) -> Path:
    named = choice.server_bin or os.environ.get(BINARY_VARIABLE) or shutil.which("llama-server")
    if named is None:
        raise UsageError(
            "Say which llama.cpp server to use: --url of a running one, or --server-bin to launch one "
            f"(also the environment variable {BINARY_VARIABLE})."
        )
    path = Path(shutil.which(named) or named).expanduser()
    if not path.is_file() or not os.access(path, os.X_OK):
        raise UsageError(f"{str(path)!r} is no program that can be run; check --server-bin.")
    return path.absolute()
