"""Lines of a JSON Lines file, compressed or not, with the place of a mistake."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from tracer.clean_text import clean
from tracer.errors import UsageError

LONGEST_LINE_BYTES = 256 * 1024 * 1024
"""A line beyond this is no request of a log; it is refused before it fills the memory."""

T = TypeVar("T")


def prefer_compressed(path: Path) -> Path | None:
    """``PATH.gz`` when it is there, else ``PATH``, else None."""
    packed = path.with_name(path.name + ".gz")
    return packed if packed.is_file() else path if path.is_file() else None


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line) of every line that is not empty."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            number = 0
            while line := stream.readline(LONGEST_LINE_BYTES + 1):
                number += 1
                if len(line) > LONGEST_LINE_BYTES:
                    raise refused(path, number, "the line is longer than any request of a log")
                if line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path} cannot be read ({error}); is the download complete?") from error


def decoded_lines(path: Path, kind: type[T]) -> Iterator[tuple[int, T]]:
    """Every line as ``kind``; a line of another shape is refused with its number and field."""
    decoder = msgspec.json.Decoder(kind)
    for number, line in numbered_lines(path):
        try:
            yield number, decoder.decode(line)
        except msgspec.DecodeError as error:
            raise refused(path, number, clean(str(error))) from error
        except (RecursionError, ValueError) as error:
            raise refused(path, number, "the line cannot be decoded") from error


def decoded_file(path: Path, kind: type[T]) -> T:
    """A whole JSON file as ``kind``."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from error
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise UsageError(f"{path} has another layout than is known here: {clean(str(error))}.") from error


def refused(path: Path, number: int, why: str) -> UsageError:
    """The error of one line."""
    return UsageError(f"{path}, line {number}: {why}; the importer refuses to guess.")
