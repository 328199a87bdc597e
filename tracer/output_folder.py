"""The folder that ``-o`` names: made where it is missing, and refused in a sentence where it cannot be."""

from __future__ import annotations

from pathlib import Path

from tracer.errors import UsageError


def make_folder(folder: Path) -> None:
    """Make a folder and those above it. Raises ``UsageError`` where a file or the system is in the way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"{folder} is a file, and a folder is needed; give another one with -o.") from error
    except OSError as error:
        raise UsageError(
            f"the folder {folder} cannot be made ({error.strerror}); give another one with -o."
        ) from error
