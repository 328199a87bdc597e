"""Slot states in files that this run wrote, and nobody else has touched since.

The server aborts on a truncated file and empties the live slot for a missing one, so a file is
checked against our own record of it before the server is asked to read it.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tracer.errors import EngineError, StateRefused

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class SlotFile:
    """A file that the server wrote for us. ``settings``: under which configuration."""

    name: str
    sha256: str
    size_bytes: int
    settings: str


class SlotFolder:
    """A private folder for the slot files of one run. It is removed with the engine."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="cachetrace-slots-"))
        self._count = 0

    def next_name(self) -> str:
        """A name that was not used yet."""
        self._count += 1
        return f"state-{self._count}.bin"

    def record(self, name: str, settings: str) -> SlotFile:
        """Note what the server has just written. Raises ``EngineError`` when it wrote nothing."""
        path = self.path / name
        if not path.is_file():
            raise EngineError("The server said that it saved its slot, but wrote no file.")
        return SlotFile(name, _sha256(path), path.stat().st_size, settings)

    def check(self, file: SlotFile, settings: str) -> None:
        """Raise ``StateRefused`` unless the file is there, unchanged, and of this configuration."""
        path = self.path / file.name
        if file.settings != settings:
            raise StateRefused("This state was saved by a server with other settings; record it again.")
        if not path.is_file():
            raise StateRefused(f"The saved state {file.name} is no longer there; record it again.")
        size = path.stat().st_size
        if size != file.size_bytes:
            raise StateRefused(
                f"The saved state {file.name} has {size:,} bytes instead of {file.size_bytes:,}; "
                "record it again."
            )
        if _sha256(path) != file.sha256:
            raise StateRefused(
                f"The saved state {file.name} was changed after it was saved; record it again."
            )

    def remove(self) -> None:
        """Delete the folder and its files."""
        shutil.rmtree(self.path, ignore_errors=True)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
