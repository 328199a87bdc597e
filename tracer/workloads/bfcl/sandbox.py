"""What the worker process takes away from itself before it runs the benchmark's code.

The gates decide what is executed; this is the wall behind them. Each measure says in words
whether it holds on this system, and those words are stored with the outcome.
"""

from __future__ import annotations

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
    "cpython.PyInterpreterState_New",
    "ctypes.",
    "fcntl.",
    "ftplib.",
    "http.",
    "mmap.",
    "os.chdir",
    "os.chmod",
    "os.chown",
    "os.exec",
    "os.fork",
    "os.getxattr",
    "os.kill",
    "os.link",
    "os.listxattr",
    "os.lockf",
    "os.posix_spawn",
    "os.putenv",
    "os.remove",  # os.removexattr as well
    "os.rename",
    "os.rmdir",
    "os.setxattr",
    "os.spawn",
    "os.symlink",
    "os.system",
    "os.truncate",
    "os.unsetenv",
    "os.utime",
    "pty.",
    "resource.",
    "shutil.",
    "smtplib.",
    "socket.",
    "sqlite3.",
    "subprocess.",
    "syslog.",
    "urllib.",
    "webbrowser.",
)
"""Audit events (by prefix) that nothing in an episode needs."""

_CLOSED = frozenset(
    {
        "_ctypes",
        "_dbm",
        "_gdbm",
        "_multiprocessing",
        "_posixshmem",
        "_posixsubprocess",
        "_socket",
        "_sqlite3",
        "_testcapi",
        "_testinternalcapi",
        "_xxsubinterpreters",
        "cffi",
        "ctypes",
        "mmap",
        "multiprocessing",
        "readline",
        "socket",
        "sqlite3",
        "subprocess",
    }
)
"""Modules whose native code acts without audit events, or outside this interpreter and its hook."""

REFUSED = {
    "files": "opened, listed and made in its own temporary folder only, and read on the path of Python's "
    "modules; none deleted, renamed, linked or given other attributes",
    "processes": "refused (starting one, os.kill)",
    "sockets": "refused",
    "imports": "refused for ctypes, subprocess, sqlite3 and other modules that reach around the hook",
    "not seen": "native code already loaded, and calls without an audit event: os.stat, os.access, "
    "os.readlink, os.mkfifo, os.mknod, os.chroot, signal.pidfd_send_signal",
}
"""What ``refuse_the_rest`` refuses and what escapes it, in words, as CPython 3.11 raises its audit events."""

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
    import ctypes  # only here: this module must not hand it on to an episode

    unshare = getattr(ctypes.CDLL(None, use_errno=True), "unshare", None)
    if unshare is not None and unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0:
        return {"network": "own user and network namespaces, without any interface up"}
    reason = os.strerror(ctypes.get_errno()) if unshare is not None else "no unshare call"
    return {"network": f"not separated ({reason}); sockets are refused by an audit hook"}


def refuse_the_rest(folder: Path, readable: Iterable[str], record: Callable[[str], None]) -> dict[str, str]:
    """Refuse, from now on, what ``REFUSED`` says; return those words.

    ``readable`` are folders and archives that imports need. Every refusal is passed to ``record``.
    An audit hook cannot be removed again, and it is no wall against native code: it is the second
    line behind the gates.
    """
    own = _both_spellings((str(folder),))
    modules = _both_spellings(readable)

    def refuse(what: str) -> None:
        record(what)
        raise PermissionError(f"{what} is not allowed in an episode")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments[:3]
            if isinstance(path, int):
                return
            full = _full(path)
            writes = bool((flags or 0) & _WRITES) or any(c in (mode or "") for c in "wax+")
            # With a folder's descriptor a relative name means another file, and the event does not say so.
            if not _within(full, own if writes else own + modules) or os.path.isdir(full):  # noqa: PTH112
                refuse(f"opening {full}")
        elif event == "os.mkdir":
            if not _within(_full(arguments[0]), own):
                refuse(f"making the folder {_full(arguments[0])}")
        elif event in ("os.listdir", "os.scandir"):
            path = "." if arguments[0] is None else arguments[0]
            if isinstance(path, int) or not _within(_full(path), own + modules):
                refuse(f"listing {path if isinstance(path, int) else _full(path)}")
        elif event == "import":
            name, library = arguments[:2]
            if not _CLOSED.isdisjoint(name.split(".")):
                refuse(f"importing {name}")
            if library is not None and not _within(_full(library), modules):
                refuse(f"loading {library}")
        elif event.startswith(_NEVER):
            refuse(event)

    for name in _CLOSED:
        # A module that was imported before would be handed out again without an event.
        sys.modules.pop(name, None)
    sys.addaudithook(hook)
    return dict(REFUSED)


def _both_spellings(names: Iterable[str]) -> tuple[str, ...]:
    """Each path as given and with its links followed: Python uses the first to import."""
    return tuple({spelling for name in names for spelling in (_full(name), str(Path(name).resolve()))})


def _full(path: str | bytes | os.PathLike[Any]) -> str:
    return os.path.abspath(os.fsdecode(path))  # noqa: PTH100  # Path would open and resolve: events in an event


def _within(full: str, roots: tuple[str, ...]) -> bool:
    return full in roots or full.startswith(tuple(root + os.sep for root in roots))
