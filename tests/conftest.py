"""Fixtures of real engines. They fail, and never skip, when an engine or a model is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The default model (SmolLM2-135M-Instruct, Q4_1), fetched once if it is not there."""
    from tracer.model_store import default_model_path

    return default_model_path()


@pytest.fixture(scope="session")
def smollm2_f16(smollm2: Path) -> Path:
    """The same model as F16, made once and kept in the user's cache."""
    from platformdirs import user_cache_path

    from tracer.engines.llama.quantize import make_ladder

    folder = user_cache_path("cachetrace") / "test-models"
    return folder / make_ladder(smollm2, ["F16"], folder).formats[0].file


@pytest.fixture(scope="session")
def llama_server_binary() -> Path:
    """The llama.cpp server that CACHETRACE_LLAMA_SERVER names (``.ci/run`` sets it), else the path's own."""
    from tracer.engines.llama_server.backend import BINARY_VARIABLE

    path = Path(os.environ.get(BINARY_VARIABLE) or shutil.which("llama-server") or "llama-server")
    assert path.is_file(), f"no llama.cpp server at {path}; build it or set {BINARY_VARIABLE}"
    return path


@pytest.fixture(scope="session")
def wheel() -> Path:
    """The function-calling benchmark as ``cachetrace bfcl setup`` keeps it, fetched if it is not there."""
    from tracer.errors import UsageError
    from tracer.workloads.bfcl.setup import require_wheel, set_up

    try:
        return require_wheel()
    except UsageError:
        return set_up()


@pytest.fixture(scope="session")
def _loaded_llama(smollm2: Path) -> Iterator[object]:
    from tracer.engines.choice import EngineChoice
    from tracer.engines.registry import open_engine

    engine = open_engine(EngineChoice(engine="llama", model=str(smollm2)))
    yield engine
    engine.close()


@pytest.fixture
def llama_engine(_loaded_llama):
    """A real engine with empty caches, prefix cache on and second layer off."""
    _loaded_llama.reset()
    _loaded_llama.set_layers(prefix_cache=True, prompt_cache=False)
    return _loaded_llama
