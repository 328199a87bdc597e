"""A ladder of weight formats out of one GGUF file, with llama.cpp's own quantizer.

The quantizer silently takes another type for a tensor whose rows do not fit into the blocks of the
type that the format wants. Which tensors that befell is read back from the written file and kept in
``ladder.json`` beside it, since "Q4_K_M" of a small model may hardly hold a Q4_K tensor.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

from tracer.engines.llama.gguf_file import GgufTensor, read_head
from tracer.engines.llama.library import library_version, load_library, usable_cores
from tracer.engines.llama.model import file_sha256, weight_format_names
from tracer.errors import EngineError, UsageError
from tracer.output_folder import make_folder

RECORD_FILE = "ladder.json"
DEFAULT_FORMATS = ("F16", "Q8_0", "Q4_K_M", "Q3_K_M")
_FULL = ("F32", "F16", "BF16")


class FallenBack(Struct, frozen=True, kw_only=True):
    """A tensor that the format wanted in another type."""

    tensor: str
    columns: int
    got: str


class FormatRecord(Struct, frozen=True, kw_only=True):
    """One written file. ``types``: how many tensors of two or more dimensions have each type."""

    weight_format: str
    file: str
    sha256: str
    size_bytes: int
    types: dict[str, int]
    fallen_back: tuple[FallenBack, ...] = ()


class LadderRecord(Struct, frozen=True, kw_only=True):
    """What ``ladder.json`` holds."""

    source_file: str
    source_sha256: str
    source_format: str | None
    library: str
    formats: tuple[FormatRecord, ...] = ()
    warnings: tuple[str, ...] = ()


def make_ladder(
    source: Path, formats: Sequence[str], folder: Path, say: Callable[[str], None] = lambda _: None
) -> LadderRecord:
    """Write one file per format into ``folder`` and the record beside them.

    A file that an earlier run wrote from the same source is kept. Raises ``UsageError`` for an
    unknown format and ``EngineError`` when the quantizer fails.
    """
    numbers = check_formats(formats)
    source_format = format_of(source)
    warnings = []
    if source_format not in _FULL:
        warnings.append(
            f"The source is itself quantized ({source_format or 'unknown format'}): no format of this ladder "
            "holds more than that file did, F16 included."
        )
        say(warnings[0])
    make_folder(folder)
    source_sha256 = file_sha256(source)
    earlier = _earlier(folder, source_sha256)
    records: list[FormatRecord] = []
    for name in formats:
        target = folder / f"{_stem(source, source_format)}.{name}.gguf"
        if target.resolve() == source.resolve():
            raise UsageError(f"{target.name!r} is the source itself; choose another folder with -o.")
        kept = earlier.get(name)
        if kept is None or not target.is_file() or file_sha256(target) != kept.sha256:
            say(f"Writing {target.name} …")
            quantize(source, target, numbers[name])
            kept = _record(target, name)
        records.append(kept)
    ladder = LadderRecord(
        source_file=source.name,
        source_sha256=source_sha256,
        source_format=source_format,
        library=f"llama-cpp-python {library_version()}",
        formats=tuple(records),
        warnings=tuple(warnings),
    )
    others = tuple(record for name, record in earlier.items() if name not in formats)
    whole = msgspec.structs.replace(ladder, formats=(*ladder.formats, *others))
    try:
        (folder / RECORD_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=1))
    except OSError as error:
        raise UsageError(
            f"{folder / RECORD_FILE} cannot be written ({error.strerror}); give another folder with -o."
        ) from error
    return ladder


def check_formats(formats: Sequence[str]) -> dict[str, int]:
    """The library's numbers of all weight formats. Raises ``UsageError`` for a name that it does not have."""
    numbers = {name: number for number, name in weight_format_names().items()}
    for name in formats:
        if name not in numbers:
            raise UsageError(f"there is no weight format {name!r}; some are F16, Q8_0, Q4_K_M and Q3_K_M.")
    return numbers


def quantize(source: Path, target: Path, number: int) -> None:
    """Write ``target`` in the library's weight format ``number``, in one step."""
    low = load_library()
    params = low.llama_model_quantize_default_params()
    params.nthread = usable_cores()
    params.ftype = number
    params.allow_requantize = True
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        code = low.llama_model_quantize(os.fsencode(source), os.fsencode(partial), ctypes.byref(params))
        if code != 0:
            raise EngineError(
                f"llama.cpp could not write {target.name!r} from {str(source)!r} (code {code})."
            )
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def format_of(path: Path) -> str | None:
    """The weight format that a GGUF file names, None when it names none."""
    number = read_head(path).facts.get("general.file_type")
    return weight_format_names().get(number) if isinstance(number, int) else None


def fallen_back(tensors: Sequence[GgufTensor], weight_format: str) -> tuple[FallenBack, ...]:
    """Tensors of two or more dimensions whose type is none of those that the format is made of."""
    names = tensor_type_names()
    found = []
    for tensor in tensors:
        got = names.get(tensor.type_id, str(tensor.type_id))
        if len(tensor.shape) >= 2 and not _belongs(got, weight_format):
            found.append(FallenBack(tensor=tensor.name, columns=tensor.shape[0], got=got))
    return tuple(found)


@lru_cache
def tensor_type_names() -> dict[int, str]:
    """The library's numbers of tensor types → names such as ``Q4_K``."""
    return {
        number: name.removeprefix("GGML_TYPE_")
        for name, number in vars(load_library()).items()
        if name.startswith("GGML_TYPE_") and isinstance(number, int) and name != "GGML_TYPE_COUNT"
    }


def _belongs(tensor_type: str, weight_format: str) -> bool:
    """Whether the quantizer would choose this type for the format of its own accord."""
    if weight_format in _FULL or weight_format == "Q8_0":
        return tensor_type == weight_format
    if "_K" in weight_format:
        return tensor_type.endswith("_K")
    # the simple formats keep the output matrix in Q6_K
    return tensor_type in (weight_format, "Q6_K")


def _record(target: Path, weight_format: str) -> FormatRecord:
    tensors = read_head(target).tensors
    names = tensor_type_names()
    types: dict[str, int] = {}
    for tensor in tensors:
        if len(tensor.shape) >= 2:
            name = names.get(tensor.type_id, str(tensor.type_id))
            types[name] = types.get(name, 0) + 1
    return FormatRecord(
        weight_format=weight_format,
        file=target.name,
        sha256=file_sha256(target),
        size_bytes=target.stat().st_size,
        types=types,
        fallen_back=fallen_back(tensors, weight_format),
    )


def _earlier(folder: Path, source_sha256: str) -> dict[str, FormatRecord]:
    """What an earlier run wrote here from the same source with the same library."""
    try:
        ladder = msgspec.json.decode((folder / RECORD_FILE).read_bytes(), type=LadderRecord)
    except (OSError, msgspec.MsgspecError):
        return {}
    same = ladder.source_sha256 == source_sha256 and ladder.library.endswith(f" {library_version()}")
    return {record.weight_format: record for record in ladder.formats} if same else {}


def _stem(source: Path, source_format: str | None) -> str:
    """The file's name without ``.gguf`` and without its own format."""
    stem = source.name.removesuffix(".gguf")
    return stem.removesuffix(f".{source_format}").removesuffix(f"-{source_format}")
