"""What a ``study.toml`` says. Every mistake is reported with its place in the file."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from replay.study.episode_range import RANGE_PATTERN, positions
from replay.study.study_rules import arms_mistakes, formats_mistakes, workload_mistakes
from replay.study.toml_place import TomlPlace, place_of
from tracer.engines.choice import EngineChoice
from tracer.episode import CacheState, Carry, Priming, Sampling
from tracer.errors import UsageError

PRESETS = ("smoke", "bfcl-cpu8", "paper", "isolation")
CANONICAL = "canonical"
DEFAULT_MODEL = "smollm2"
"""As a model's path: the default model, which is fetched once."""
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"

Name = Annotated[str, Meta(pattern=_NAME)]
Count = Annotated[int, Meta(ge=1)]
Seed = Annotated[int, Meta(ge=0)]
"""A number below 0 would give the order of the same number above 0."""


class WorkloadTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[workload]``: which task, and which of its episodes."""

    name: Literal["office", "chat", "bfcl", "gsm8k"]
    file: str | None = None
    """Relative to the study file."""
    subset: str | None = None
    turns: Count | None = None
    agent: Literal["model", "oracle"] | None = None
    history: Literal["ids", "messages"] | None = None
    episodes: Annotated[str, Meta(pattern=RANGE_PATTERN)] | None = None
    """Positions in the workload's order, from 0: ``0-79`` or ``0-3,7``; without it, all."""
    episodes_per_cell: Count | None = None


class ModelTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[[model]]``: a weight file, and the formats to make of it with the ladder."""

    path: str
    """A file, relative to the study file; ``smollm2`` is the default model. A served model's name
    goes into the engine's ``served_model`` instead."""
    name: Name | None = None
    formats: tuple[Annotated[str, Meta(pattern=r"^[A-Z0-9_]+$")], ...] = ()
    """Made from the file; empty = the file as it is."""


class EngineTable(EngineChoice, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[[engine]]``: the engine options of the command line, by the same names."""

    name: Name | None = None

    def choice(self, model: str | None) -> EngineChoice:
        """The plain choice with this model."""
        fields = {name: getattr(self, name) for name in EngineChoice.__struct_fields__}
        return EngineChoice(**{**fields, "model": model if model is not None else self.model})


class ArmsTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[[arms]]``: the arms of every episode."""

    name: Name | None = None
    states: Annotated[tuple[CacheState, ...], Meta(min_length=1)]
    priming: tuple[Priming, ...] = ()
    way: Literal["fixed", "closed-loop", "forced"] = "fixed"
    repeats: Count | None = None
    """Fresh starts of every arm; 2 when neither repeats nor passes are given."""
    passes: Count | None = None
    """Runs without emptying the caches in between, in place of repeats."""
    carry: Carry = Carry.EMPTIED
    orders: Annotated[tuple[Literal["canonical"] | Seed, ...], Meta(min_length=1)] = ("canonical",)
    """``canonical`` or a seed of a random order of the episodes."""

    @property
    def recorded_state(self) -> CacheState:
        """Cold where there is a cold arm: the recording is then its first serving."""
        wanted = CacheState.COLD if CacheState.COLD in self.states else self.states[0]
        return CacheState.WARM if wanted is CacheState.SNAPSHOT else wanted


class SamplingTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[sampling]``: the same for every request."""

    max_new_tokens: Count = 48
    seed: int = 42
    temperature: Annotated[float, Meta(ge=0.0)] = 0.0
    top_k: Annotated[int, Meta(ge=0, le=255)] = 20
    """Alternatives kept at each position."""

    @property
    def sampling(self) -> Sampling:
        return Sampling(temperature=self.temperature, seed=self.seed, max_new_tokens=self.max_new_tokens)


_AS_IN_TOML = {"models": "model", "engines": "engine"}


class Study(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=_AS_IN_TOML):
    """A whole file."""

    name: Name
    description: str = ""
    workload: WorkloadTable
    models: tuple[ModelTable, ...] = ()
    engines: Annotated[tuple[EngineTable, ...], Meta(min_length=1)]
    arms: Annotated[tuple[ArmsTable, ...], Meta(min_length=1)]
    sampling: SamplingTable = SamplingTable()
    folder: str = "."
    """Where relative paths start; set when the file is read."""


def load_study(path_or_preset: str, models: tuple[str, ...] = (), episodes: str | None = None) -> Study:
    """Read a file, or a preset that ships with cachetrace.

    ``models`` and ``episodes`` take the place of the file's own. Raises ``UsageError`` that names file,
    line and key of the first mistake.
    """
    path = Path(path_or_preset)
    shown = str(path)
    if not path.is_file() and path_or_preset in PRESETS:
        text = (files("replay.study") / "presets" / f"{path_or_preset}.toml").read_text(encoding="utf-8")
        folder, shown = Path(str(files("replay.study") / "presets")), f"preset {path_or_preset}"
    else:
        text, folder = _read(path, path_or_preset), path.parent
    study = parse_study(text, shown)
    if models:
        given = tuple(_given(model, study.models) for model in models)
        study = msgspec.structs.replace(study, models=given)
    if episodes is not None:
        if re.fullmatch(RANGE_PATTERN, episodes) is None:
            raise UsageError("--episodes takes positions from 0, such as 0-79 or 0-3,7.")
        for sentence in _range_mistakes(episodes):
            raise UsageError(f"--episodes: {sentence}.")
        workload = msgspec.structs.replace(study.workload, episodes=episodes)
        study = msgspec.structs.replace(study, workload=workload)
    return msgspec.structs.replace(study, folder=str(folder.resolve()))


def parse_study(text: str, shown: str = "study.toml") -> Study:
    """Validate the text of a study file; ``shown`` is what an error calls it."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{shown} is not valid TOML: {error}.") from error
    raw.pop("folder", None)
    try:
        study = msgspec.convert(raw, Study)
    except msgspec.ValidationError as error:
        raise UsageError(_located(str(error), text, shown)) from error
    for place, sentence in _contradictions(study):
        raise UsageError(f"{shown}, {place_of(text, place)}: {sentence}.")
    return study


def _contradictions(study: Study) -> list[tuple[TomlPlace, str]]:
    """What each key allows and all together do not."""
    found: list[tuple[TomlPlace, str]] = []
    workload = study.workload
    if workload.episodes_per_cell and not workload.episodes:
        found.append((("workload", "episodes_per_cell"), "needs episodes too, to know how many there are"))
    if workload.name == "chat" and workload.file is None:
        found.append((("workload",), "the workload chat needs file, a path to its conversations"))
    found += [(("workload", "episodes"), sentence) for sentence in _range_mistakes(workload.episodes)]
    found += [(_inside(("workload",), key), sentence) for key, sentence in workload_mistakes(workload)]
    for number, model in enumerate(study.models):
        for key, sentence in formats_mistakes(model.formats):
            found.append((_inside(("model", number), key), sentence))
    for number, engine in enumerate(study.engines):
        if engine.model is not None and study.models:
            place = ("engine", number, "model")
            found.append((place, "the models of [[model]] take its place; leave one of them out"))
        if engine.url is not None and sum(len(model.formats) or 1 for model in study.models) > 1:
            place = ("engine", number, "url")
            found.append((place, "a running server serves one model; keep one of [[model]], in one format"))
    for number, arms in enumerate(study.arms):
        at: TomlPlace = ("arms", number)
        if arms.repeats and arms.passes:
            found.append(((*at, "passes"), "passes take the place of repeats; keep one of them"))
        if arms.carry is Carry.EMPTIED and tuple(arms.orders) != (CANONICAL,):
            found.append(((*at, "orders"), "an order acts only with carry = carried-over or sentinel"))
        if arms.carry is not Carry.EMPTIED and workload.episodes_per_cell:
            found.append(((*at, "carry"), "caches carried over need all episodes in one cell"))
        if CacheState.AS_SERVED in arms.states:
            found.append(((*at, "states"), "as-served is for recordings of engines that are not controlled"))
        if len(set(arms.states)) != len(arms.states):
            found.append(((*at, "states"), "a state stands there twice"))
        if len(set(arms.orders)) != len(arms.orders):
            found.append(((*at, "orders"), "an order stands there twice"))
        found += [(_inside(at, key), sentence) for key, sentence in arms_mistakes(arms)]
    for name, tables in (("arms", study.arms), ("engine", study.engines)):
        names = [table.name for table in tables]
        if len(tables) > 1 and (None in names or len(set(names)) != len(names)):
            found.append(
                ((name, len(tables) - 1, "name"), f"several [[{name}]] need a name each, all different")
            )
    return found


def _range_mistakes(episodes: str | None) -> list[str]:
    try:
        positions(episodes or "0")
    except ValueError as error:
        return [str(error)]
    return []


def _inside(table: TomlPlace, key: str | None) -> TomlPlace:
    return table if key is None else (*table, key)


def _given(model: str, own: tuple[ModelTable, ...]) -> ModelTable:
    """A model from the command line, with the formats that the file wants of its own."""
    formats = own[0].formats if own else ()
    path = model if model == DEFAULT_MODEL else str(Path(model).resolve())
    return ModelTable(path=path, formats=formats)


def _read(path: Path, given: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(
            f"{given} is no file and no preset; the presets are: {', '.join(PRESETS)}."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{given} cannot be read as a study file: {error}.") from error


_PLACE = re.compile(r" - at `\$(?P<path>[^`]*)`$")


def _located(message: str, text: str, shown: str) -> str:
    """Msgspec's sentence with its path turned into a line of the file."""
    match = _PLACE.search(message)
    sentence = message[: match.start()] if match else message
    place: list[Any] = []
    for key, number in re.findall(r"\.([\w-]+)|\[(\d+)\]", match["path"] if match else ""):
        place.append(key or int(number))
    unknown = re.search(r"unknown field `(?P<name>[^`]+)`", sentence)
    if unknown:
        place.append(unknown["name"])
    return f"{shown}, {place_of(text, tuple(place))}: {sentence}."
