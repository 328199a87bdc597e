"""The vLLM server behind the engine: attached to, or launched by us."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from tracer.engines.choice import EngineChoice
from tracer.engines.http.endpoint import Endpoint
from tracer.engines.http.launched import LaunchedServer, free_port
from tracer.engines.vllm.described import VllmFacts, describe, read_facts
from tracer.engines.vllm.model_folder import folder_facts
from tracer.engines.weight_format import effective_weight_format
from tracer.episode import EngineInfo
from tracer.errors import EngineDied, EngineError, EngineMissing, UsageError

BINARY_VARIABLE = "CACHETRACE_VLLM"
"""The Python of an environment with vLLM in it, or its ``vllm`` command."""
KEY_VARIABLE = "CACHETRACE_API_KEY"


@dataclass(slots=True)
class VllmBackend:
    """A running server and what it said about itself when we came."""

    endpoint: Endpoint
    facts: VllmFacts
    info: EngineInfo
    model: str
    server: LaunchedServer | None = None

    @property
    def owned(self) -> bool:
        """We started it."""
        return self.server is not None

    def death(self, while_doing: str, problem: EngineError) -> EngineError:
        """What a failed request means."""
        if self.server is None:
            return EngineDied(
                f"The server at {self.endpoint.url} stopped answering {while_doing} ({problem})."
            )
        if not self.server.wait_for_death():
            return problem
        return EngineDied(f"The server that cachetrace started died {while_doing} ({self.server.death()}).")

    def close(self) -> None:
        """Stop what was launched, release the connection."""
        self.endpoint.close()
        if self.server is not None:
            self.server.stop()


def open_backend(choice: EngineChoice) -> VllmBackend:
    """Attach to ``choice.url``, or launch the model folder ``choice.model``."""
    if choice.url is not None:
        if choice.server_bin is not None or choice.server_args:
            raise UsageError(
                "Give either --url (a running server) or --server-bin (one to launch), not both."
            )
        key = os.environ.get(KEY_VARIABLE)
        endpoint = Endpoint(choice.url, timeout_s=choice.timeout_s, api_key=key)
        return _opened(endpoint, choice, None)
    port = free_port()
    server = LaunchedServer(
        port, command_line(choice, port), environment=_environment(choice), start_timeout_s=choice.timeout_s
    )
    try:
        return _opened(Endpoint(server.url, timeout_s=choice.timeout_s), choice, server)
    except BaseException:
        server.stop()
        raise


def _opened(endpoint: Endpoint, choice: EngineChoice, server: LaunchedServer | None) -> VllmBackend:
    facts = read_facts(endpoint)
    model = choice.served_model or facts.model
    if facts.version is None or model is None:
        endpoint.close()
        raise EngineMissing(
            f"{endpoint.url} is no vLLM server with a model; `cachetrace doctor` says what it is."
        )
    info = describe(facts)
    local = urlsplit(endpoint.url).hostname in ("127.0.0.1", "::1", "localhost")
    folder = Path(facts.root) if local and facts.root is not None else None
    if folder is not None and folder.is_dir():
        known = folder_facts(folder)
        info = replace(
            info,
            model_hash=known.model_hash,
            model_bytes=known.model_bytes,
            template_hash=known.template_hash,
            architecture=known.architecture,
            weight_format=info.weight_format or known.dtype,
            vocabulary_tokens=known.vocabulary_tokens,
        )
    if server is not None:
        info = replace(info, threads=choice.threads, flags=info.flags | _given(choice))
        info = replace(info, weight_format=effective_weight_format(info))
    return VllmBackend(endpoint, facts, info, model, server)


def command_line(choice: EngineChoice, port: int) -> list[str]:
    """The whole command line of a launched server. Options of the user come last, so they win."""
    if choice.model is None or not Path(choice.model).expanduser().exists():
        raise UsageError("vLLM needs the folder of a model that is here: give it with --model.")
    named = choice.server_bin or os.environ.get(BINARY_VARIABLE) or shutil.which("vllm")
    program = shutil.which(named) if named is not None else None
    if program is None:
        raise UsageError(
            "Say which vLLM to use: --url of a running server, or --server-bin with the Python of an "
            f"environment that has vLLM in it (also the environment variable {BINARY_VARIABLE})."
        )
    model = str(Path(choice.model).expanduser().resolve())
    if Path(program).name.startswith("vllm"):
        start = [program, "serve", model]
    else:
        start = [program, "-P", "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    line = [*start, "--host", "127.0.0.1", "--port", str(port), "--enable-prompt-tokens-details"]
    if choice.context_tokens is not None:
        line += ["--max-model-len", str(choice.context_tokens)]
    if choice.served_model is not None:
        line += ["--served-model-name", choice.served_model]
    return [*line, *choice.server_args]


def _environment(choice: EngineChoice) -> dict[str, str]:
    """Ours, with the development mode (emptying the cache, reading the settings) and fixed threads."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    environment["VLLM_SERVER_DEV_MODE"] = "1"
    environment.setdefault("HF_HUB_OFFLINE", "1")
    environment.setdefault("VLLM_NO_USAGE_STATS", "1")
    if choice.threads is not None:
        last = choice.threads - 1
        environment["VLLM_CPU_OMP_THREADS_BIND"] = "0" if last == 0 else f"0-{last}"
    return environment


def _given(choice: EngineChoice) -> dict[str, str]:
    """The user's own options, for the record."""
    given = {"arguments": " ".join(choice.server_args)} if choice.server_args else {}
    invariant = os.environ.get("VLLM_BATCH_INVARIANT")
    return given | ({"VLLM_BATCH_INVARIANT": invariant} if invariant is not None else {})
