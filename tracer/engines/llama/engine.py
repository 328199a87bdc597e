"""The adapter: llama.cpp in this process as the arm loop sees it.

Prefix reuse follows the llama.cpp server: the common token prefix is kept, the last prompt token
is always decoded, the rest is cut. When a request would throw away most of what is held, that is
first saved into the second layer, and a longer prefix is looked for there. Decoding is greedy and
ours: the highest logit, the lowest id among equals.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tracer.capture import MOST_ALTERNATIVES, CaptureMode, RowCapture
from tracer.engines.base import GenerateCall, Generation, SavedState
from tracer.engines.choice import EngineChoice
from tracer.engines.llama.context import LlamaContext
from tracer.engines.llama.library import device_features, device_names, library_version
from tracer.engines.llama.model import LlamaModel
from tracer.engines.llama.second_layer import DEFAULT_MIB, SecondLayer
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
from tracer.errors import EngineError, PromptTooLong, StateRefused
from tracer.resolved import FLASH_ATTENTION

_STATE_MARK = b"cachetrace llama state 1\n"


class LlamaEngine:
    """Everything can be observed and controlled. Refuses no operation of the protocol."""

    def __init__(self, choice: EngineChoice, capture_mode: CaptureMode | None = None) -> None:
        if choice.model is None:
            from tracer.model_store import default_model_path

            path = default_model_path()
        else:
            path = Path(choice.model).expanduser()
        self._model = LlamaModel(path, gpu_layers=choice.gpu_layers)
        self._context = LlamaContext(self._model, choice)
        mib = DEFAULT_MIB if choice.prompt_cache_mib is None else choice.prompt_cache_mib
        self._second_layer = SecondLayer(mib << 20)
        self._prefix_cache = True
        self._prompt_cache = False
        self._choice = choice
        on_gpu = choice.gpu_layers != 0
        self._capture_mode = capture_mode or (CaptureMode.OVERLAPPED if on_gpu else CaptureMode.INLINE)
        self._capture: RowCapture | None = None
        self._capture_key: tuple[int, bool] = (0, False)
        self._info = self._describe()
        self._settings = hashlib.sha256(repr(self._info).encode()).digest()

    # ---- what it is

    @property
    def info(self) -> EngineInfo:
        from msgspec.structs import replace

        size = self._second_layer.size_bytes if self._prompt_cache else 0
        return replace(self._info, prefix_cache=self._prefix_cache, prompt_cache_bytes=size)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            token_ids=True,
            chosen_logprob=True,
            top_k=min(MOST_ALTERNATIVES, self._model.vocabulary_tokens),
            full_row=True,
            cached_tokens=True,
            reset=True,
            disable_per_request=True,
            snapshot=True,
            prompt_cache=True,
            forced_decode=True,
            states=(CacheState.COLD, CacheState.WARM, CacheState.NO_PROMPT_CACHE, CacheState.SNAPSHOT),
        )

    def _describe(self) -> EngineInfo:
        model, context, choice = self._model, self._context, self._choice
        source = model.template_source
        flags = {"greedy": "argmax, lowest id wins a tie", "swa_full": "on"}
        if context.flash_attention is not None:
            flags[FLASH_ATTENTION] = context.flash_attention
        return EngineInfo(
            engine="llama",
            version=library_version(),
            model_name=model.name,
            model_hash=model.content_hash,
            model_bytes=model.path.stat().st_size,
            architecture=model.architecture,
            parameters=model.parameters,
            weight_format=model.weight_format,
            vocabulary_tokens=model.vocabulary_tokens,
            template_hash=None if source is None else f"sha256:{hashlib.sha256(source.encode()).hexdigest()}",
            kv_type_k=choice.kv_type,
            kv_type_v=choice.kv_type,
            context_tokens=context.context_tokens,
            device=device_names() if choice.gpu_layers != 0 else "cpu",
            device_features=device_features(),
            gpu_layers=choice.gpu_layers,
            threads=context.threads,
            threads_batch=context.threads,
            batch_tokens=context.batch_tokens,
            ubatch_tokens=context.ubatch_tokens,
            flash_attention=choice.flash_attention,
            slots=1,
            cache_block_tokens=1,
            flags=flags,
        )

    # ---- text and tokens

    def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None = None) -> str:
        return self._model.template.render(messages, tools)

    def tokenize(self, text: str) -> list[int]:
        return self._model.tokenize(text)

    def piece(self, token_id: int) -> bytes | None:
        return self._model.piece(token_id)

    # ---- caches

    def set_layers(self, *, prefix_cache: bool, prompt_cache: bool) -> None:
        self._prefix_cache = prefix_cache
        self._prompt_cache = prompt_cache and self._second_layer.size_bytes > 0

    def reset(self) -> None:
        self._second_layer.clear()
        self._context.clear()

    def held_ids(self) -> tuple[int, ...] | None:
        return self._context.held

    def bring_back(self, prompt_ids: Sequence[int]) -> int:
        """Do the second layer's part of a request now; returns how many tokens it brings back.

        After it, ``held_ids`` and ``save_state`` show the state that the request will meet.
        """
        if not (self._prompt_cache and self._prefix_cache):
            return 0
        held = self._context.held
        if held and not would_overwrite(held, prompt_ids):
            return 0
        if held:
            self._second_layer.put(held, self._context.state())
        found = self._second_layer.better_than(common_prefix(held, prompt_ids), prompt_ids)
        if found is None:
            return 0
        self._context.set_state(found.state, found.token_ids)
        return reusable(found.token_ids, prompt_ids)

    def cut(self, tokens: int) -> None:
        if not self._context.cut(tokens):
            raise StateRefused(
                f"The memory of the model {self._model.name!r} cannot be cut back to a prefix, "
                "so this priming is not possible with it."
            )

    def decode_into_cache(self, token_ids: Sequence[int]) -> None:
        if len(self._context.held) + len(token_ids) > self._context.context_tokens:
            raise PromptTooLong(self._too_long(len(self._context.held), len(token_ids)))
        for token in token_ids:
            self._context.decode_one(token)

    def save_state(self) -> SavedState:
        payload = _STATE_MARK + self._settings + self._context.state()
        return SavedState(self._context.held, len(payload), payload)

    def restore_state(self, state: SavedState) -> None:
        """Raises ``StateRefused`` unless the state was saved under this very configuration.

        Native code parses it and may abort on a foreign one, so that is checked here first.
        """
        payload = state.payload
        head = _STATE_MARK + self._settings
        if not isinstance(payload, bytes) or not payload.startswith(head):
            raise StateRefused(
                "This state was saved by another engine or with other settings; record it again."
            )
        self.reset()
        self._context.set_state(payload[len(head) :], state.token_ids)

    def close(self) -> None:
        if self._capture is not None:
            self._capture.close()
            self._capture = None
        self._second_layer.clear()
        self._context.close()
        self._model.close()

    # ---- serving

    def generate(self, call: GenerateCall) -> Generation:
        started_at, clock = time.time(), time.perf_counter()
        self._refuse(call)
        cached, brought = self._reuse(call)
        self._context.decode(call.prompt_ids[cached:], call.on_prompt_progress)
        capture = self._fresh_capture(call)
        prompt_s = time.perf_counter() - clock
        first_token_s, stop = self._decode(call, capture, clock)
        path = capture.path()
        wall_s = time.perf_counter() - clock
        return Generation(
            path=path,
            alternatives=capture.alternatives(),
            scale=Scale.LOGIT,
            stop=stop,
            text=self._model.text(path.token_ids.tolist()),
            prompt_tokens=len(call.prompt_ids),
            cached_tokens=cached,
            exposure_source=ExposureSource.ENGINE,
            prompt_cache_tokens=min(brought, cached),
            rows=capture.rows(),
            timing=Timing(
                started_at=started_at,
                wall_s=wall_s,
                prompt_s=prompt_s,
                decode_s=wall_s - prompt_s,
                first_token_s=first_token_s,
            ),
        )

    def _reuse(self, call: GenerateCall) -> tuple[int, int]:
        """Bring the first layer to what the prompt may keep: (cached tokens, by the second layer)."""
        if not (call.use_cache and self._prefix_cache):
            self._context.clear()
            return 0, 0
        brought = self.bring_back(call.prompt_ids)
        cached = reusable(self._context.held, call.prompt_ids)
        if not self._context.cut(cached):
            return 0, 0
        return cached, brought

    def _decode(
        self, call: GenerateCall, capture: RowCapture, clock: float
    ) -> tuple[float | None, StopReason]:
        """Take tokens until the end token, the limit, or the end of the forced ones."""
        context, forced = self._context, call.forced_ids
        limit = call.sampling.max_new_tokens if forced is None else len(forced)
        first_token_s: float | None = None
        token = -1
        for position in range(limit):
            token = capture.take(context.row(), None if forced is None else forced[position])
            if first_token_s is None:
                first_token_s = time.perf_counter() - clock
            if forced is None and self._model.ends(token):
                break
            if position + 1 < limit:
                context.decode_one(token)
                capture.overlap()
        ended = token >= 0 and self._model.ends(token)
        return first_token_s, StopReason.STOP if ended else StopReason.LENGTH

    def _fresh_capture(self, call: GenerateCall) -> RowCapture:
        key = (call.top_k, call.keep_rows)
        if self._capture is None or key != self._capture_key:
            if self._capture is not None:
                self._capture.close()
            self._capture = RowCapture(
                self._model.vocabulary_tokens,
                call.top_k,
                mode=self._capture_mode,
                keep_rows=call.keep_rows,
            )
            self._capture_key = key
        self._capture.clear()
        return self._capture

    def _refuse(self, call: GenerateCall) -> None:
        if not call.sampling.greedy:
            raise EngineError("The engine 'llama' decodes greedily; leave the temperature at 0.")
        if not call.prompt_ids:
            raise EngineError("The prompt is empty; a request needs at least one token.")
        new_tokens = call.sampling.max_new_tokens if call.forced_ids is None else len(call.forced_ids)
        if len(call.prompt_ids) + new_tokens > self._context.context_tokens:
            raise PromptTooLong(self._too_long(len(call.prompt_ids), new_tokens))
        known = range(self._model.vocabulary_tokens)
        if any(token not in known for token in (*call.prompt_ids, *(call.forced_ids or ()))):
            raise EngineError("A token id lies outside the model's vocabulary: is this the recorded model?")

    def _too_long(self, prompt_tokens: int, new_tokens: int) -> str:
        return (
            f"{prompt_tokens} prompt tokens and {new_tokens} new ones do not fit into the context of "
            f"{self._context.context_tokens} tokens; give more with --context, or shorten the episode."
        )
