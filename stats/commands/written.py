"""Where a command's text goes, and how it says what it was called with."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tracer.errors import UsageError


def command_line(argv: Sequence[str]) -> str:
    """The command as a shell would take it; the program by its name, without the folder it lies in."""
    return shlex.join(["cachetrace", *argv[1:]])


def write_text(text: str, output: Path | None) -> None:
    """To the file, or to stdout. Characters that stdout cannot show are escaped, never an error."""
    if output is None:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written ({error.strerror}); give another file with -o."
        ) from error


def terminal_width() -> int:
    """Columns of the terminal, or a wide default where stdout is a file or pipe."""
    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else 160
