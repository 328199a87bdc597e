"""The user's own settings: environment variables ``CACHETRACE_…`` and one TOML file.

Order: command line, environment, file, default. Both name the fields of ``EngineChoice``, for
instance ``CACHETRACE_GPU_LAYERS=99`` or the line ``gpu_layers = 99``. Engines, models and URLs come
from here or from the command line only, never from a trace.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tracer.engines.choice import EngineChoice
from tracer.errors import UsageError

PREFIX = "CACHETRACE_"
FILE_VARIABLE = "CACHETRACE_SETTINGS"
_OF_A_SERVER = ("url", "server_bin", "server_args", "served_model")


def settings_path() -> Path:
    """The settings file: ``CACHETRACE_SETTINGS``, else where this system keeps such files."""
    chosen = os.environ.get(FILE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_config_path

    return user_config_path("cachetrace") / "settings.toml"


def engine_choice(given: Mapping[str, Any]) -> EngineChoice:
    """The engine that the user wants: ``given`` (command line; None = not given) over the settings.

    Raises ``UsageError`` that names the variable, or the file and its key, at fault.
    """
    chosen = _from_file(settings_path())
    chosen.update(_from_environment())
    if given.get("engine") not in (None, chosen.get("engine")):
        # A server in the settings belongs to the engine that they name, not to another one.
        chosen = {name: value for name, value in chosen.items() if name not in _OF_A_SERVER}
    chosen.update({name: value for name, value in given.items() if value is not None})
    try:
        return msgspec.convert(chosen, EngineChoice)
    except msgspec.ValidationError as error:
        raise UsageError(f"the engine cannot be set up like that: {error}.") from error


def _from_environment() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in EngineChoice.__struct_fields__:
        variable = PREFIX + name.upper()
        text = os.environ.get(variable)
        if text:
            value: Any = shlex.split(text) if name == "server_args" else text
            found[name] = _checked(name, value, f"the environment variable {variable}", strict=False)
    return found


def _from_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            values = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"the settings file {path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the settings file {path} is not valid TOML: {error}.") from error
    unknown = sorted(set(values) - set(EngineChoice.__struct_fields__))
    if unknown:
        known = ", ".join(EngineChoice.__struct_fields__)
        raise UsageError(
            f"the settings file {path} has an unknown key {unknown[0]!r}; the keys are: {known}."
        )
    return {
        name: _checked(name, value, f"{name} in the settings file {path}", strict=True)
        for name, value in values.items()
    }


def _checked(name: str, value: Any, where: str, *, strict: bool) -> Any:
    """The value as its field's type; the error says where it was set."""
    try:
        choice = msgspec.convert({name: value}, EngineChoice, strict=strict)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where} is not usable: {error}.") from error
    return getattr(choice, name)
