"""Get the one wheel that carries the benchmark, check its hash, keep it in the user's data folder.

Only this wheel is fetched, without its dependencies: its full install is 150 packages and 3 GB,
and the parts that run here need three small ones.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tracer.errors import UsageError
from tracer.workloads.fetched_file import check_hash, data_folder, keep

PACKAGE = "bfcl-eval"
VERSION = "2026.3.23"
WHEEL_SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
WHEEL_NAME = f"bfcl_eval-{VERSION}-py3-none-any.whl"
NEEDED_MODULES = ("mpmath", "filelock", "tenacity")
_WHAT = f"{PACKAGE} {VERSION} wheel"
_DOWNLOAD_LIMIT_S = 300


def kept_wheel() -> Path:
    """Where the wheel is kept (it may not be there yet)."""
    return data_folder("bfcl") / WHEEL_NAME


def set_up(wheel: Path | None = None) -> Path:
    """Keep the wheel, from ``wheel`` or else by ``pip download``; returns its place."""
    missing = [name for name in NEEDED_MODULES if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"the benchmark needs {', '.join(missing)}: install cachetrace with its extra, cachetrace[bfcl]."
        )
    if wheel is not None:
        return keep(check_hash(wheel, WHEEL_SHA256, _WHAT).read_bytes(), kept_wheel(), WHEEL_SHA256, _WHAT)
    with tempfile.TemporaryDirectory(prefix="cachetrace-bfcl-") as folder:
        return keep(_download(Path(folder)).read_bytes(), kept_wheel(), WHEEL_SHA256, _WHAT)


def require_wheel() -> Path:
    """The kept wheel, its hash checked; says what to do when it is not there."""
    kept = kept_wheel()
    if not kept.is_file():
        raise UsageError("the benchmark is not set up; run `cachetrace bfcl setup` once.")
    return check_hash(kept, WHEEL_SHA256, _WHAT)


def _download(folder: Path) -> Path:
    command = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
    ]
    command += ["--disable-pip-version-check", "--dest", str(folder), f"{PACKAGE}=={VERSION}"]
    by_hand = f"download {WHEEL_NAME} yourself and give it with --wheel PATH"
    try:
        done = subprocess.run(  # noqa: S603  # our own interpreter and fixed words
            command, capture_output=True, text=True, timeout=_DOWNLOAD_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"pip took more than {_DOWNLOAD_LIMIT_S} s; {by_hand}.") from None
    found = folder / WHEEL_NAME
    if done.returncode != 0 or not found.is_file():
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UsageError(f"pip could not download {PACKAGE} {VERSION} ({last}); {by_hand}.")
    return found
