"""``FakeEngine``: a scripted engine with exact cache accounting, for tests and for users' tests.

Use::

    engine = FakeEngine(FakeScript(answers=(FakeAnswer(after="sky", text="Because of the air."),)))
    prompt = tuple(engine.tokenize("Why is the sky blue?"))
    engine.generate(GenerateCall(prompt_ids=prompt, sampling=Sampling(max_new_tokens=8)))

or ``--engine fake --fake-script FILE.json`` with the fields of ``FakeScript``, for instance::

    {"answers": [{"after": "sky", "text": "Because of the air.", "near_ties": {"3": 0.01}}],
     "disturbance": 0.02, "faults": [{"kind": "dies", "request": 4, "position": 2}]}

Cold and warm then differ as in real engines: by little, and now and then by a token. It keeps a first
layer (prefix reuse in blocks), a second layer (sequence states by longest token prefix, within a
size), saved states, and every fault of ``FakeFault``. What it computes is in ``fake_model``.
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracer.capture import RowCapture
from tracer.columns import Alternatives, PathColumns, PositionFlag
from tracer.engines.base import GenerateCall, Generation, SavedState
from tracer.engines.choice import EngineChoice
from tracer.engines.fake_model import (
    END,
    PIECES,
    VOCABULARY,
    Batch,
    FakeAnswer,
    FakeFault,
    FakeModel,
    FakeScript,
    read_script,
    render,
    text_of,
    tokenize,
)
from tracer.engines.prefix_reuse import common_prefix, reusable, would_overwrite
from tracer.episode import (
    CacheState,
    Capabilities,
    EngineInfo,
    ExposureSource,
    Message,
    Scale,
    StopReason,
    Timing,
)
from tracer.errors import EngineDied, EngineError, PromptTooLong, StateRefused

__all__ = ["FakeAnswer", "FakeEngine", "FakeFault", "FakeScript", "open_fake"]

_Sequence = tuple[tuple[int, ...], tuple[Batch, ...]]
"""Token ids held, and the batch in which each was computed."""

_EMPTY: _Sequence = ((), ())


def open_fake(choice: EngineChoice) -> FakeEngine:
    """A fake engine as the choice says. Raises ``UsageError`` when its script cannot be read."""
    script = read_script(choice.fake_script) if choice.fake_script else FakeScript()
    changes: dict[str, Any] = {
        "context_tokens": choice.context_tokens,
        "batch_tokens": choice.batch_tokens,
        "prompt_cache_mib": choice.prompt_cache_mib,
        "model_name": choice.model,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    return FakeEngine(msgspec.structs.replace(script, **given))


class FakeEngine:
    """An engine that keeps the whole protocol of ``tracer.engines.base.Engine``."""

    def __init__(self, script: FakeScript | None = None) -> None:
        self._script = script or FakeScript()
        self._model = FakeModel(self._script)
        self._held: _Sequence = _EMPTY
        self._stored: OrderedDict[tuple[int, ...], _Sequence] = OrderedDict()
        self._prefix_cache = True
        self._prompt_cache = False
        self._served = itertools.count()
        self._dead = False
        self._wobble = 0

    # ---- what it is

    @property
    def info(self) -> EngineInfo:
        script = self._script
        digest = msgspec.json.encode((script.seed, script.answers, script.spread, script.disturbance)).hex()
        return EngineInfo(
            engine="fake",
            version="1",
            model_name=script.model_name,
            model_hash=f"sha256:{_sha256(digest)}",
            weight_format="F16",
            vocabulary_tokens=VOCABULARY,
            template_hash=f"sha256:{_sha256(render(()))}",
            context_tokens=script.context_tokens,
            device="cpu",
            batch_tokens=script.batch_tokens,
            ubatch_tokens=script.batch_tokens,
            prefix_cache=self._prefix_cache,
            prompt_cache_bytes=script.prompt_cache_mib << 20 if self._prompt_cache else 0,
            cache_block_tokens=script.block_tokens,
        )

    @property
    def capabilities(self) -> Capabilities:
        everything: dict[str, Any] = {
            "token_ids": True,
            "chosen_logprob": True,
            "top_k": 255,
            "full_row": True,
            "cached_tokens": True,
            "reset": True,
            "disable_per_request": True,
            "snapshot": True,
            "prompt_cache": True,
            "forced_decode": True,
        }
        for name in self._script.without:
            everything[name] = 0 if name == "top_k" else False
        states = [CacheState.COLD, CacheState.WARM, CacheState.NO_PROMPT_CACHE]
        if everything["snapshot"]:
            states.append(CacheState.SNAPSHOT)
        return Capabilities(**everything, cache_block_tokens=self._script.block_tokens, states=tuple(states))

    # ---- text and tokens

    def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None = None) -> str:  # noqa: ARG002
        """Tools are ignored: this model has never heard of them."""
        return render(messages)

    def tokenize(self, text: str) -> list[int]:
        return tokenize(text)

    def piece(self, token_id: int) -> bytes | None:
        return PIECES[token_id] if 0 <= token_id < VOCABULARY else None

    # ---- caches

    def set_layers(self, *, prefix_cache: bool, prompt_cache: bool) -> None:
        self._alive()
        if prompt_cache and not self.capabilities.prompt_cache:
            raise StateRefused("This fake engine has no second cache layer to switch on.")
        self._prefix_cache = prefix_cache
        self._prompt_cache = prompt_cache

    def reset(self) -> None:
        self._alive()
        self._held = _EMPTY
        self._stored.clear()

    def held_ids(self) -> tuple[int, ...] | None:
        return self._held[0]

    def bring_back(self, prompt_ids: Sequence[int]) -> int:
        """Do the second layer's part of a request now; returns how many tokens it brings back.

        After it, ``held_ids`` and ``save_state`` show the state that the request will meet.
        """
        held = self._held[0]
        if not (self._prompt_cache and self._prefix_cache):
            return 0
        if held and not would_overwrite(held, prompt_ids):
            return 0
        if held:
            self._store(self._held)
        best = max(self._stored, key=lambda key: common_prefix(key, prompt_ids), default=())
        gained = common_prefix(best, prompt_ids)
        if gained <= common_prefix(held, prompt_ids):
            return 0
        self._stored.move_to_end(best)
        self._held = self._stored[best]
        return reusable(best, prompt_ids, self._script.block_tokens)

    def cut(self, tokens: int) -> None:
        self._alive()
        ids, batches = self._held
        self._held = (ids[:tokens], batches[:tokens])

    def decode_into_cache(self, token_ids: Sequence[int]) -> None:
        self._alive()
        if not self.capabilities.forced_decode:
            raise StateRefused("This fake engine cannot decode given tokens.")
        for token in token_ids:
            self._append(token)

    def save_state(self) -> SavedState:
        self._alive()
        if not self.capabilities.snapshot:
            raise StateRefused("This fake engine cannot save its state.")
        ids = self._held[0]
        return SavedState(ids, len(ids) * self._script.state_bytes_per_token, self._held)

    def restore_state(self, state: SavedState) -> None:
        self.reset()
        self._held = cast(_Sequence, state.payload)

    def close(self) -> None:
        """Nothing to release."""

    # ---- serving

    def generate(self, call: GenerateCall) -> Generation:
        self._alive()
        faults = self._faults(next(self._served))
        started = time.time()
        clock = time.perf_counter()
        if (
            len(call.prompt_ids) + call.sampling.max_new_tokens > self._script.context_tokens
            or not call.prompt_ids
        ):
            raise PromptTooLong(
                f"The prompt of {len(call.prompt_ids)} tokens and {call.sampling.max_new_tokens} new ones "
                f"do not fit into the context of {self._script.context_tokens} tokens."
            )
        if "error" in faults:
            raise EngineError("The fake engine answered with an error, as its script says.")
        use_cache = (call.use_cache and self._prefix_cache) or "leaks" in faults
        brought = self.bring_back(call.prompt_ids) if use_cache else 0
        cached = reusable(self._held[0], call.prompt_ids, self._script.block_tokens) if use_cache else 0
        self.cut(cached)
        self._prefill(call, cached)
        prompt_s = time.perf_counter() - clock
        capture, stop = self._decode(call, faults)
        return self._answer(
            call,
            capture,
            stop,
            faults,
            cached,
            min(brought, cached),
            Timing(
                started_at=started,
                wall_s=time.perf_counter() - clock,
                prompt_s=prompt_s,
                decode_s=time.perf_counter() - clock - prompt_s,
            ),
        )

    def _prefill(self, call: GenerateCall, cached: int) -> None:
        prompt, width = call.prompt_ids, self._script.batch_tokens
        batches = self._held[1]
        for start in range(cached, len(prompt), width):
            length = min(width, len(prompt) - start)
            batches = batches + ((start, length),) * length
            if call.on_prompt_progress is not None:
                call.on_prompt_progress(start + length - cached, len(prompt) - cached)
        self._held = (prompt, batches)

    def _decode(self, call: GenerateCall, faults: dict[str, FakeFault]) -> tuple[RowCapture, StopReason]:
        capture = RowCapture(VOCABULARY, call.top_k, keep_rows=call.keep_rows)
        forced = call.forced_ids
        limit = call.sampling.max_new_tokens if forced is None else len(forced)
        self._wobble = time.perf_counter_ns() if "wobbles" in faults else 0
        for position in range(limit):
            self._wait(faults)
            if "dies" in faults and position >= faults["dies"].position:
                self._dead = True
                raise EngineDied("The fake engine died while it was generating, as its script says.")
            row = self._row(len(call.prompt_ids))
            for kind in ("nan-row", "all-nan-row"):
                if kind in faults and faults[kind].position == position:
                    row[... if kind == "all-nan-row" else position % VOCABULARY] = np.nan
            token = capture.take(row, None if forced is None else forced[position])
            if token == END and forced is None:
                return capture, StopReason.STOP
            if position + 1 < limit:
                self._append(token)
        ended = forced is not None and limit > 0 and forced[-1] == END
        return capture, StopReason.STOP if ended else StopReason.LENGTH

    def _answer(
        self,
        call: GenerateCall,
        capture: RowCapture,
        stop: StopReason,
        faults: dict[str, FakeFault],
        cached: int,
        brought: int,
        timing: Timing,
    ) -> Generation:
        able = self.capabilities
        path = capture.path()
        alternatives: Alternatives | None = capture.alternatives()
        scale: Scale | None = self._script.scale
        if scale is Scale.LOGPROB and alternatives is not None:
            path, alternatives = _as_logprobs(path, alternatives)
        missing: dict[str, str] = {}
        if not able.full_row:
            path = PathColumns(path.token_ids, path.flags, path.chosen_values)
            missing = dict.fromkeys(("log_sum_exp", "fingerprints"), "the engine does not give whole rows")
        if able.top_k == 0:
            alternatives = None
            missing["alternatives"] = "the engine does not give alternatives"
        if not able.chosen_logprob:
            flags = path.flags & ~np.uint8(PositionFlag.VALUE)
            path = PathColumns(path.token_ids, flags, None, path.log_sum_exp, path.fingerprints)
            missing["chosen_values"] = "the engine does not give values"
            scale = scale if alternatives is not None else None
        counted = able.cached_tokens and "uncounted" not in faults
        if "lies" in faults:
            cached = max(cached + faults["lies"].by, 0)
        return Generation(
            path=path,
            alternatives=alternatives,
            scale=scale,
            stop=stop,
            text=text_of(path.token_ids.tolist()),
            prompt_tokens=len(call.prompt_ids),
            cached_tokens=cached if counted else None,
            exposure_source=ExposureSource.ENGINE if counted else ExposureSource.NOT_OBSERVED,
            prompt_cache_tokens=brought if counted else None,
            rows=capture.rows(),
            timing=timing,
            not_observed=missing,
        )

    # ---- parts

    def _append(self, token: int) -> None:
        ids, batches = self._held
        self._held = ((*ids, token), (*batches, (len(ids), 1)))

    def _row(self, prompt_tokens: int) -> NDArray[np.float32]:
        ids, batches = self._held
        if self._wobble:
            batches = (*batches, (self._wobble % 2**31, 0))
        return self._model.row(ids, batches, prompt_tokens)

    def _store(self, sequence: _Sequence) -> None:
        """Put a state into the second layer; the oldest go when it is full."""
        self._stored.pop(sequence[0], None)
        self._stored[sequence[0]] = sequence
        room = self._script.prompt_cache_mib << 20
        while self._stored and sum(map(len, self._stored)) * self._script.state_bytes_per_token > room:
            self._stored.popitem(last=False)

    def _faults(self, request: int) -> dict[str, FakeFault]:
        return {f.kind: f for f in self._script.faults if f.request in (None, request)}

    def _wait(self, faults: dict[str, FakeFault]) -> None:
        seconds = self._script.token_seconds + (faults["slow"].seconds if "slow" in faults else 0.0)
        if seconds:
            time.sleep(seconds)

    def _alive(self) -> None:
        if self._dead:
            raise EngineDied("The fake engine is dead; open a new one.")


def _as_logprobs(path: PathColumns, alternatives: Alternatives) -> tuple[PathColumns, Alternatives]:
    """The same numbers minus each position's log-sum-exp, which is then not given itself."""
    assert path.chosen_values is not None
    assert path.log_sum_exp is not None
    total = path.log_sum_exp
    return (
        PathColumns(path.token_ids, path.flags, path.chosen_values - total, None, path.fingerprints),
        Alternatives(alternatives.ids, alternatives.values - total[:, None], alternatives.counts),
    )


def _sha256(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()
