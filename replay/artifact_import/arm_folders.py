"""Finds the arms of the artifact: which folders belong to one experiment, and what each of them was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from replay.artifact_import.log_lines import prefer_compressed
from replay.artifact_import.settings import Configuration, format_configuration, grid_configuration
from tracer.episode import CacheState, Carry

LOG = "raw_requests.jsonl"


class ArmFolder(Struct, frozen=True, kw_only=True):
    """One folder with a raw log, and the arm that it was."""

    experiment: str
    configuration: Configuration
    folder: Path
    log: Path
    cache_on: bool
    state: CacheState
    pass_index: int
    repeat: int
    carry: Carry
    alternatives: int
    scores: str
    """``main`` or ``repeat``: which pass the folder's own ``scores.json`` is of."""


class _Role(Struct, frozen=True, kw_only=True):
    """What a folder's path says."""

    experiment: str
    configuration: Configuration | None
    prompt_cache: bool
    fresh_server: bool
    alternatives: int = 1
    carry: Carry = Carry.CARRIED_OVER


_REVISION = re.compile(r"(?P<format>f16|q80|q4km|q3km|q4deq)_(?P<rest>[A-Za-z0-9_]+)")


def arm_folders(root: Path) -> Iterator[ArmFolder]:
    """Every known arm folder under ``root``, in the order of their paths; others are passed over."""
    for folder in sorted(p for p in root.rglob("arm_*") if p.is_dir()):
        log = prefer_compressed(folder / LOG)
        if log is None or folder.name not in ("arm_on", "arm_off") or "_failed" in folder.parts:
            continue
        # The whole path, so that any folder of the artifact may be given.
        parts = folder.resolve().parts[:-1]
        passed = parts[-1] if parts and parts[-1] in ("main", "repeat") else "main"
        above = parts[:-1] if parts and parts[-1] in ("main", "repeat") else parts
        role = _role(above)
        if role is None or role.configuration is None:
            continue
        on = folder.name == "arm_on"
        second = passed == "repeat"
        yield ArmFolder(
            experiment=role.experiment,
            configuration=role.configuration,
            folder=folder,
            log=log,
            cache_on=on,
            state=_state(on, role),
            pass_index=int(second and not role.fresh_server),
            repeat=int(second and role.fresh_server),
            carry=role.carry,
            alternatives=role.alternatives,
            scores=passed,
        )


def _state(on: bool, role: _Role) -> CacheState:
    if not on:
        return CacheState.COLD
    llama = role.configuration is not None and role.configuration.backend == "llamacpp"
    return CacheState.NO_PROMPT_CACHE if llama and not role.prompt_cache else CacheState.WARM


def _role(names: tuple[str, ...]) -> _Role | None:
    """The experiment that a path belongs to; ``names`` is the path without pass and arm."""
    last = names[-1]
    grid = grid_configuration(last)
    if grid is not None:
        return _Role(experiment=last, configuration=grid, prompt_cache=True, fresh_server=False)
    if re.fullmatch(r"cacheram-(zero|default)", last):
        return _Role(
            experiment="cacheram",
            configuration=format_configuration("q4km"),
            prompt_cache=last.endswith("default"),
            fresh_server=False,
        )
    if len(names) > 1 and names[-2] == "quantgrad":
        return _Role(
            experiment=f"quantgrad-{last}",
            configuration=format_configuration(last),
            prompt_cache=False,
            fresh_server=False,
        )
    ordered = re.fullmatch(r"(lcpp|vllm)-order([AB])", last)
    if ordered:
        backend = "llamacpp" if ordered[1] == "lcpp" else "vllm"
        # vLLM's order A used a fresh server for every pass: repeats and not passes.
        fresh = backend == "vllm" and ordered[2] == "A"
        return _Role(
            experiment=last,
            configuration=format_configuration("q4km", backend),
            prompt_cache=False,
            fresh_server=fresh,
        )
    return _revision_role(names)


def _revision_role(names: tuple[str, ...]) -> _Role | None:
    """October: blocks B0 to B7, a fresh server a pass."""
    if len(names) < 2 or not re.fullmatch(r"B[0-9]R?", names[-2]):
        return None
    block, match = names[-2], _REVISION.fullmatch(names[-1])
    if match is None:
        return None
    return _Role(
        experiment=f"{block}-{names[-1]}",
        configuration=format_configuration(match["format"]),
        prompt_cache=block == "B6",
        fresh_server=block != "B6",
        alternatives=1 if block == "B6" or match["rest"].endswith("lp1") else 5,
        carry=Carry.SENTINEL if block == "B3" else Carry.CARRIED_OVER,
    )
