"""What the library's log says about flash attention while a context is made, in llama.cpp's own lines."""

import pytest

from tracer.engines.llama.context import flash_attention_resolved

AUTO = "llama_context: flash_attn            = auto\n"
MISMATCH = (
    "resolve_fused_ops: layer 3 is assigned to device CUDA0 but Flash Attention "
    "is assigned to device CPU (usually due to missing support)\n"
)


@pytest.mark.parametrize(
    ("log", "resolved"),
    [
        ([AUTO, "resolve_fused_ops: Flash Attention enabled\n"], "enabled"),
        (
            [AUTO, MISMATCH, "resolve_fused_ops: Flash Attention not supported, set to disabled\n"],
            "not supported, set to disabled",
        ),
        (["llama_context: flash_attn            = enabled\n"], "enabled"),
        (["llama_context: flash_attn            = disabled\n", "sched_reserve: reserving ...\n"], "disabled"),
        ([AUTO, MISMATCH], None),
        (["resolve_fused_ops: fused Gated Delta Net (chunked) enabled\n"], None),
        ([], None),
    ],
)
def test_what_became_of_auto(log: list[str], resolved: str | None) -> None:
    assert flash_attention_resolved(log) == resolved
