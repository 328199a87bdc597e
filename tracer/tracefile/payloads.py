"""Payloads of frames: descriptions as msgpack, columns as packed little-endian arrays.

A column that was not observed is absent. Sizes are checked against the payload before anything
is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import xxhash
from msgspec import Struct
from numpy.typing import NDArray

from tracer.columns import Alternatives, PathColumns
from tracer.episode import Episode, Request
from tracer.errors import TraceFormatError
from tracer.tracefile.frames import FORMAT_VERSION, MAGIC

_T = TypeVar("_T")

_PATH_HEAD = struct.Struct("<IB3x")
_ALTERNATIVES_HEAD = struct.Struct("<IHxx")
_ROWS_HEAD = struct.Struct("<II")

_HAS_VALUES = 1
_HAS_LOG_SUM_EXP = 2
_HAS_FINGERPRINTS = 4


class FileHeader(Struct, frozen=True, kw_only=True):
    """Payload of the first frame."""

    magic: str = MAGIC
    format: int = FORMAT_VERSION
    writer: str
    episode: Episode


class _HeaderStart(Struct, frozen=True, kw_only=True):
    """The part of the first frame that every format version keeps."""

    magic: str
    format: int
    writer: str


class Commit(Struct, frozen=True, kw_only=True):
    """Payload of a request's last frame."""

    columns: dict[int, int]
    """Kind of each column frame of this request → checksum of its payload."""
    request: Request


_encoder = msgspec.msgpack.Encoder(enc_hook=None)


def encode(description: Struct | dict[int, bytes]) -> bytes:
    """A description as msgpack. Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    try:
        return _encoder.encode(description)
    except UnicodeEncodeError:
        return _encoder.encode(_without_surrogates(msgspec.to_builtins(description, builtin_types=(bytes,))))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value


def decode(payload: bytes, wanted: type[_T]) -> _T:
    """A description from msgpack; ``TraceFormatError`` when it is not one."""
    try:
        return msgspec.msgpack.decode(payload, type=wanted)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, OverflowError, ValueError) as error:
        raise TraceFormatError(f"a description does not have the expected form ({error}).") from error


def decode_header(payload: bytes) -> FileHeader:
    """The first frame's payload; refuses other formats and newer versions, each in one sentence."""
    start = decode(payload, _HeaderStart)
    if start.magic != MAGIC:
        raise TraceFormatError("this is no cachetrace file.")
    if start.format > FORMAT_VERSION:
        raise TraceFormatError(
            f"the file has format version {start.format}, written by cachetrace {start.writer!r}; this "
            f"cachetrace reads up to version {FORMAT_VERSION}: install a newer one."
        )
    if start.format < 1:
        raise TraceFormatError(f"there is no format version {start.format}.")
    return decode(payload, FileHeader)


def prompt_hash(ids: NDArray[np.int32]) -> str:
    """``xxh3:`` and the 128-bit hash of the ids as little-endian int32."""
    return "xxh3:" + xxhash.xxh3_128_hexdigest(ids.astype("<i4", copy=False).tobytes())


def encode_prompt(tail: NDArray[np.int32]) -> bytes:
    """The ids of a prompt that its base does not have."""
    return tail.astype("<i4", copy=False).tobytes()


def decode_prompt(payload: bytes, tokens: int) -> NDArray[np.int32]:
    """int32[tokens], or ``TraceFormatError``."""
    if tokens < 0 or len(payload) != 4 * tokens:
        raise TraceFormatError("the prompt's size does not fit its description.")
    return np.frombuffer(payload, "<i4").astype(np.int32, copy=False)


def encode_path(path: PathColumns) -> bytes:
    """Number of positions, bitmap of the columns that follow, the columns."""
    n = len(path)
    bitmap = 0
    parts = [np.ascontiguousarray(path.token_ids, "<i4").tobytes()]
    if path.chosen_values is not None:
        bitmap |= _HAS_VALUES
        parts.append(np.ascontiguousarray(path.chosen_values, "<f4").tobytes())
    if path.log_sum_exp is not None:
        bitmap |= _HAS_LOG_SUM_EXP
        parts.append(np.ascontiguousarray(path.log_sum_exp, "<f4").tobytes())
    if path.fingerprints is not None:
        bitmap |= _HAS_FINGERPRINTS
        parts.append(np.ascontiguousarray(path.fingerprints, "<u8").tobytes())
    parts.append(np.ascontiguousarray(path.flags, np.uint8).tobytes())
    payload = _PATH_HEAD.pack(n, bitmap) + b"".join(parts)
    if len(payload) != _path_bytes(n, bitmap):
        raise ValueError("the columns of a path must all have one entry a position")
    return payload


def _path_bytes(n: int, bitmap: int) -> int:
    width = 5 + 4 * bool(bitmap & _HAS_VALUES) + 4 * bool(bitmap & _HAS_LOG_SUM_EXP)
    return _PATH_HEAD.size + n * (width + 16 * bool(bitmap & _HAS_FINGERPRINTS))


def decode_path(payload: bytes) -> PathColumns:
    """The path of one request, or ``TraceFormatError``."""
    if len(payload) < _PATH_HEAD.size:
        raise TraceFormatError("a path is too short.")
    n, bitmap = _PATH_HEAD.unpack_from(payload)
    if bitmap > 7 or len(payload) != _path_bytes(n, bitmap):
        raise TraceFormatError("a path does not have the size that it says.")
    at = _PATH_HEAD.size

    def column(dtype: str, width: int) -> NDArray[Any]:
        nonlocal at
        array = np.frombuffer(payload, dtype, count=n * width, offset=at)
        at += array.nbytes
        return array

    ids = column("<i4", 1)
    values = column("<f4", 1) if bitmap & _HAS_VALUES else None
    log_sum_exp = column("<f4", 1) if bitmap & _HAS_LOG_SUM_EXP else None
    fingerprints = column("<u8", 2).reshape(n, 2) if bitmap & _HAS_FINGERPRINTS else None
    path = PathColumns(ids, column("u1", 1), values, log_sum_exp, fingerprints)
    object.__setattr__(path, "stored", payload)  # the arrays are views of it, so it costs nothing
    return path


def encode_alternatives(table: Alternatives) -> bytes:
    """Number of positions, k, ids, values, counts."""
    n, k = table.ids.shape
    if table.values.shape != (n, k) or table.counts.shape != (n,):
        raise ValueError("ids, values and counts of the alternatives must have the same positions and k")
    return b"".join(
        (
            _ALTERNATIVES_HEAD.pack(n, k),
            np.ascontiguousarray(table.ids, "<i4").tobytes(),
            np.ascontiguousarray(table.values, "<f4").tobytes(),
            np.ascontiguousarray(table.counts, np.uint8).tobytes(),
        )
    )


def decode_alternatives(payload: bytes) -> Alternatives:
    """The top-k of one request, or ``TraceFormatError``."""
    if len(payload) < _ALTERNATIVES_HEAD.size:
        raise TraceFormatError("alternatives are too short.")
    n, k = _ALTERNATIVES_HEAD.unpack_from(payload)
    at = _ALTERNATIVES_HEAD.size
    if len(payload) != at + n * (8 * k + 1):
        raise TraceFormatError("alternatives do not have the size that they say.")
    ids = np.frombuffer(payload, "<i4", count=n * k, offset=at).reshape(n, k)
    values = np.frombuffer(payload, "<f4", count=n * k, offset=at + 4 * n * k).reshape(n, k)
    return Alternatives(ids, values, np.frombuffer(payload, "u1", count=n, offset=at + 8 * n * k))


def encode_rows(rows: NDArray[np.float32]) -> bytes:
    """Number of positions, vocabulary, whole rows."""
    return _ROWS_HEAD.pack(*rows.shape) + np.ascontiguousarray(rows, "<f4").tobytes()


def decode_rows(payload: bytes) -> NDArray[np.float32]:
    """float32[n, vocabulary], or ``TraceFormatError``."""
    if len(payload) < _ROWS_HEAD.size:
        raise TraceFormatError("rows are too short.")
    n, vocabulary = _ROWS_HEAD.unpack_from(payload)
    if len(payload) != _ROWS_HEAD.size + 4 * n * vocabulary:
        raise TraceFormatError("rows do not have the size that they say.")
    return np.frombuffer(payload, "<f4", offset=_ROWS_HEAD.size).reshape(n, vocabulary)


def as_ids(ids: Sequence[int] | NDArray[Any]) -> NDArray[np.int32]:
    """Prompt ids as int32[prompt]."""
    return np.asarray(ids, dtype=np.int32).reshape(-1)
