"""How each cache state and priming is made from an engine's operations.

An adapter says what it can do and does it; what a state MEANS is decided here, once, for every
engine. ``prepare`` runs once an arm, ``before_request`` and ``after_request`` around each request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from tracer.engines.base import Engine, GenerateCall, SavedState
from tracer.episode import CacheState, Capabilities, EngineInfo, Priming, Way
from tracer.errors import StateRefused
from tracer.exposure import expected_tokens

_OWN_HISTORY = (CacheState.WARM, CacheState.NO_PROMPT_CACHE, CacheState.AS_SERVED)


def depends_on_history(state: CacheState) -> bool:
    """Whether the earlier requests of an arm decide what a later one finds in the cache."""
    return state in _OWN_HISTORY


def refuse_impossible(
    capabilities: Capabilities, info: EngineInfo, state: CacheState, priming: Priming, way: Way
) -> None:
    """Raise ``StateRefused`` with the reason if this engine cannot run such an arm."""
    name = info.engine
    if capabilities.states and state not in capabilities.states:
        possible = ", ".join(capabilities.states)
        raise StateRefused(
            f"engine {name} cannot produce the cache state {state}; it can produce: {possible}."
        )
    if state is CacheState.SNAPSHOT and not capabilities.snapshot:
        raise StateRefused(f"engine {name} cannot save and restore states, so {state} is not possible.")
    if (priming is Priming.RESTORED) != (state is CacheState.SNAPSHOT):
        raise StateRefused(
            f"the priming {Priming.RESTORED} belongs to the cache state snapshot, and only to it."
        )
    if state is CacheState.COLD and priming is not Priming.NONE:
        raise StateRefused(f"a cold arm has no cache to fill, so the priming {priming} does not apply to it.")
    in_process = capabilities.forced_decode
    if priming in (Priming.LOCKSTEP, Priming.PROMPT_ONLY) and not in_process:
        raise StateRefused(f"the priming {priming} needs an engine in process; {name} cannot cut its cache.")
    if way is Way.FORCED and not in_process:
        raise StateRefused(f"the way forced needs an engine in process; {name} chooses its tokens itself.")


def switch_layers(engine: Engine, state: CacheState) -> None:
    """Set both cache layers as ``state`` wants them, where they are ours to set.

    An engine that cannot switch its second layer is left as deployed; whether that is what the
    state asks for is said by ``Capabilities.states`` and, per request, by the exposure.
    """
    capabilities = engine.capabilities
    if state is CacheState.AS_SERVED:
        return
    # Cold is asked for per request; the layers stay off where that alone would not be enough.
    prefix_cache = state is not CacheState.COLD or capabilities.disable_per_request
    second_layer = state is CacheState.WARM
    if capabilities.prompt_cache or not prefix_cache:
        engine.set_layers(prefix_cache=prefix_cache, prompt_cache=second_layer)


def before_request(
    engine: Engine, state: CacheState, priming: Priming, call: GenerateCall, met: SavedState | None
) -> None:
    """Bring the cache to what this request shall meet. ``met`` is for ``snapshot``; None = empty."""
    if state is CacheState.SNAPSHOT:
        if met is None:
            engine.reset()
        else:
            engine.restore_state(met)
    elif priming is Priming.SELF:
        engine.generate(replace(call, keep_rows=False))


def after_request(
    engine: Engine,
    priming: Priming,
    prompt: Sequence[int],
    output: Sequence[int],
    recorded_output: Sequence[int] | None,
) -> None:
    """Bring the cache to what the arm's priming wants the NEXT request to meet.

    ``lockstep`` replaces this arm's output by the recorded one, decoded one token at a time as
    generation would have done. How many of the last tokens stay undecoded is taken from what the
    engine itself holds after generating (usually one: the last token is chosen, never decoded).
    """
    if priming is Priming.PROMPT_ONLY:
        engine.cut(len(prompt))
    elif priming is Priming.LOCKSTEP:
        recorded = tuple(recorded_output or ())
        if recorded == tuple(output):
            return  # decoding the same tokens again would only rebuild what is held
        held = engine.held_ids()
        decoded = 0 if held is None else max(len(held) - len(prompt), 0)
        undecoded = len(output) - decoded if output else 1
        engine.cut(len(prompt))
        engine.decode_into_cache(recorded[: max(len(recorded) - undecoded, 0)])


@runtime_checkable
class BringsBack(Protocol):
    """An engine whose second layer can be asked to do its part before the request."""

    def bring_back(self, prompt_ids: Sequence[int]) -> int:
        """Fetch what fits this prompt best; returns how many of its tokens came back."""
        ...


@runtime_checkable
class KnowsWhatFits(Protocol):
    """An engine whose cache holds parts of many sequences, so that no one sequence says what is held."""

    def expected_cached(self, prompt_ids: Sequence[int]) -> int | None:
        """Tokens of this prompt that should come from the cache now; None when that is not known."""
        ...


def bring_back(engine: Engine, state: CacheState, prompt: Sequence[int]) -> int | None:
    """Let the second layer act now, so that the state which the request meets can be seen and kept.

    None when the engine does that only inside the request: then the second layer shows itself as
    ``more than expected``.
    """
    if state not in (CacheState.WARM, CacheState.AS_SERVED) or not isinstance(engine, BringsBack):
        return None
    return engine.bring_back(prompt)


def expected_now(engine: Engine, state: CacheState, prompt: Sequence[int]) -> int | None:
    """Prompt tokens that should come from the caches now; None when what it holds is not known."""
    if state is CacheState.COLD:
        return 0
    if isinstance(engine, KnowsWhatFits):
        return engine.expected_cached(prompt)
    return expected_tokens(engine.held_ids(), prompt, engine.capabilities.cache_block_tokens)
