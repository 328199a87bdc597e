"""What a vLLM server lets us see and control, from what it says about itself."""

from __future__ import annotations

from tracer.engines.vllm.described import VllmFacts
from tracer.episode import CacheState, Capabilities

DEFAULT_MOST_ALTERNATIVES = 20


def capabilities_of(facts: VllmFacts) -> Capabilities:
    """``cold`` and a fresh start are always possible (a new salt); ``warm`` unless caching is off."""
    states = [CacheState.COLD]
    if facts.prefix_cache is not False:
        states.append(CacheState.WARM)
    most = facts.setting("max_logprobs")
    return Capabilities(
        token_ids=True,
        chosen_logprob=True,
        top_k=int(most) if most is not None and most.isdigit() else DEFAULT_MOST_ALTERNATIVES,
        cached_tokens=True,
        reset=True,
        disable_per_request=True,
        cache_block_tokens=facts.block_tokens or 1,
        states=tuple(states),
    )
