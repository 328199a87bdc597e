"""What each key of a study file allows and its tables do not: mistakes that would show after hours, or never.

Every function yields ``(key, sentence)`` for the table that it was given; key None = the table as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tracer.episode import CacheState, Carry, Priming, default_priming
from tracer.errors import EngineMissing, UsageError
from tracer.workloads.registry import check_options

if TYPE_CHECKING:
    from replay.study.study_file import ArmsTable, WorkloadTable

Mistake = tuple[str | None, str]

_PRIMINGS = (Priming.OWN, Priming.LOCKSTEP, Priming.SELF, Priming.PROMPT_ONLY)
_OPTIONS = ("file", "subset", "turns", "agent", "history")
"""Keys of ``[workload]`` that go to the workload itself."""


def workload_mistakes(table: WorkloadTable) -> Iterator[Mistake]:
    """Options that this workload does not have or heed, and values that it refuses."""
    options = {key: getattr(table, key) for key in _OPTIONS}
    found = False
    for key, value in options.items():
        try:
            check_options(table.name, {key: value})
        except UsageError as error:
            found = True
            yield key, _without_full_stop(error)
    if found:
        return
    try:
        check_options(table.name, options)
    except UsageError as error:
        yield None, _without_full_stop(error)


def formats_mistakes(formats: Sequence[str]) -> Iterator[Mistake]:
    """Weight formats given twice, or not known to the quantizer where its library is installed."""
    if not formats:
        return
    if len(set(formats)) != len(formats):
        yield "formats", "a weight format stands there twice"
    from tracer.engines.llama.quantize import check_formats

    try:
        check_formats(formats)
    except UsageError as error:
        yield "formats", _without_full_stop(error)
    except EngineMissing:
        return


def arms_mistakes(arms: ArmsTable) -> Iterator[Mistake]:
    """Primings that would not be heeded, and snapshots that no arm gives a state."""
    unknown = [str(priming) for priming in arms.priming if priming not in _PRIMINGS]
    if unknown:
        yield "priming", f"{unknown[0]} fills no cache by serving; choose from {', '.join(_PRIMINGS)}"
    elif arms.priming and not any(default_priming(state) is Priming.OWN for state in arms.states):
        yield "priming", "it says how a warm cache is filled; add warm to the states, or leave it out"
    if CacheState.SNAPSHOT not in arms.states:
        return
    if arms.carry is not Carry.EMPTIED:
        yield (
            "states",
            "snapshot restores its states before each request, so nothing is carried over; give it [[arms]] "
            "of its own, without carry",
        )
    elif (lacking := _lacking_reference(arms)) is not None:
        yield "states", f"snapshot restores what a warm arm met before it; {lacking}"


def _lacking_reference(arms: ArmsTable) -> str | None:
    """What to do so that a snapshot has its reference arm; None when it has one."""
    from replay.snapshot_reference import could_be_reference

    recorded = arms.recorded_state
    if could_be_reference(recorded, default_priming(recorded)):
        return None
    if CacheState.WARM not in arms.states:
        return "put warm before it"
    if arms.way != "fixed":
        return f'an arm with way = "{arms.way}" cannot be that one: leave cold out, or use way = "fixed"'
    if arms.states.index(CacheState.WARM) > arms.states.index(CacheState.SNAPSHOT):
        return "put warm before it"
    primings = arms.priming or (default_priming(CacheState.WARM),)
    if not any(could_be_reference(CacheState.WARM, priming) for priming in primings):
        return "add own or lockstep to the priming, or leave the priming out"
    return None


def _without_full_stop(error: UsageError) -> str:
    return str(error).removesuffix(".")
