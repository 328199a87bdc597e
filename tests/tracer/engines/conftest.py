"""The real llama.cpp server. Tests that need it fail, and never skip, when it is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tracer.engines.llama_server.engine import LlamaServerEngine

OpenServer = Callable[..., "LlamaServerEngine"]


@pytest.fixture
def open_server(llama_server_binary: Path, smollm2: Path) -> Iterator[OpenServer]:
    """Launches servers of one thread each (two busy-waiting ones would stall each other); stops them."""
    from tracer.engines.choice import EngineChoice
    from tracer.engines.registry import open_engine

    opened: list[Any] = []

    def open_one(**choice: Any) -> Any:
        settings = {"model": str(smollm2), "server_bin": str(llama_server_binary), "threads": 1} | choice
        if "url" in choice:
            settings = {"url": choice["url"]}
        engine = open_engine(EngineChoice(engine="llama-server", **settings))
        opened.append(engine)
        return engine

    yield open_one
    for engine in opened:
        engine.close()
