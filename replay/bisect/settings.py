"""The settings that a bisect changes, one at a time, and how each engine is told.

The default values are the ones with fewer moving parts: the same kernel shapes for one token as for
many, no second layer, no speculation. What a configuration has already is not tried again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from tracer.engines.choice import EngineChoice
from tracer.errors import UsageError

IN_PROCESS = frozenset({"llama", "fake"})
"""``fake`` takes them all and obeys the few that its script knows."""
SERVER = frozenset({"llama-server"})
_VALUE = re.compile(r"[A-Za-z0-9_.-]{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One thing that can be changed: by a field of ``EngineChoice``, or by arguments of a server."""

    name: str
    usual: tuple[str, ...]
    """Values that are tried when the user names none, most suspected first."""
    engines: frozenset[str] = IN_PROCESS | SERVER
    field: str | None = None
    option: str = ""
    """Our option for the field, or the server's for a value."""
    spelled: tuple[str, ...] = ()
    """Every name under which a user may have given it to the server; taken out before ours goes in."""
    switch: tuple[str, str] | None = None
    """Server arguments without a value: (on, off)."""
    default: str | None = None
    """The value when nothing is said; None = it depends."""
    least: int | None = None
    """Smallest value, where the value is a number."""

    def present(self, choice: EngineChoice) -> str | None:
        """The value that a configuration has now, None when the engine decides it."""
        given = _given(choice.server_args, self.spelled)
        if self.switch is not None:
            names = [argument for argument in choice.server_args if argument in self.spelled]
            return self.default if not names else ("off" if names[-1] == self.switch[1] else "on")
        if given is not None:
            return given
        if self.field is None:
            return self.default
        value = getattr(choice, self.field)
        return self.default if value is None else str(value)

    def applied(self, choice: EngineChoice, value: str) -> EngineChoice:
        """The choice with this value. The user's own arguments for it go, since the server takes the last."""
        kept = _without(choice.server_args, self.spelled, valueless=self.switch is not None)
        if self.field is not None:
            parsed = getattr(msgspec.convert({self.field: value}, EngineChoice, strict=False), self.field)
            return replace(choice, server_args=kept, **{self.field: parsed})
        return replace(choice, server_args=(*kept, *self._arguments(value)))

    def told(self, value: str) -> str:
        """The options of this program that set it."""
        if self.field is not None:
            return f"{self.option} {value}"
        return " ".join(f"--server-arg={argument}" for argument in self._arguments(value))

    def check(self, value: str) -> None:
        """Raise ``UsageError`` unless the value is possible."""
        if not _VALUE.fullmatch(value):
            raise UsageError(
                f"--candidate {self.name}: {value!r} is no value; write for instance {self._like}."
            )
        if self.switch is not None and value not in ("on", "off"):
            raise UsageError(f"--candidate {self.name} takes on, off; not {value!r}.")
        if self.least is not None and not (value.isdecimal() and int(value) >= self.least):
            raise UsageError(
                f"--candidate {self.name} takes whole numbers from {self.least} on; not {value!r}."
            )
        if self.field is not None:
            try:
                msgspec.convert({self.field: value}, EngineChoice, strict=False)
            except msgspec.ValidationError as error:
                raise UsageError(f"--candidate {self.name}: {value!r} is not possible: {error}.") from error

    @property
    def _like(self) -> str:
        return f"{self.name}={','.join(self.usual)}"

    def _arguments(self, value: str) -> tuple[str, ...]:
        if self.switch is not None:
            return (self.switch[value == "off"],)
        return (self.option, value)


_ALL = (
    Setting(
        name="ubatch",
        usual=("1", "32"),
        field="ubatch_tokens",
        option="--ubatch",
        spelled=("--ubatch-size", "-ub"),
        least=1,
    ),
    Setting(
        name="flash-attention",
        usual=("off", "on"),
        field="flash_attention",
        option="--flash-attention",
        spelled=("--flash-attn", "-fa"),
    ),
    Setting(
        name="kv-type",
        usual=("f32", "q8_0"),
        field="kv_type",
        option="--kv-type",
        spelled=("--cache-type-k", "-ctk", "--cache-type-v", "-ctv"),
    ),
    Setting(
        name="threads",
        usual=("1",),
        field="threads",
        option="--threads",
        spelled=("--threads", "-t", "--threads-batch", "-tb"),
        least=1,
    ),
    Setting(
        name="repacking",
        usual=("off",),
        engines=SERVER,
        spelled=("--repack", "--no-repack", "-nr"),
        switch=("--repack", "--no-repack"),
        default="on",
    ),
    Setting(
        name="batch",
        usual=("1024",),
        field="batch_tokens",
        option="--batch",
        spelled=("--batch-size", "-b"),
        least=1,
    ),
    Setting(
        name="prompt-cache",
        usual=("0",),
        field="prompt_cache_mib",
        option="--cache-ram",
        spelled=("--cache-ram", "-cram"),
        least=0,
    ),
    Setting(
        name="context-checkpoints",
        usual=("0",),
        engines=SERVER,
        option="--ctx-checkpoints",
        spelled=("--ctx-checkpoints", "-ctxcp", "--swa-checkpoints"),
        default="32",
        least=0,
    ),
    Setting(
        name="idle-slots",
        usual=("off",),
        engines=SERVER,
        spelled=("--cache-idle-slots", "--no-cache-idle-slots"),
        switch=("--cache-idle-slots", "--no-cache-idle-slots"),
        default="on",
    ),
    Setting(
        name="cache-reuse",
        usual=("0",),
        engines=SERVER,
        option="--cache-reuse",
        spelled=("--cache-reuse",),
        default="0",
        least=0,
    ),
    Setting(
        name="speculative",
        usual=("none",),
        engines=SERVER,
        option="--spec-type",
        spelled=("--spec-type",),
        default="none",
    ),
    Setting(
        name="slots",
        usual=("1",),
        engines=SERVER,
        option="--parallel",
        spelled=("--parallel", "-np"),
        default="1",
        least=1,
    ),
)
SETTINGS = {setting.name: setting for setting in _ALL}
"""In the order of suspicion: warm decodes one token where cold decodes whole batches, so whatever
decides the shape of a batch, or the kernels for it, comes first."""


def _given(arguments: Sequence[str], names: Sequence[str]) -> str | None:
    """The value of the last of these options among a server's arguments."""
    found = None
    for place, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in names:
            found = value if equals else (arguments[place + 1] if place + 1 < len(arguments) else None)
    return found


def _without(arguments: Sequence[str], names: Sequence[str], *, valueless: bool) -> tuple[str, ...]:
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument.partition("=")[0] in names:
            skip = not valueless and "=" not in argument
        else:
            kept.append(argument)
    return tuple(kept)
