"""Which trace files a list of paths names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tracer.errors import UsageError

SUFFIX = ".msgpack"


def trace_files(paths: Iterable[Path]) -> list[Path]:
    """Every trace under the paths, each once: files as given, folders searched in depth by name."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.rglob(f"*{SUFFIX}") if p.is_file())
            if not inside:
                raise UsageError(
                    f"{path} holds no {SUFFIX} file; give the folder that `record` or `study` wrote."
                )
            found.update(dict.fromkeys(inside))
        elif path.exists():
            found[path] = None
        else:
            raise UsageError(f"{path} does not exist; give a trace file or a folder of traces.")
    if not found:
        raise UsageError("Give at least one trace file or folder of traces.")
    return list(found)
