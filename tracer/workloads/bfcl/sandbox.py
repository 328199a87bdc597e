"""What the worker process takes away from itself before it runs the benchmark's code.

The gates decide what is executed; this is the wall behind them. Each measure says in words
whether it holds on this system, and those words are stored with the outcome.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

MEMORY_LIMIT_BYTES = 1 << 30
CPU_LIMIT_S = 300
FILE_SIZE_LIMIT_BYTES = 16 << 20
OPEN_FILES_LIMIT = 64

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000

_NEVER = (
    "ctypes.",
    "fcntl.",
    "ftplib.",
    "http.",
    "mmap.",
    "os.chmod",
    "os.chown",
    "os.exec",
    "os.fork",
    "os.kill",
    "os.link",
    "os.posix_spawn",
    "os.putenv",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.spawn",
    "os.symlink",
    "os.system",
    "os.truncate",
    "pty.",
    "shutil.",
    "smtplib.",
    "socket.",
    "subprocess.",
    "urllib.",
    "webbrowser.",
)
"""Audit events (by prefix) that nothing in an episode needs."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC


def limit_resources() -> dict[str, str]:
    """Limit memory, processor time, file size and open files of this process."""
    try:
        import resource
    except ImportError:
        return {"limits": "not available: this system has no resource limits for a process"}
    wanted = (
        ("memory", resource.RLIMIT_AS, MEMORY_LIMIT_BYTES, "bytes"),
        ("processor time", resource.RLIMIT_CPU, CPU_LIMIT_S, "s"),
        ("file size", resource.RLIMIT_FSIZE, FILE_SIZE_LIMIT_BYTES, "bytes"),
        ("open files", resource.RLIMIT_NOFILE, OPEN_FILES_LIMIT, "files"),
        ("core dump", resource.RLIMIT_CORE, 0, "bytes"),
    )
    said = {}
    for name, which, most, unit in wanted:
        try:
            resource.setrlimit(which, (most, most))
            said[name] = f"at most {most} {unit}"
        except (OSError, ValueError) as error:
            said[name] = f"not available: {error}"
    return said


def enter_namespaces() -> dict[str, str]:
    """Leave the user's network for an empty one, where the system allows it without privileges."""
    if not sys.platform.startswith("linux"):
        return {
            "network": "not separated: namespaces exist on Linux only; sockets are refused by an audit hook"
        }
    unshare = getattr(ctypes.CDLL(None, use_errno=True), "unshare", None)
    if unshare is not None and unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0:
        return {"network": "own user and network namespaces, without any interface up"}
    reason = os.strerror(ctypes.get_errno()) if unshare is not None else "no unshare call"
    return {"network": f"not separated ({reason}); sockets are refused by an audit hook"}


def refuse_the_rest(folder: Path, readable: Iterable[str], record: Callable[[str], None]) -> dict[str, str]:
    """Refuse, from now on, files outside ``folder``, sockets, processes and foreign code.

    ``readable`` are folders and archives that imports need. Every refusal is passed to ``record``.
    An audit hook cannot be removed again, and it is no wall against native code: it is the second
    line behind the gates.
    """
    own = str(folder.resolve()) + os.sep
    roots = tuple(str(Path(name).resolve()) for name in readable)

    def refuse(what: str) -> None:
        record(what)
        raise PermissionError(f"{what} is not allowed in an episode")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments[:3]
            if isinstance(path, int):
                return
            full = os.path.abspath(os.fsdecode(path))  # noqa: PTH100  # Path would open and resolve: events in an event
            writes = bool((flags or 0) & _WRITES) or any(c in (mode or "") for c in "wax+")
            if full.startswith(own) or (not writes and full.startswith(roots)):
                return
            refuse(f"opening {full}")
        elif event == "import" and arguments[0] in ("ctypes", "_ctypes", "socket", "_socket", "subprocess"):
            # A module that the package has imported already raises no event.
            refuse(f"importing {arguments[0]}")
        elif event.startswith(_NEVER):
            refuse(event)

    sys.addaudithook(hook)
    return {"files": "its own temporary folder only", "processes": "refused", "sockets": "refused"}
