"""Which engine to use and how: from the command line or the user's own settings, never a trace."""

from typing import Literal

from msgspec import Struct

EngineName = Literal["llama", "llama-server", "vllm", "sglang", "openai", "fake"]


class EngineChoice(Struct, frozen=True, kw_only=True):
    """What the user asked for. None = the engine's (or our) default.

    ``cachetrace replay`` passes it to a child process as JSON, so it holds plain values only.
    """

    engine: EngineName = "llama"
    model: str | None = None
    url: str | None = None
    server_bin: str | None = None
    server_args: tuple[str, ...] = ()
    context_tokens: int | None = None
    threads: int | None = None
    batch_tokens: int | None = None
    ubatch_tokens: int | None = None
    gpu_layers: int = 0
    flash_attention: Literal["auto", "on", "off"] = "auto"
    kv_type: Literal["f16", "f32", "q8_0", "q4_0"] = "f16"
    prompt_cache_mib: int | None = None
    """Size of the second layer where a state wants it; None = the engine's default."""
    served_model: str | None = None
    """Model name in HTTP requests."""
    timeout_s: float = 600.0
    fake_script: str | None = None
    """``fake``: path of a JSON script (tests and users' tests)."""
