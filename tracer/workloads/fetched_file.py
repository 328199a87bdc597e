"""A file that a workload needs, kept once in the user's data folder and accepted by its hash only."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tracer.errors import UsageError

_BLOCK_BYTES = 1 << 20
_TIMEOUT_S = 60.0


def data_folder(*parts: str) -> Path:
    """The user's data folder for cachetrace, or a folder in it (``CACHETRACE_DATA_DIR`` overrides)."""
    chosen = os.environ.get("CACHETRACE_DATA_DIR")
    if chosen:
        return Path(chosen).joinpath(*parts)
    from platformdirs import user_data_path

    return user_data_path("cachetrace").joinpath(*parts)


def sha256_of(path: Path) -> str:
    """Hex SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def check_hash(path: Path, sha256: str, what: str) -> Path:
    """The path itself when the file is exactly the pinned one; raises UsageError otherwise."""
    if not path.is_file():
        raise UsageError(f"{what} is not there: {path}.")
    found = sha256_of(path)
    if found != sha256:
        raise UsageError(
            f"{path} is not the pinned {what}: its sha256 is {found}, expected {sha256}; get that version."
        )
    return path


def keep(bytes_: bytes, kept: Path, sha256: str, what: str) -> Path:
    """Write checked bytes to their place in one step, so that a half-written file is never found."""
    found = hashlib.sha256(bytes_).hexdigest()
    if found != sha256:
        raise UsageError(
            f"what arrived is not the pinned {what}: its sha256 is {found}, expected {sha256}; "
            "nothing was kept."
        )
    kept.parent.mkdir(parents=True, exist_ok=True)
    half = kept.with_name(f"{kept.name}.{os.getpid()}.part")
    try:
        half.write_bytes(bytes_)
        half.replace(kept)
    finally:
        half.unlink(missing_ok=True)
    return kept


def fetch(url: str, kept: Path, sha256: str, what: str, *, longest_bytes: int = 64 << 20) -> Path:
    """The kept file, downloaded first when it is not there yet.

    Raises UsageError when the address cannot be reached, sends more than ``longest_bytes``, or
    sends anything but the pinned file.
    """
    if kept.is_file() and sha256_of(kept) == sha256:
        return kept
    import httpx

    collected = bytearray()
    try:
        with httpx.stream("GET", url, timeout=_TIMEOUT_S, follow_redirects=True) as response:
            response.raise_for_status()
            for block in response.iter_bytes():
                collected += block
                if len(collected) > longest_bytes:
                    raise UsageError(f"{what} is larger than {longest_bytes} bytes; nothing was kept.")
    except httpx.HTTPError as error:
        raise UsageError(f"{what} could not be downloaded ({error}); give its path instead.") from error
    return keep(bytes(collected), kept, sha256, what)
