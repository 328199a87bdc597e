"""Engine ``llama``: llama-cpp-python in this process, on CPU or GPU, through its low-level calls.

library   loading the native library; its version, features and log
model     a GGUF file: facts, hash, vocabulary, tokens
template  the model's chat template in Jinja's sandbox
context   one sequence: decoding, cutting, saving and restoring its keys and values
second_layer  whole sequence states beside it, in llama-cpp-python's own LlamaRAMCache
engine    the adapter that the arm loop talks to
quantize  a ladder of weight formats out of one file
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice
    from tracer.engines.llama.engine import LlamaEngine


def open_llama(choice: EngineChoice) -> LlamaEngine:
    """Load the model and make an empty context. Raises ``EngineMissing`` in one sentence."""
    from tracer.engines.llama.library import load_library

    load_library()
    from tracer.engines.llama.engine import LlamaEngine

    return LlamaEngine(choice)
