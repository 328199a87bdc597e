"""Engine ``llama-server``: llama.cpp's server over HTTP, attached or launched.

arguments   the command line of a launched server
described   the effective configuration, from what the server says
vocabulary  rendering, tokenizing, bytes of tokens
slot_files  our own files of saved states, checked before the server reads them
slot_states saving and restoring the slot through them
second_layer  whether an attached server has one
traffic     other clients of an attached server
backend     the two ways to have a server: attached, or launched and restarted by us
engine      the adapter that the arm loop talks to
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice
    from tracer.engines.llama_server.engine import LlamaServerEngine


def open_llama_server(choice: EngineChoice) -> LlamaServerEngine:
    """Attach to ``choice.url``, or launch ``choice.server_bin``."""
    from tracer.engines.llama_server.backend import open_backend
    from tracer.engines.llama_server.engine import LlamaServerEngine

    return LlamaServerEngine(open_backend(choice))
