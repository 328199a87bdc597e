"""Engine ``vllm``: vLLM's server over HTTP, attached or launched.

described       the effective configuration, from what the server says
capabilities    what can be seen and controlled with it
backend         attached, or launched by us
model_folder    facts of a model folder on this machine
vocabulary      rendering, tokenizing, bytes of tokens
cache_counters  cached tokens from /metrics, where answers do not count them
engine          the adapter that the arm loop talks to
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice
    from tracer.engines.vllm.engine import VllmEngine


def open_vllm(choice: EngineChoice) -> VllmEngine:
    """Attach to ``choice.url``, or launch vLLM with the model folder ``choice.model``."""
    from tracer.engines.vllm.backend import open_backend
    from tracer.engines.vllm.engine import VllmEngine

    return VllmEngine(open_backend(choice))
