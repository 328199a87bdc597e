"""What the authors' harness was set to: constants that stand in no line of their logs.

Source: launch scripts and README of the released artifact (August grid, repair runs, October
revision). A folder whose name is not known here is refused, since its settings cannot be told.
"""

from __future__ import annotations

import re

from msgspec import Struct

from tracer.episode import EngineInfo, Sampling

_FORMATS = {"f16": "F16", "fp16": "BF16", "q80": "Q8_0", "q4km": "Q4_K_M", "q3km": "Q3_K_M", "q4deq": "F16"}
"""``fp16`` of the vLLM folders is really bfloat16; ``q4deq`` is Q4_K_M dequantised to F16."""
_MODELS = {
    "qwen7b": "Qwen2.5-7B-Instruct",
    "llama8b": "Llama-3.1-8B-Instruct",
    "qwen14b": "Qwen2.5-14B-Instruct",
}
_GRID = re.compile(
    r"(?P<engine>lcpp|vllm)-(?P<model>qwen7b|llama8b|qwen14b)-(?P<format>f16|fp16|q80|q4km|q3km)"
)
_BRIDGE = re.compile(r"bridge-(?:lcpp-)?(?P<model>qwen7b|qwen14b)-(?P<format>f16|q80|q4km|q3km)(?:-n500)?")
DEFAULT_PROMPT_CACHE_BYTES = 8192 * 1024 * 1024
CONTEXT_TOKENS = 16384
AGENT_MAX_TOKENS = 4096
GSM8K_MAX_TOKENS = 1024


class Configuration(Struct, frozen=True, kw_only=True):
    """Engine, model and weights of a folder of the artifact."""

    backend: str
    model: str
    weight_format: str
    note: str = ""

    def engine(self, *, prompt_cache: bool, prefix_cache: bool, alternatives: int) -> EngineInfo:
        """The engine as it was launched for one arm."""
        llama = self.backend == "llamacpp"
        return EngineInfo(
            engine="llama-server" if llama else "vllm",
            version="b10434" if llama else "0.11.0",
            build="7e4c0a9" if llama else "torch 2.8.0+cu128",
            model_name=self.model,
            weight_format=self.weight_format,
            kv_type_k="f16" if llama else None,
            kv_type_v="f16" if llama else None,
            context_tokens=CONTEXT_TOKENS,
            device="CUDA, NVIDIA GeForce RTX 4090",
            gpu_layers=99 if llama else None,
            slots=1,
            prompt_cache_bytes=(DEFAULT_PROMPT_CACHE_BYTES if prompt_cache else 0) if llama else None,
            prefix_cache=prefix_cache,
            flags={"logprobs": str(alternatives), **({"weights": self.note} if self.note else {})},
        )


def grid_configuration(name: str) -> Configuration | None:
    """``lcpp-qwen7b-q4km`` and so on; None when the name is not of the grid."""
    match = _GRID.fullmatch(name)
    return _configuration(match) if match else None


def bridge_configuration(name: str) -> Configuration | None:
    """``bridge-qwen7b-q4km-n500`` and so on."""
    match = _BRIDGE.fullmatch(name)
    if match is None:
        return None
    return Configuration(
        backend="llamacpp", model=_MODELS[match["model"]], weight_format=_FORMATS[match["format"]]
    )


def format_configuration(label: str, backend: str = "llamacpp") -> Configuration | None:
    """``q4km`` of the repair and revision folders: always Qwen2.5-7B."""
    if label not in _FORMATS:
        return None
    note = "Q4_K_M dequantised" if label == "q4deq" else ""
    weights = "BF16" if backend == "vllm" else _FORMATS[label]
    return Configuration(backend=backend, model=_MODELS["qwen7b"], weight_format=weights, note=note)


def _configuration(match: re.Match[str]) -> Configuration:
    return Configuration(
        backend="llamacpp" if match["engine"] == "lcpp" else "vllm",
        model=_MODELS[match["model"]],
        weight_format=_FORMATS[match["format"]],
    )


def sampling(max_tokens: int) -> Sampling:
    """Greedy, seed 42 on every request."""
    return Sampling(temperature=0.0, seed=42, max_new_tokens=max_tokens)
