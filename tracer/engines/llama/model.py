"""A loaded GGUF model: its facts and its vocabulary."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from tracer.engines.llama.gguf_file import check_whole
from tracer.engines.llama.library import load_library
from tracer.engines.llama.template import ChatTemplate
from tracer.errors import EngineMissing, UsageError

_LONGEST_FACT_BYTES = 1 << 16
_GUESSED = 1024
"""Added to the number of a weight format that the library guessed from the tensors."""


class LlamaModel:
    """Weights in memory (or on the GPU) and what the file says about them.

    Raises ``EngineMissing`` in one sentence when the file is missing, damaged, or unknown to the
    library, and when layers are wanted on a GPU that the library cannot use.
    """

    def __init__(self, path: Path, *, gpu_layers: int = 0) -> None:
        self._low: Any = load_library()
        self.path = path
        self.gpu_layers = gpu_layers
        check_whole(path)
        if gpu_layers != 0 and not self._low.llama_supports_gpu_offload():
            raise EngineMissing(
                "This build of llama-cpp-python cannot use a GPU; build it with "
                '`CMAKE_ARGS="-DGGML_CUDA=on" pip install --no-binary llama-cpp-python llama-cpp-python`, '
                "or leave --gpu-layers out."
            )
        params = self._low.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        self.pointer = self._low.llama_model_load_from_file(os.fsencode(path), params)
        if not self.pointer:
            raise EngineMissing(
                f"The model file {str(path)!r} could not be loaded by llama.cpp: it is damaged, too large "
                "for the memory, or of an architecture that this version does not know."
            )
        self._vocab = self._low.llama_model_get_vocab(self.pointer)
        self.vocabulary_tokens = int(self._low.llama_vocab_n_tokens(self._vocab))

    def close(self) -> None:
        """Free the weights."""
        if self.pointer:
            self._low.llama_model_free(self.pointer)
            self.pointer = None

    # ---- facts

    def fact(self, key: str) -> str | None:
        """A key-value of the file as text, None when it is not there."""
        buffer = ctypes.create_string_buffer(_LONGEST_FACT_BYTES)
        length = self._low.llama_model_meta_val_str(self.pointer, key.encode(), buffer, len(buffer))
        return None if length < 0 else buffer.value.decode("utf-8", "replace")

    @property
    def name(self) -> str:
        """The name that the file gives itself, else the name of the file."""
        return self.fact("general.name") or self.path.name

    @property
    def architecture(self) -> str | None:
        return self.fact("general.architecture")

    @property
    def parameters(self) -> int:
        return int(self._low.llama_model_n_params(self.pointer))

    @property
    def trained_context_tokens(self) -> int:
        return int(self._low.llama_model_n_ctx_train(self.pointer))

    @property
    def weight_format(self) -> str | None:
        """Such as ``Q4_1``; None when the file does not say."""
        number = self.fact("general.file_type")
        if number is None or not number.isdigit():
            return None
        return weight_format_names().get(int(number) & ~_GUESSED)

    @cached_property
    def content_hash(self) -> str:
        """``sha256:<hex>`` of the file."""
        return f"sha256:{file_sha256(self.path)}"

    @cached_property
    def template_source(self) -> str | None:
        """Text of the default chat template, None when the file has none."""
        raw = self._low.llama_model_chat_template(self.pointer, None)
        return None if raw is None else str(raw.decode("utf-8", "replace"))

    @cached_property
    def template(self) -> ChatTemplate:
        """The chat template. Raises ``UsageError`` when the file has none."""
        if self.template_source is None:
            raise UsageError(
                f"The model {self.name!r} has no chat template; "
                "choose an instruction-tuned model with --model."
            )
        bos = self._special(self._low.llama_vocab_bos(self._vocab))
        prefix = bos if self._low.llama_vocab_get_add_bos(self._vocab) else ""
        eos = self._special(self._low.llama_vocab_eos(self._vocab))
        return ChatTemplate(self.template_source, bos=bos, eos=eos, prefix=prefix)

    # ---- tokens

    def tokenize(self, text: str) -> list[int]:
        """Ids of a text; special tokens in it are parsed, none is added (the template has them)."""
        raw = text.encode("utf-8", "surrogateescape")
        room = len(raw) + 8
        for _ in range(2):
            buffer = (ctypes.c_int32 * room)()
            count = self._low.llama_tokenize(self._vocab, raw, len(raw), buffer, room, False, True)
            if count >= 0:
                return list(buffer[:count])
            room = -count
        raise UsageError("This text cannot be tokenized by the model's vocabulary.")

    def piece(self, token_id: int, *, special: bool = True) -> bytes | None:
        """Bytes of a token, None for an id outside the vocabulary; ``special=False`` hides marks."""
        if not 0 <= token_id < self.vocabulary_tokens:
            return None
        room = 64
        for _ in range(2):
            buffer = ctypes.create_string_buffer(room)
            length = self._low.llama_token_to_piece(self._vocab, token_id, buffer, room, 0, special)
            if length >= 0:
                return buffer.raw[:length]
            room = -length
        return None

    def text(self, token_ids: list[int]) -> str:
        """Text of generated tokens without the marks that end them."""
        parts = (self.piece(token, special=not self.ends(token)) or b"" for token in token_ids)
        return b"".join(parts).decode("utf-8", "replace")

    def ends(self, token_id: int) -> bool:
        """Whether the token ends a generation."""
        return bool(self._low.llama_vocab_is_eog(self._vocab, token_id))

    def _special(self, token_id: int) -> str:
        return (self.piece(token_id) or b"").decode("utf-8", "replace")


@lru_cache
def weight_format_names() -> dict[int, str]:
    """The library's numbers of weight formats → names such as ``Q4_K_M``."""
    names: dict[int, str] = {}
    for name, number in vars(load_library()).items():
        if name.startswith("LLAMA_FTYPE_") and isinstance(number, int) and number < _GUESSED:
            names[number] = name.removeprefix("LLAMA_FTYPE_").removeprefix("MOSTLY_").removeprefix("ALL_")
    return names


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file. Remembered by path, size and time, so that gigabytes are read once."""
    from platformdirs import user_cache_path

    stat = path.stat()
    label = [str(path.resolve()), stat.st_size, stat.st_mtime_ns]
    note = hashlib.sha256(json.dumps(label).encode()).hexdigest()[:32]
    memory = user_cache_path("cachetrace") / "model-hashes" / f"{note}.json"
    try:
        known = json.loads(memory.read_bytes())
        if known["file"] == label and len(known["sha256"]) == 64:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not remembered, or the note is damaged: read the file
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        partial = memory.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps({"file": label, "sha256": digest}), "utf-8")
        partial.replace(memory)
    except OSError:
        pass  # a cache that cannot be written only costs time
    return digest
