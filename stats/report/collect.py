"""Open every trace, assess and compare its arms, and keep what the tables need."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from xxhash import xxh3_128

from replay.divergence.analyse import DEFAULT_NEAR_TIE, analyse, compare_arms
from replay.divergence.pairing import arm_groups
from replay.divergence.request_verdict import Detail
from replay.verdicts import Comparison, EpisodeAnalysis
from stats.report.answers import judged_answer
from stats.report.configuration import configuration_key
from stats.report.held_trace import HeldTrace
from stats.report.items import experiment_items
from stats.report.positions import PositionSample, sample_positions
from stats.report.records import ArmRecord, Collection, EpisodeRecord, RequestFacts, Unreadable
from tracer.episode import Arm, CacheState, Identity, Request
from tracer.errors import TraceFormatError
from tracer.tracefile import Loss, TraceReader

FILES_WORTH_A_PROCESS = 100
"""Below this many traces starting processes costs more than it saves."""
MOST_WORKERS = 8


class CollectOptions(Struct, frozen=True, kw_only=True):
    """How traces are compared."""

    baseline: str | None = None
    anyway: bool = False
    near_tie: float = DEFAULT_NEAR_TIE
    detail: Detail = Detail.ALTERNATIVES
    """``path`` leaves the top-k lists unread but for flips, which is what a report over many files does."""
    mechanism: bool = False
    """Also read margins, drift and gap changes of every compared position."""
    state_pairs: tuple[tuple[CacheState, CacheState], ...] = ()
    """Pairs of states to compare beside those with the baseline."""


def collect(files: Sequence[Path], options: CollectOptions, workers: int | None = None) -> Collection:
    """Read and compare every file. A file that is no trace is listed, not fatal, unless it is alone.

    Many files are shared out to one process a core; the result does not depend on how many there are.
    """
    if workers is None:
        workers = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, MOST_WORKERS)
    with _collector_paused():
        if len(files) < FILES_WORTH_A_PROCESS or workers < 2:
            return _collect_here(files, options)
        from stats.report.shared_out import collect_shared_out

        return collect_shared_out(files, options, workers)


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Records hold no cycles, and the collector would walk the growing heap of them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _collect_here(files: Sequence[Path], options: CollectOptions) -> Collection:
    episodes: list[EpisodeRecord] = []
    unreadable: list[Unreadable] = []
    for file in files:
        try:
            episodes.append(read_episode(file, options))
        except TraceFormatError as error:
            if len(files) == 1:
                raise
            unreadable.append(Unreadable(path=str(file), reason=str(error)))
    return Collection(episodes=tuple(episodes), unreadable=tuple(unreadable))


def read_episode(file: Path, options: CollectOptions) -> EpisodeRecord:
    """One trace file with the verdicts of all its arms."""
    with TraceReader.open(file) as reader:
        trace = HeldTrace(reader)
        analysis = _analysed(trace, options, options.baseline)
        if options.baseline is None and not analysis.comparisons and len(trace.arms) > 1:
            # Without a verified cold arm or a recording nothing is compared by itself. What was only
            # declared to be cold is still worth looking at; it is labelled and never counts.
            cold = next((arm.index for arm in trace.arms if arm.state is CacheState.COLD), None)
            if cold is not None:
                analysis = _analysed(trace, options, str(cold))
        extra = tuple(_extra_comparisons(trace, analysis, options))
        samples = tuple(_samples(trace, analysis)) if options.mechanism else ()
        facts = [_facts(trace, arm.index) for arm in trace.arms]
        # Losses of columns show only once the columns were read, so they are gathered last.
        losses = reader.losses
        damaged = {loss.arm: loss.sentence for loss in losses if loss.arm is not None and _hides_tokens(loss)}
        return EpisodeRecord(
            path=str(file),
            episode=trace.episode,
            arms=tuple(
                ArmRecord(
                    arm=arm,
                    configuration=configuration_key(arm),
                    end=trace.end(arm.index),
                    assessment=assessment,
                    facts=facts[arm.index],
                    answer=judged_answer(trace.episode, trace.requests(arm.index)),
                    damage=tuple(
                        loss.sentence for loss in losses if loss.arm == arm.index and _hides_tokens(loss)
                    ),
                )
                for arm, assessment in zip(trace.arms, analysis.assessments, strict=True)
            ),
            analysis=analysis,
            extra_comparisons=extra,
            losses=tuple(loss.sentence for loss in losses),
            positions=samples,
            experiment=experiment_items(trace, analysis.assessments, damaged),
        )


def _analysed(trace: HeldTrace, options: CollectOptions, baseline: str | None) -> EpisodeAnalysis:
    return analyse(
        trace,
        baseline=baseline,
        anyway=options.anyway,
        near_tie=options.near_tie,
        detail=options.detail,
    )


def _samples(trace: HeldTrace, analysis: EpisodeAnalysis) -> Iterable[PositionSample]:
    """Of each cold arm against each other state, once: repeats would count every token again."""
    later = {control.arm for control in analysis.controls}
    for comparison in analysis.comparisons:
        cold = trace.arms[comparison.baseline].state is CacheState.COLD
        if cold and comparison.arm not in later and not comparison.refused:
            yield sample_positions(trace, comparison)


def _hides_tokens(loss: Loss) -> bool:
    """A torn end leaves an incomplete arm, which is told apart; lost alternatives hide no token."""
    return not loss.at_end and loss.column in (None, "path")


def _extra_comparisons(
    trace: HeldTrace, analysis: EpisodeAnalysis, options: CollectOptions
) -> Iterable[Comparison]:
    """Snapshot arms against the arm that they restore, and the pairs of states that were asked for.

    Pairs are pairs of GROUPS of repeats: what was compared already is not compared again by a repeat.
    """
    home = {arm: group.first for group in arm_groups(trace) for arm in group.arms}
    wanted = [
        (arm.reference_arm, arm.index)
        for arm in trace.arms
        if arm.reference_arm is not None and 0 <= arm.reference_arm < len(trace.arms)
    ]
    for first, second in options.state_pairs:
        wanted.extend(_first_of_states(trace.arms, first, second))
    done = {frozenset((home[c.baseline], home[c.arm])) for c in analysis.comparisons}
    for a, b in wanted:
        pair = frozenset((home[a], home[b]))
        if len(pair) == 2 and pair not in done:
            done.add(pair)
            one, two = home[a], home[b]
            yield compare_arms(
                trace, one, two, anyway=options.anyway, near_tie=options.near_tie, detail=options.detail
            )


def _first_of_states(arms: Sequence[Arm], first: CacheState, second: CacheState) -> Iterable[tuple[int, int]]:
    """The first arm of each state that got its prompts in the same way."""
    for a in arms:
        if a.state is first and not a.repeat and not a.pass_index:
            for b in arms:
                if b.state is second and b.way is a.way and not b.repeat and not b.pass_index:
                    yield a.index, b.index


def _facts(trace: HeldTrace, arm: int) -> RequestFacts:
    requests = trace.requests(arm)
    prompts = [r.exposure.prompt_tokens for r in requests if r.exposure.prompt_tokens is not None]
    cached = [r.exposure.cached_tokens for r in requests if r.exposure.cached_tokens is not None]
    return RequestFacts(
        requests=len(requests),
        output_tokens=sum(r.output_tokens for r in requests),
        prompt_tokens=sum(prompts) if prompts else None,
        cached_tokens=sum(cached) if cached else None,
        identities=tuple(dict.fromkeys(r.identity for r in requests)),
        sources=tuple(dict.fromkeys(r.exposure.source for r in requests if r.error is None)),
        counted_requests=len(cached),
        hits=sum(c > 0 for c in cached),
        expectation_known=any(r.exposure.expected_tokens is not None for r in requests),
        answers_digest=_answers_digest(trace, arm, requests),
        prompt_not_stored=sum(r.prompt is None for r in requests),
        prefix_breaks=tuple((r.index, r.prefix_break) for r in requests if r.prefix_break is not None),
        grew_too_long=any(r.error is not None and r.error.too_long for r in requests[-1:]),
    )


def _answers_digest(trace: HeldTrace, arm: int, requests: Sequence[Request]) -> str:
    """Ids and lengths of all answers; texts where ids are local to one file."""
    digest = xxh3_128()
    for request in requests:
        if request.identity is Identity.TOKEN_ID:
            raw = trace.path(arm, request.index).token_ids.tobytes()
        else:
            raw = request.text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()
