"""Reading the head of a GGUF file ourselves: key-values and the table of tensors, never weights.

It answers what must be known before native code parses the file (is it a GGUF at all, whole?) and
what the native library does not say (the type of each tensor). Format: the GGUF page of ggml,
versions 2 and 3, little-endian.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tracer.errors import EngineMissing

MAGIC = b"GGUF"
_MOST_ENTRIES = 1 << 20
_MOST_BYTES = 1 << 26
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One row of the tensor table. ``type_id`` is ggml's number of the type."""

    name: str
    shape: tuple[int, ...]
    type_id: int
    offset: int

    @property
    def elements(self) -> int:
        """Number of weights."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class GgufHead:
    """What stands before the weights. Arrays in ``facts`` are left out (vocabularies are long)."""

    facts: dict[str, Any]
    tensors: tuple[GgufTensor, ...]
    weights_at: int


def check_magic(path: Path) -> None:
    """Raise ``EngineMissing`` unless the file is there and begins as a GGUF file does."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        raise EngineMissing(
            f"The model file {str(path)!r} cannot be read ({error.strerror}); name a GGUF file with --model."
        ) from None
    if magic != MAGIC:
        raise EngineMissing(f"{str(path)!r} is not a GGUF model file; name one with --model.")


def read_head(path: Path) -> GgufHead:
    """Read key-values and tensor table. Raises ``EngineMissing`` when the file is damaged."""
    check_magic(path)
    try:
        with path.open("rb") as file:
            return _Reader(file).head()
    except (struct.error, UnicodeDecodeError, ValueError, KeyError, MemoryError, OverflowError) as error:
        raise EngineMissing(
            f"The model file {str(path)!r} is damaged ({error or 'its head is cut off'}); fetch it again."
        ) from None


def check_whole(path: Path) -> None:
    """Raise ``EngineMissing`` when the head is damaged or the file ends before its last tensor begins."""
    head = read_head(path)
    last = max((tensor.offset for tensor in head.tensors), default=0)
    if path.stat().st_size <= head.weights_at + last:
        raise EngineMissing(f"The model file {str(path)!r} is cut off; fetch it again.")


class _Reader:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def head(self) -> GgufHead:
        self._file.seek(len(MAGIC))
        version = self._scalar("I")
        if version not in (2, 3):
            raise ValueError(f"GGUF version {version}")
        tensor_count = self._count()
        fact_count = self._count()
        facts: dict[str, Any] = {}
        for _ in range(fact_count):
            name = self._string()
            value = self._value(self._scalar("I"))
            if value is not None:
                facts[name] = value
        tensors = tuple(self._tensor() for _ in range(tensor_count))
        alignment = int(facts.get("general.alignment", 32))
        weights_at = -(-self._file.tell() // alignment) * alignment
        return GgufHead(facts, tensors, weights_at)

    def _tensor(self) -> GgufTensor:
        name = self._string()
        dimensions = self._scalar("I")
        if dimensions > 8:
            raise ValueError(f"a tensor of {dimensions} dimensions")
        shape = tuple(self._scalar("Q") for _ in range(dimensions))
        return GgufTensor(name, shape, self._scalar("I"), self._scalar("Q"))

    def _value(self, kind: int) -> Any:
        """The value; None for an array, which is skipped."""
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._scalar(_SCALARS[kind])
        inner = self._scalar("I")
        count = self._count(_MOST_BYTES)
        if inner == _STRING:
            for _ in range(count):
                self._string()
        else:
            self._file.seek(count * struct.calcsize("<" + _SCALARS[inner]), 1)
        return None

    def _count(self, most: int = _MOST_ENTRIES) -> int:
        count = self._scalar("Q")
        if count > most:
            raise ValueError(f"a table of {count} entries")
        return int(count)

    def _string(self) -> str:
        length = self._count(_MOST_BYTES)
        raw = self._file.read(length)
        if len(raw) != length:
            raise ValueError("its head is cut off")
        return raw.decode("utf-8", "replace")

    def _scalar(self, code: str) -> Any:
        size = struct.calcsize("<" + code)
        return struct.unpack("<" + code, self._file.read(size))[0]
