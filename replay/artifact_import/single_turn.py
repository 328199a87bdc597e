"""GSM8K logs of the artifact: bridges (four servings of an item) and the reset control."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct, field

from replay.artifact_import.agent_traces import (
    IMPORTED,
    capabilities_of,
    exposure_of,
    request_of,
)
from replay.artifact_import.log_lines import decoded_file, decoded_lines, prefer_compressed, refused
from replay.artifact_import.responses import LocalIds, ParsedAnswer, Refusal, Response, parse_answer, require
from replay.artifact_import.settings import (
    GSM8K_MAX_TOKENS,
    Configuration,
    bridge_configuration,
    format_configuration,
    sampling,
)
from tracer.clean_text import clean
from tracer.episode import Arm, ArmEnd, CacheState, Carry, Episode, Priming, RunPlace, Way, WorkloadSpec
from tracer.errors import UsageError
from tracer.tracefile import TraceWriter

LOG = "raw_requests.jsonl"
_BRIDGE = {"cold": (False, 0), "cold2": (False, 1), "warm": (True, 0), "warm2": (True, 1)}
_RESET = {"cold_1": (False, 0), "warm_1": (True, 0), "cold_2": (False, 1), "warm_2": (True, 1)}
"""Serving → (cache on, repeat), in the order in which they were served."""


class ServingLine(Struct, frozen=True):
    """One line of either log."""

    item_idx: int
    backend: str
    latency_s: float
    response: Response
    serving: str | None = field(default=None, name="pass")
    phase: str | None = None
    cache_setting: str | None = None
    mode: str | None = None
    cached_tokens: int | None = None
    prompt_sha256: str | None = None


class ItemSummary(Struct, frozen=True):
    """One entry of a bridge's ``summary.json``."""

    item_idx: int
    gold: str
    texts_identical: bool | None = None


@dataclass(frozen=True, slots=True)
class SingleTurnFolder:
    """One bridge or reset session."""

    experiment: str
    configuration: Configuration
    log: Path
    summary: Path | None
    bridge: bool
    prompt_cache: bool
    alternatives: int


def single_turn_folders(root: Path) -> Iterator[SingleTurnFolder]:
    """Every bridge and reset session under ``root``."""
    for log in sorted({p.with_name(LOG) for p in root.rglob(f"{LOG}*")}):
        found = prefer_compressed(log)
        if found is None or log.parent.name in ("arm_on", "arm_off"):
            continue
        names = log.parent.resolve().parts
        folder = _bridge(names, found) or _reset(names, found)
        if folder is not None:
            yield folder


def _bridge(names: tuple[str, ...], log: Path) -> SingleTurnFolder | None:
    if len(names) < 2 or names[-1] != "cache_on":
        return None
    configuration = bridge_configuration(names[-2])
    if configuration is None:
        return None
    summary = log.with_name("summary.json")
    return SingleTurnFolder(
        experiment=names[-2],
        configuration=configuration,
        log=log,
        summary=summary if summary.is_file() else None,
        bridge=True,
        prompt_cache=True,
        alternatives=1,
    )


def _reset(names: tuple[str, ...], log: Path) -> SingleTurnFolder | None:
    if names[-1] == "reset-lcpp":
        configuration, alternatives = format_configuration("q4km"), 1
    elif len(names) > 1 and names[-2] == "B4" and "_session" in names[-1]:
        configuration, alternatives = format_configuration(names[-1].split("_")[0]), 5
    else:
        return None
    if configuration is None:
        return None
    return SingleTurnFolder(
        experiment=names[-1],
        configuration=configuration,
        log=log,
        summary=None,
        bridge=False,
        prompt_cache=False,
        alternatives=alternatives,
    )


def write_single_turn(folder: SingleTurnFolder, output: Path, *, anyway: bool) -> list[Path]:
    """One trace an item with its four servings; items without all four are refused or left out."""
    servings = _BRIDGE if folder.bridge else _RESET
    items, local = _read(folder, servings)
    golds = _golds(folder, items)
    written = []
    for position, (item, lines) in enumerate(items.items()):
        missing = [name for name in servings if name not in lines]
        if missing and not anyway:
            raise UsageError(f"{folder.log}: item {item} lacks {missing[0]}; --anyway leaves such items out.")
        if missing:
            continue
        path = output / folder.experiment / f"gsm8k_{item:04d}.msgpack"
        _write_item(path, folder, item, position, lines, golds.get(item), local[item])
        written.append(path)
    return written


def _read(
    folder: SingleTurnFolder, servings: Mapping[str, tuple[bool, int]]
) -> tuple[dict[int, dict[str, ServingLine]], dict[int, LocalIds]]:
    """Items in the order served. A restarted bridge leaves older lines: the last of each serving counts."""
    items: dict[int, dict[str, ServingLine]] = {}
    local: dict[int, LocalIds] = {}
    for number, line in decoded_lines(folder.log, ServingLine):
        name = line.serving if folder.bridge else line.phase
        try:
            require(name in servings, f"serving {clean(str(name))} is not one of {', '.join(servings)}")
            require(line.backend == folder.configuration.backend, f"backend {clean(line.backend)}")
            if folder.bridge:
                require(line.cache_setting == "on", f"cache_setting {clean(str(line.cache_setting))}")
                require(line.prompt_sha256 is not None, "prompt_sha256 is missing")
            else:
                require(line.mode == "toggle", f"mode {clean(str(line.mode))} is not toggle")
            # Parsed here so that a mistake is reported with its line.
            answer = parse_answer(line.response, line.backend, local.setdefault(line.item_idx, LocalIds()))
            agrees = folder.bridge or line.cached_tokens == answer.cached_tokens
            require(
                agrees, f"the line says {line.cached_tokens} cached tokens, its answer {answer.cached_tokens}"
            )
        except Refusal as refusal:
            raise refused(folder.log, number, str(refusal)) from refusal
        items.setdefault(line.item_idx, {})[str(name)] = line
    if not items:
        raise UsageError(f"{folder.log} holds no request.")
    return items, local


def _golds(folder: SingleTurnFolder, items: Mapping[int, Mapping[str, ServingLine]]) -> dict[int, str]:
    """Gold answers from the summary, which must agree with the log about which texts are identical."""
    if folder.summary is None:
        return {}
    golds = {}
    for entry in decoded_file(folder.summary, list[ItemSummary]):
        golds[entry.item_idx] = entry.gold
        lines = items.get(entry.item_idx, {})
        if entry.texts_identical is None or "cold" not in lines or "warm" not in lines:
            continue
        texts = [lines[name].response.choices[0].text for name in ("cold", "warm")]
        if (texts[0] == texts[1]) is not entry.texts_identical:
            raise UsageError(
                f"{folder.summary}: item {entry.item_idx} and the log disagree on whether the texts are "
                "identical; the importer refuses to guess."
            )
    return golds


def _write_item(
    path: Path,
    folder: SingleTurnFolder,
    item: int,
    position: int,
    lines: Mapping[str, ServingLine],
    gold: str | None,
    local: LocalIds,
) -> None:
    params: dict[str, object] = {"item": item}
    if gold is not None:
        params["gold"] = gold
    first = next(iter(lines.values()))
    episode = Episode(
        episode_id=f"gsm8k_{item:04d}",
        workload=WorkloadSpec(name="gsm8k", params=params, version="harness"),
        created_at=float(first.response.created),
        writer="cachetrace import",
        notes={"experiment": folder.experiment},
    )
    servings = _BRIDGE if folder.bridge else _RESET
    with TraceWriter.create(path, episode) as writer:
        for name, (cache_on, repeat) in servings.items():
            answer = parse_answer(lines[name].response, lines[name].backend, local)
            _write_serving(writer, folder, position, lines[name], answer, cache_on, repeat)


def _write_serving(
    writer: TraceWriter,
    folder: SingleTurnFolder,
    position: int,
    line: ServingLine,
    answer: ParsedAnswer,
    cache_on: bool,
    repeat: int,
) -> None:
    warm = CacheState.WARM if folder.prompt_cache else CacheState.NO_PROMPT_CACHE
    arm = writer.begin_arm(
        Arm(
            index=0,
            state=warm if cache_on else CacheState.COLD,
            priming=Priming.SELF if cache_on else Priming.NONE,
            way=Way.FIXED,
            engine=folder.configuration.engine(
                prompt_cache=folder.prompt_cache, prefix_cache=cache_on, alternatives=folder.alternatives
            ),
            capabilities=capabilities_of(answer.identity, folder.alternatives),
            sampling=sampling(GSM8K_MAX_TOKENS),
            place=RunPlace(run_id=folder.experiment, position=position, carry=Carry.CARRIED_OVER),
            started_at=float(line.response.created),
            repeat=repeat,
            top_k=folder.alternatives,
            note=IMPORTED,
        )
    )
    # The reset log keeps no hash: there the item's number stands for the prompt.
    prompt = f"sha256:{line.prompt_sha256}" if line.prompt_sha256 else f"item:{line.item_idx}"
    exposure = exposure_of(answer, line.response.usage.prompt_tokens, cold=not cache_on)
    created = line.response.created
    request = request_of(0, answer, exposure, prompt, created, line.latency_s, GSM8K_MAX_TOKENS)
    writer.write_request(
        arm.index, request, path=answer.path, alternatives=answer.alternatives, pieces=answer.pieces
    )
    writer.end_arm(arm.index, ArmEnd(requests=1, completed=True))
