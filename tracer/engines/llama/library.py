"""Loading llama-cpp-python. Imports neither numpy nor the library before it is asked to."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from tracer.clean_text import clean
from tracer.errors import EngineMissing

PINNED_VERSION = "0.3.36"
"""The low-level calls that are used here are checked against this version."""

_GPU_TYPES = (1, 2)
_DEVICE_CALLS: tuple[tuple[str, Any, list[Any]], ...] = (
    ("ggml_backend_dev_count", ctypes.c_size_t, []),
    ("ggml_backend_dev_get", ctypes.c_void_p, [ctypes.c_size_t]),
    ("ggml_backend_dev_type", ctypes.c_int, [ctypes.c_void_p]),
    ("ggml_backend_dev_description", ctypes.c_char_p, [ctypes.c_void_p]),
)
_ERROR_LEVEL = 4
_CONTINUED_LEVEL = 5


@cache
def load_library() -> ModuleType:
    """The module ``llama_cpp.llama_cpp``, its backend started and its log silent but for errors.

    Raises ``EngineMissing`` when it is not installed or its native library cannot be loaded.
    """
    try:
        import llama_cpp
        import llama_cpp.llama_cpp as low
    except ImportError:
        raise EngineMissing(
            "The engine 'llama' needs llama-cpp-python: install it with "
            f"`pip install llama-cpp-python=={PINNED_VERSION}` (or the extra `cachetrace[llama]`)."
        ) from None
    except (OSError, RuntimeError, AttributeError) as error:
        raise EngineMissing(
            "llama-cpp-python is installed, but its native library cannot be loaded "
            f"({str(error).splitlines()[0]}); reinstall it with "
            f"`pip install --force-reinstall llama-cpp-python=={PINNED_VERSION}`."
        ) from None
    if llama_cpp.__version__ != PINNED_VERSION:
        raise EngineMissing(
            f"llama-cpp-python {llama_cpp.__version__} is installed, but cachetrace needs {PINNED_VERSION}, "
            f"whose calls it knows: `pip install llama-cpp-python=={PINNED_VERSION}`."
        )
    low.llama_log_set(_log_callback(low), ctypes.c_void_p(0))
    low.llama_backend_init()
    loaded: ModuleType = low  # Any where the library is not installed
    return loaded


@contextlib.contextmanager
def heard_log() -> Iterator[list[str]]:
    """The lines that the library logs meanwhile, at every level."""
    lines: list[str] = []
    _HEARING.append(lines)
    try:
        yield lines
    finally:
        # by identity: two that hear at once may have heard the same
        _HEARING[:] = [others for others in _HEARING if others is not lines]


_HEARING: list[list[str]] = []


@cache
def _log_callback(low: Any) -> Any:
    """Prints errors only and hands on every line; cached, since native code keeps pointing to it."""
    printing = [False]

    @low.llama_log_callback  # type: ignore[untyped-decorator]  # the library has no types
    def log(level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
        for lines in _HEARING:
            lines.append(text.decode("utf-8", "replace"))
        if level != _CONTINUED_LEVEL:
            printing[0] = level >= _ERROR_LEVEL
        if printing[0]:
            # names in a model file are a stranger's text
            sys.stderr.write(clean(text.decode("utf-8", "replace").rstrip()) + "\n")

    return log


def library_version() -> str:
    """Version of llama-cpp-python."""
    import llama_cpp

    return str(llama_cpp.__version__)


def device_features() -> str:
    """What the native library was built with and found on this processor."""
    return str(load_library().llama_print_system_info().decode("utf-8", "replace")).strip()


def usable_cores() -> int:
    """Physical cores that this process may use: two threads of one core only slow each other."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = {_core_of(cpu) for cpu in allowed}
    return max(min(len(cores), _granted_cores()), 1)


def _granted_cores() -> int:
    """Whole cores that the control group of a container grants; many where there is no limit."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:  # noqa: PTH123
            quota, period = file.read().split()
        return int(quota) // int(period)
    except (OSError, ValueError):
        return 1 << 16


def _core_of(cpu: int) -> tuple[str, str]:
    """Package and core of a logical processor; itself where the system does not say."""
    base = f"/sys/devices/system/cpu/cpu{cpu}/topology/"
    try:
        with open(base + "physical_package_id") as package, open(base + "core_id") as core:  # noqa: PTH123
            return package.read().strip(), core.read().strip()
    except OSError:
        return "?", str(cpu)


def device_names() -> str:
    """Names of the GPUs that the library sees, comma-separated; ``gpu`` when it names none."""
    library = load_library()._lib  # its symbols include those of ggml, on which it depends
    for name, result, arguments in _DEVICE_CALLS:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    names: list[str] = []
    for index in range(library.ggml_backend_dev_count()):
        device = library.ggml_backend_dev_get(index)
        if library.ggml_backend_dev_type(device) in _GPU_TYPES:
            names.append(library.ggml_backend_dev_description(device).decode("utf-8", "replace"))
    return ", ".join(names) or "gpu"
