"""The command line of a launched server: every setting that can move a number is given explicitly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracer.engines.choice import EngineChoice

DEFAULT_CONTEXT_TOKENS = 4096
DEFAULT_BATCH_TOKENS = 2048
DEFAULT_UBATCH_TOKENS = 512
DEFAULT_PROMPT_CACHE_MIB = 8192
"""The server's own defaults at the pinned version, given explicitly so that they are known."""

_CACHE_RAM = ("--cache-ram", "-cram")
_SLOTS = ("--parallel", "-np")
_KEYS = ("--api-key",)
_OURS = ("--host", "--port", "--model", "-m", "--slot-save-path")


def value_of(arguments: Sequence[str], names: Sequence[str]) -> str | None:
    """The value that the last of these options has; None when none is given."""
    found = None
    for place, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in names:
            found = value if equals else (arguments[place + 1] if place + 1 < len(arguments) else "")
    return found


def without(arguments: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The arguments without these options and their values."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
            continue
        if argument.partition("=")[0] in names:
            skip = "=" not in argument
            continue
        kept.append(argument)
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a launched server is started with, apart from its address and its layers."""

    binary: Path
    model: Path
    threads: int
    context_tokens: int
    batch_tokens: int
    ubatch_tokens: int
    gpu_layers: int
    flash_attention: str
    kv_type: str
    slots: int
    prompt_cache_mib: int
    """Size of the second layer in the states that have one; -1 = without limit, 0 = never."""
    extra: tuple[str, ...]
    api_key: str | None

    @classmethod
    def of(cls, choice: EngineChoice, binary: Path, model: Path, cores: int) -> ServerSettings:
        """Settings from the user's choice; what is not given has the server's default."""
        given = without(choice.server_args, _OURS)
        cache_ram = _number(value_of(given, _CACHE_RAM))
        if cache_ram is None:
            cache_ram = choice.prompt_cache_mib
        keys = value_of(given, _KEYS)
        return cls(
            binary=binary,
            model=model,
            threads=choice.threads or cores,
            context_tokens=choice.context_tokens or DEFAULT_CONTEXT_TOKENS,
            batch_tokens=choice.batch_tokens or DEFAULT_BATCH_TOKENS,
            ubatch_tokens=choice.ubatch_tokens or DEFAULT_UBATCH_TOKENS,
            gpu_layers=choice.gpu_layers,
            flash_attention=choice.flash_attention,
            kv_type=choice.kv_type,
            slots=_number(value_of(given, _SLOTS)) or 1,
            prompt_cache_mib=DEFAULT_PROMPT_CACHE_MIB if cache_ram is None else cache_ram,
            extra=without(given, (*_CACHE_RAM, *_SLOTS)),
            api_key=keys.split(",")[0] if keys else None,
        )

    def command(self, port: int, slot_folder: Path, *, prefix_cache: bool, prompt_cache: bool) -> list[str]:
        """The whole command line. Options of the user come last, so they win."""
        arguments: dict[str, object] = {
            "--model": self.model,
            "--host": "127.0.0.1",
            "--port": port,
            "--parallel": self.slots,
            "--ctx-size": self.context_tokens,
            "--threads": self.threads,
            "--batch-size": self.batch_tokens,
            "--ubatch-size": self.ubatch_tokens,
            "--gpu-layers": self.gpu_layers,
            "--flash-attn": self.flash_attention,
            "--cache-type-k": self.kv_type,
            "--cache-type-v": self.kv_type,
            "--cache-ram": self.prompt_cache_mib if prompt_cache else 0,
            "--slot-save-path": slot_folder,
        }
        line = [str(self.binary)]
        for name, value in arguments.items():
            line += [name, str(value)]
        line.append("--cache-prompt" if prefix_cache else "--no-cache-prompt")
        # The level at which the server says what it made of its settings; a few lines a request.
        return [*line, "--metrics", "--slots", "--verbosity", "4", *self.extra]

    def flags(self) -> dict[str, str]:
        """The user's own options by name, for the record. Keys are hidden."""
        found: dict[str, str] = {}
        for place, argument in enumerate(self.extra):
            if not _is_option(argument):
                continue
            name, equals, value = argument.partition("=")
            following = self.extra[place + 1] if place + 1 < len(self.extra) else None
            if not equals:
                value = "on" if following is None or _is_option(following) else following
            found[name] = "(hidden)" if "key" in name else value
        return found


def _is_option(argument: str) -> bool:
    """Whether this is an option's name; a negative number is a value."""
    return argument.startswith("-") and not argument.lstrip("-").replace(".", "", 1).isdigit()


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None
