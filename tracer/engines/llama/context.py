"""One sequence of a llama.cpp context: the keys and values of the tokens that are held."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.engines.choice import EngineChoice
from tracer.engines.llama.library import heard_log, load_library, usable_cores
from tracer.engines.llama.model import LlamaModel
from tracer.errors import EngineError, EngineMissing, StateRefused

DEFAULT_CONTEXT_TOKENS = 4096
DEFAULT_BATCH_TOKENS = 512
_SEQUENCE = 0
_KV_TYPES = {
    "f32": "GGML_TYPE_F32",
    "f16": "GGML_TYPE_F16",
    "q8_0": "GGML_TYPE_Q8_0",
    "q4_0": "GGML_TYPE_Q4_0",
}
_FLASH = {
    "auto": "LLAMA_FLASH_ATTN_TYPE_AUTO",
    "on": "LLAMA_FLASH_ATTN_TYPE_ENABLED",
    "off": "LLAMA_FLASH_ATTN_TYPE_DISABLED",
}

_FLASH_SAID = re.compile(r"resolve_fused_ops: Flash Attention (.+)|: flash_attn += (.+)")
"""Said when a context is made: first the setting in force, then, where that is auto, what a probe found."""


def flash_attention_resolved(log: Sequence[str]) -> str | None:
    """What the library says that it made of ``auto`` (or of a setting that it had to change).

    ``enabled`` or a word of why not; None where it says nothing.
    """
    found = None
    for line in log:
        said = _FLASH_SAID.search(line)
        word = (said.group(1) or said.group(2)).strip() if said else "auto"
        found = found if word == "auto" else word
    return found


class LlamaContext:
    """Decodes tokens after what is held, and cuts, saves and restores what is held.

    Prompts are decoded in batches of ``batch_tokens``; with the default of one micro-batch each
    that gives the same sums as one large batch, and progress can be shown between them.
    """

    def __init__(self, model: LlamaModel, choice: EngineChoice) -> None:
        self._low: Any = load_library()
        low = self._low
        self.threads = choice.threads or usable_cores()
        asked = choice.context_tokens or min(DEFAULT_CONTEXT_TOKENS, model.trained_context_tokens)
        params = low.llama_context_default_params()
        params.n_ctx = asked
        params.n_batch = choice.batch_tokens or DEFAULT_BATCH_TOKENS
        params.n_ubatch = min(choice.ubatch_tokens or DEFAULT_BATCH_TOKENS, params.n_batch)
        params.n_seq_max = 1
        params.n_threads = params.n_threads_batch = self.threads
        params.type_k = params.type_v = getattr(low, _KV_TYPES[choice.kv_type])
        params.flash_attn_type = getattr(low, _FLASH[choice.flash_attention])
        params.swa_full = True  # else a sliding window could not be cut back to a prefix
        params.no_perf = True
        on_gpu = model.gpu_layers != 0
        params.offload_kqv = params.op_offload = on_gpu
        with heard_log() as said:
            self.pointer = low.llama_init_from_model(model.pointer, params)
        if not self.pointer:
            raise EngineMissing(
                f"llama.cpp could not make a context of {asked} tokens with KV type {choice.kv_type}; "
                "ask for fewer with --context, or (quantized KV types) switch --flash-attention on."
            )
        self.flash_attention = flash_attention_resolved(said)
        self._memory = low.llama_get_memory(self.pointer)
        self.context_tokens = int(low.llama_n_ctx(self.pointer))
        self.batch_tokens = int(low.llama_n_batch(self.pointer))
        self.ubatch_tokens = int(low.llama_n_ubatch(self.pointer))
        self._vocabulary = model.vocabulary_tokens
        self._held: list[int] = []
        self._tokens = (ctypes.c_int32 * self.batch_tokens)()
        self._single = low.llama_batch_get_one(self._tokens, 1)
        self._rows: dict[int, NDArray[np.float32]] = {}

    def close(self) -> None:
        """Free keys and values."""
        if self.pointer:
            self._low.llama_free(self.pointer)
            self.pointer = None

    @property
    def held(self) -> tuple[int, ...]:
        """Tokens whose keys and values are held, in order."""
        return tuple(self._held)

    # ---- decoding

    def decode(self, token_ids: Sequence[int], on_progress: Callable[[int, int], None] | None = None) -> None:
        """Compute these tokens in batches after what is held; ``on_progress(done, total)``."""
        total = len(token_ids)
        for start in range(0, total, self.batch_tokens):
            chunk = token_ids[start : start + self.batch_tokens]
            self._tokens[: len(chunk)] = list(chunk)
            self._run(self._low.llama_batch_get_one(self._tokens, len(chunk)))
            self._held.extend(chunk)
            if on_progress is not None:
                on_progress(start + len(chunk), total)

    def decode_one(self, token_id: int) -> None:
        """Compute one token, as generation does. On a GPU this returns before it is done."""
        self._tokens[0] = token_id
        self._run(self._single)
        self._held.append(token_id)

    def row(self) -> NDArray[np.float32]:
        """Logits after the last token, float32[vocabulary]; overwritten by the next decode."""
        pointer = self._low.llama_get_logits_ith(self.pointer, -1)
        address = ctypes.addressof(pointer.contents) if pointer else 0
        if not address:
            raise EngineError("llama.cpp gave no logits for the last token; restart the command.")
        row = self._rows.get(address)
        if row is None:  # making a view costs more than all else here, and buffers seldom move
            view = (ctypes.c_float * self._vocabulary).from_address(address)
            row = self._rows[address] = np.ctypeslib.as_array(view)
        return row

    def _run(self, batch: Any) -> None:
        code = self._low.llama_decode(self.pointer, batch)
        if code != 0:
            self.clear()  # what the memory holds after a failed decode is not known
            raise EngineError(
                f"llama.cpp could not decode a batch of {batch.n_tokens} tokens (code {code}); "
                "its cache was emptied."
            )

    # ---- what is held

    def clear(self) -> None:
        """Forget everything, and check it."""
        self._low.llama_memory_clear(self._memory, True)
        self._held.clear()
        if self._low.llama_memory_seq_pos_max(self._memory, _SEQUENCE) != -1:
            raise EngineError(
                "llama.cpp still holds tokens after its cache was cleared; restart the command."
            )

    def cut(self, tokens: int) -> bool:
        """Keep only the first ``tokens`` tokens. False: this model cannot, and all was forgotten."""
        if tokens >= len(self._held):
            return True
        if tokens == 0 or not self._low.llama_memory_seq_rm(self._memory, _SEQUENCE, tokens, -1):
            self.clear()
            return tokens == 0
        del self._held[tokens:]
        return True

    def state(self) -> bytes:
        """Keys and values of what is held, for ``set_state`` of an equal context."""
        size = self._low.llama_state_seq_get_size(self.pointer, _SEQUENCE)
        buffer = (ctypes.c_uint8 * size)()
        written = self._low.llama_state_seq_get_data(self.pointer, buffer, size, _SEQUENCE)
        if written == 0:
            raise StateRefused("llama.cpp could not save the state of its sequence.")
        return ctypes.string_at(buffer, written)

    def set_state(self, state: bytes, token_ids: Sequence[int]) -> None:
        """Replace what is held by a saved state of these tokens."""
        self.clear()
        if not token_ids:
            return
        source = ctypes.cast(ctypes.c_char_p(state), ctypes.POINTER(ctypes.c_uint8))
        read = self._low.llama_state_seq_set_data(self.pointer, source, len(state), _SEQUENCE)
        last = self._low.llama_memory_seq_pos_max(self._memory, _SEQUENCE)
        if read != len(state) or last != len(token_ids) - 1:
            self.clear()
            raise StateRefused("llama.cpp could not restore a saved state; was it made with other settings?")
        self._held = list(token_ids)
