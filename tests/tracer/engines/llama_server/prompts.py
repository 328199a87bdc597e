"""Prompts of the scenarios, and the few questions that their tests ask of two answers."""

from collections.abc import Sequence

import numpy as np

from tracer.columns import margins
from tracer.engines.base import GenerateCall, Generation
from tracer.engines.llama_server.engine import LlamaServerEngine
from tracer.episode import Sampling

SENTENCE = "You are a careful assistant that answers in short sentences. "
QUESTIONS = (
    "Explain why the sky is blue.",
    "List three uses of copper.",
    "A train leaves at 3 pm and travels 120 km at 60 km/h. When does it arrive?",
    "Write a short poem about a river.",
    "What is the capital of France and why is it famous?",
    "Describe how bread is made.",
    "Give me a recipe for tomato soup.",
    "Tom has 5 apples and buys 7 more, then gives 3 away. How many are left?",
)


def chatml(question: str, system_repeats: int = 6) -> str:
    system = SENTENCE * system_repeats
    turns = (("system", system), ("user", question))
    return (
        "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns) + "<|im_start|>assistant\n"
    )


def ask(
    engine: LlamaServerEngine, prompt: str | Sequence[int], new_tokens: int = 24, *, cached: bool = True
) -> Generation:
    ids = engine.tokenize(prompt) if isinstance(prompt, str) else prompt
    sampling = Sampling(max_new_tokens=new_tokens)
    return engine.generate(GenerateCall(tuple(ids), sampling, top_k=5, use_cache=cached))


def tokens(generation: Generation) -> list[int]:
    return [int(token) for token in generation.path.token_ids]


def identical(one: Generation, other: Generation) -> bool:
    """The same tokens, and bit for bit the same numbers."""
    if tokens(one) != tokens(other):
        return False
    assert one.path.chosen_values is not None
    assert other.path.chosen_values is not None
    assert one.alternatives is not None
    assert other.alternatives is not None
    return bool(
        np.array_equal(one.path.chosen_values, other.path.chosen_values)
        and np.array_equal(one.alternatives.values, other.alternatives.values)
    )


def first_flip(one: Generation, other: Generation) -> int | None:
    for position, (a, b) in enumerate(zip(tokens(one), tokens(other), strict=False)):
        if a != b:
            return position
    return None


def largest_drift(one: Generation, other: Generation) -> float:
    """Largest change of a chosen logprob over the positions before the first flip."""
    assert one.path.chosen_values is not None
    assert other.path.chosen_values is not None
    end = first_flip(one, other)
    shared = min(len(one.path), len(other.path)) if end is None else end
    gap = one.path.chosen_values[:shared].astype(float) - other.path.chosen_values[:shared]
    return float(np.max(np.abs(gap), initial=0.0))


def margin_at(generation: Generation, position: int) -> float:
    assert generation.alternatives is not None
    return float(margins(generation.alternatives, generation.path.flags)[position])
