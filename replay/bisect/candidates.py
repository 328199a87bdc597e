"""The configurations that a bisect tries: single changes of the default, then pairs of changes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.bisect.settings import IN_PROCESS, SERVER, SETTINGS
from tracer.engines.choice import EngineChoice
from tracer.errors import UsageError


class Change(Struct, frozen=True, kw_only=True):
    """One setting with the value that a candidate gives it."""

    setting: str
    value: str

    @property
    def label(self) -> str:
        """For instance ``ubatch=1``."""
        return f"{self.setting}={self.value}"


class Configuration(Struct, frozen=True, kw_only=True):
    """The default configuration with these changes; none = the default itself."""

    changes: tuple[Change, ...] = ()

    @property
    def label(self) -> str:
        """For instance ``flash-attention=off + ubatch=1``."""
        return " + ".join(change.label for change in self.changes) or "default"

    @property
    def file_name(self) -> str:
        return "+".join(change.label for change in self.changes or ()) or "default"

    def applied(self, choice: EngineChoice) -> EngineChoice:
        """The user's choice of engine with these changes."""
        for change in self.changes:
            choice = SETTINGS[change.setting].applied(choice, change.value)
        return choice


class NotTried(Struct, frozen=True, kw_only=True):
    """A candidate that was left out, and why."""

    change: Change
    reason: str


def candidates(
    choice: EngineChoice, given: Sequence[str] = ()
) -> tuple[tuple[Configuration, ...], tuple[NotTried, ...]]:
    """(single changes to try, in order; what is left out and why).

    ``given``: ``NAME=VALUE,VALUE`` of the user; none = everything that this engine lets us set.
    Raises ``UsageError`` for an engine whose settings are not ours to change, an unknown name or value.
    """
    refuse_fixed_engine(choice)
    changes = _given_changes(choice, given) if given else _usual_changes(choice)
    tried, left_out = [], []
    for change in dict.fromkeys(changes):
        if SETTINGS[change.setting].present(choice) == change.value:
            left_out.append(NotTried(change=change, reason="the default configuration has it already"))
        else:
            tried.append(Configuration(changes=(change,)))
    if not tried:
        raise UsageError("no candidate differs from the default configuration; name others with --candidate.")
    return tuple(tried), tuple(left_out)


def pairs(singles: Sequence[Configuration]) -> tuple[Configuration, ...]:
    """Every two single changes of different settings, in the order given: the first ones soonest."""
    found = []
    for later, second in enumerate(singles):
        for first in singles[:later]:
            one, two = first.changes[0], second.changes[0]
            if one.setting != two.setting:
                found.append(Configuration(changes=(one, two)))
    return tuple(found)


def refuse_fixed_engine(choice: EngineChoice) -> None:
    """Raise ``UsageError`` when settings cannot be changed from here."""
    if choice.url is not None:
        raise UsageError(
            "bisect changes the engine's settings, and those of a running server are not ours to change; "
            "give --server-bin instead of --url, or --engine llama."
        )
    if choice.engine not in IN_PROCESS | SERVER:
        raise UsageError(
            f"bisect cannot change the settings of the engine {choice.engine}; "
            "use --engine llama, or --engine llama-server with --server-bin."
        )


def _usual_changes(choice: EngineChoice) -> list[Change]:
    return [
        Change(setting=setting.name, value=value)
        for setting in SETTINGS.values()
        if choice.engine in setting.engines
        for value in setting.usual
    ]


def _given_changes(choice: EngineChoice, given: Sequence[str]) -> list[Change]:
    changes = []
    for text in given:
        name, _, values = text.partition("=")
        setting = SETTINGS.get(name.strip())
        if setting is None:
            raise UsageError(f"--candidate knows no setting {name!r}; it knows: {', '.join(SETTINGS)}.")
        if choice.engine not in setting.engines:
            raise UsageError(f"the engine {choice.engine} has no setting {setting.name} that can be changed.")
        for value in (values or ",".join(setting.usual)).split(","):
            setting.check(value.strip())
            changes.append(Change(setting=setting.name, value=value.strip()))
    return changes
