"""Joins episodes into series: one pair of arms, under one configuration, over many episodes.

A series is what a rate is computed over. An episode counts in it when both arms may count, both
repeat themselves in a control that may count, and it is known whether they differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from replay.verdicts import Comparison, EvidenceClass, RequestVerdict, Verdict
from stats.report.configuration import Key, model_without_format, nominal_bits
from stats.report.positions import PositionSample
from stats.report.records import ArmRecord, EpisodeRecord
from tracer.episode import CacheState, Carry, Way
from tracer.workloads.gsm8k_answers import JudgedAnswer


class Control(StrEnum):
    """By what an arm is compared with itself."""

    REPEATS = "repeats"
    """Run again from a fresh start."""
    PASSES = "passes"
    """Run again without emptying the caches in between: run to run, as the paper means it."""
    NONE = "not repeated"


class SeriesKey(Struct, frozen=True, order=True):
    """What all episodes of a series have in common."""

    configuration: Key
    workload: str
    baseline: str
    arm: str
    way: Way
    carry: Carry
    control: Control
    baseline_state: CacheState
    arm_state: CacheState
    run: int = 0
    """0, or the number of the run when the same episode was served in several."""


class ControlResult(Struct, frozen=True, kw_only=True):
    """One arm against its own repeat or pass."""

    arms: tuple[ArmRecord, ArmRecord]
    comparison: Comparison
    differs: bool | None
    counts: bool
    why_not: str = ""


class EpisodePair(Struct, frozen=True, kw_only=True):
    """One episode's contribution to a series."""

    episode_id: str
    path: str
    position: int
    started_at: float
    comparison: Comparison
    differs: bool | None
    within_baseline: ControlResult | None
    within_arm: ControlResult | None
    evidence_class: EvidenceClass
    why_not: str
    """Why this episode does not count; empty when it does."""
    attribution_known: bool = True
    """False for imported arms, whose states could not be held against what was expected."""
    declared: bool = False
    """Only the class of its evidence keeps it from counting."""
    solved: tuple[bool | None, bool | None] = (None, None)
    ended: tuple[str | None, str | None] = (None, None)
    positions: PositionSample | None = None
    answers: tuple[JudgedAnswer | None, JudgedAnswer | None] = (None, None)

    @property
    def counts(self) -> bool:
        return not self.why_not

    @property
    def first_flip(self) -> RequestVerdict | None:
        return self.comparison.first_flip


class Series(Struct, frozen=True, kw_only=True):
    """Episodes in execution order."""

    key: SeriesKey
    pairs: tuple[EpisodePair, ...]

    @property
    def counted(self) -> tuple[EpisodePair, ...]:
        return tuple(pair for pair in self.pairs if pair.counts)


def episode_differs(comparison: Comparison) -> bool | None:
    """Whether the episode changed its tokens or prompts; None where that was not observed.

    Stricter than ``Comparison.differs``: a request whose prompts could not be held against each
    other says nothing, so without any visible difference the episode is unknown.
    """
    differs = comparison.differs
    blind = any(r.verdict is Verdict.UNOBSERVED and r.evidence is None for r in comparison.requests)
    return None if differs is False and blind else differs


def series_of(episodes: Sequence[EpisodeRecord]) -> tuple[Series, ...]:
    """Every series that the episodes hold, sorted by key, episodes in execution order."""
    gathered: dict[SeriesKey, list[EpisodePair]] = {}
    runs: Counter[tuple[SeriesKey, str]] = Counter()
    for episode in sorted(episodes, key=lambda e: (e.started_at, e.path)):
        for key, pair in _pairs_of(episode):
            # An episode counts once in a rate: served again, it belongs to the next run.
            run = runs[key, pair.episode_id]
            runs[key, pair.episode_id] += 1
            gathered.setdefault(replace(key, run=run) if run else key, []).append(pair)
    ordered = sorted(gathered.items(), key=lambda item: _sortable(item[0]))
    return tuple(
        Series(key=key, pairs=tuple(sorted(pairs, key=lambda p: (p.position, p.started_at, p.path))))
        for key, pairs in ordered
    )


def _sortable(key: SeriesKey) -> tuple[object, ...]:
    engine, version, model, weights, *rest = ("" if part is None else part for part in key.configuration)
    finest_first = -(nominal_bits(weights) or 0)
    bare = model_without_format(model, weights) or ""
    configuration = (engine, version, bare, finest_first, weights, *rest)
    return configuration, key.workload, key.baseline, key.arm, key.way, key.carry, key.control, key.run


def _pairs_of(episode: EpisodeRecord) -> Iterable[tuple[SeriesKey, EpisodePair]]:
    started_at = episode.started_at
    firsts = {c.arm: c.baseline for c in episode.analysis.controls}
    controls: dict[int, list[Comparison]] = {}
    for control in episode.analysis.controls:
        controls.setdefault(control.baseline, []).append(control)
    for comparison in (*episode.analysis.comparisons, *episode.extra_comparisons):
        baseline, arm = episode.arms[comparison.baseline], episode.arms[comparison.arm]
        if comparison.arm in firsts:
            continue  # a later repeat: its group's first arm speaks for the episode
        home = firsts.get(comparison.baseline, comparison.baseline)
        own = controls.get(home, []), controls.get(comparison.arm, [])
        kind = _common_control(episode, own)
        within_baseline, within_arm = (_control(episode, found, kind) for found in own)
        key = SeriesKey(
            configuration=baseline.configuration,
            workload=episode.episode.workload.name,
            baseline=baseline.group_label,
            arm=arm.group_label,
            way=arm.arm.way,
            carry=arm.arm.place.carry,
            control=kind,
            baseline_state=baseline.arm.state,
            arm_state=arm.arm.state,
        )
        yield key, _pair(episode, started_at, comparison, (baseline, arm), (within_baseline, within_arm))


def _pair(
    episode: EpisodeRecord,
    started_at: float,
    comparison: Comparison,
    arms: tuple[ArmRecord, ArmRecord],
    controls: tuple[ControlResult | None, ControlResult | None],
) -> EpisodePair:
    baseline, arm = arms
    differs = episode_differs(comparison)
    outcomes = [record.end.outcome if record.end else None for record in arms]
    classes = {baseline.assessment.evidence_class, arm.assessment.evidence_class}
    weakest = next(
        c for c in (EvidenceClass.DECLARED, EvidenceClass.METRICS, EvidenceClass.COUNTED) if c in classes
    )
    return EpisodePair(
        episode_id=episode.episode.episode_id,
        path=episode.path,
        position=arm.arm.place.position,
        started_at=started_at,
        comparison=comparison,
        differs=differs,
        within_baseline=controls[0],
        within_arm=controls[1],
        evidence_class=weakest,
        why_not=_why_not(comparison, baseline, arm, controls, differs),
        attribution_known=baseline.assessment.may_count and arm.assessment.may_count,
        declared=_only_declared(comparison, baseline, arm, controls, differs),
        solved=(outcomes[0].solved if outcomes[0] else None, outcomes[1].solved if outcomes[1] else None),
        ended=(outcomes[0].ended if outcomes[0] else None, outcomes[1].ended if outcomes[1] else None),
        positions=next(
            (s for s in episode.positions if (s.baseline, s.arm) == (comparison.baseline, comparison.arm)),
            None,
        ),
        answers=(baseline.answer, arm.answer),
    )


def _why_not(
    comparison: Comparison,
    baseline: ArmRecord,
    arm: ArmRecord,
    controls: tuple[ControlResult | None, ControlResult | None],
    differs: bool | None,
) -> str:
    """The first thing that keeps the pair from counting."""
    for record in (baseline, arm):
        if not record.may_count:
            return f"{record.arm.label} does not count ({record.why_not})"
    if comparison.refused:
        return f"the arms may not be compared ({comparison.mismatches[0]})"
    for record, control in zip((baseline, arm), controls, strict=True):
        if control is None:
            return f"{record.arm.label} was not repeated, so there is no within-arm control"
        if not control.counts:
            return f"the within-arm control of {record.arm.label} does not count ({control.why_not})"
    if differs is None:
        unknown = next((r for r in comparison.requests if r.reason), None)
        return f"whether it differs is not known ({unknown.reason if unknown else 'no request was compared'})"
    return ""


def _only_declared(
    comparison: Comparison,
    baseline: ArmRecord,
    arm: ArmRecord,
    controls: tuple[ControlResult | None, ControlResult | None],
    differs: bool | None,
) -> bool:
    """All would be well if settings were evidence: such rates are printed apart."""
    if comparison.refused or differs is None or any(c is None or c.differs is None for c in controls):
        return False
    arms = [baseline, arm, *(record for c in controls if c is not None for record in c.arms)]
    return any(r.declared for r in arms) and all(r.declared or r.may_count for r in arms)


def _common_control(episode: EpisodeRecord, own: tuple[list[Comparison], list[Comparison]]) -> Control:
    """Repeats when both arms have them among their own controls, else passes when both have those."""
    kinds = [{_kind(episode, control) for control in found} for found in own]
    for kind in (Control.REPEATS, Control.PASSES):
        if all(kind in found for found in kinds):
            return kind
    return next((k for k in (Control.REPEATS, Control.PASSES) if k in kinds[0] | kinds[1]), Control.NONE)


def _kind(episode: EpisodeRecord, control: Comparison) -> Control:
    return Control.PASSES if episode.arms[control.arm].arm.pass_index else Control.REPEATS


def _control(episode: EpisodeRecord, found: list[Comparison], kind: Control) -> ControlResult | None:
    """Of an arm's controls one of the wanted kind, when there is one."""
    if not found:
        return None
    control = next((c for c in found if _kind(episode, c) is kind), found[0])
    why_not = ""
    for index in (control.baseline, control.arm):
        record = episode.arms[index]
        if not record.may_count and not why_not:
            why_not = f"{record.arm.label}: {record.why_not}"
    if not why_not and control.refused:
        why_not = control.mismatches[0]
    differs = episode_differs(control)
    if not why_not and differs is None:
        why_not = "whether it differs is not known"
    return ControlResult(
        arms=(episode.arms[control.baseline], episode.arms[control.arm]),
        comparison=control,
        differs=differs,
        counts=not why_not,
        why_not=why_not,
    )
