"""First-run help: what a trace is when there is no flip to look at, and what to do next."""

from __future__ import annotations

import shlex
from pathlib import Path

from replay.verdicts import ArmStatus, Evidence, Verdict
from tracer.clean_text import clean
from tracer.errors import CachetraceError
from tracer.tracefile import TraceReader
from tui.trace_model import TraceModel
from tui.view_model import Advice

_SHOWN_LOSSES = 6


def quoted(path: Path) -> str:
    """A file name that can be pasted into a shell."""
    return shlex.quote(clean(str(path)))


def unreadable(path: Path, error: CachetraceError) -> Advice:
    """The file cannot be opened at all."""
    return Advice(
        "This file cannot be opened as a trace",
        (clean(str(error)),),
        (
            f"cachetrace validate {quoted(path)}    says what is wrong, byte by byte",
            "cachetrace record -o episode.msgpack    records a new one",
        ),
    )


def advice_for(model: TraceModel) -> Advice | None:
    """The most important thing to know before looking; None when there is something to step to."""
    trace = model.trace
    file = quoted(model.file)
    if trace.losses:
        return _damaged(trace, file)
    if not any(model.requests(arm.index) for arm in model.arms):
        return empty(model)
    if len(model.arms) == 1:
        return _single(model, file)
    analysis = model.analysis()
    statuses = {a.status for a in analysis.assessments}
    found = {v.verdict for c in analysis.comparisons for v in c.requests}
    if found & {Verdict.FLIPPED, Verdict.DRIFTED, Verdict.PROMPT_CHANGED}:
        return None
    refused = [c for c in analysis.comparisons if c.refused]
    if refused and len(refused) == len(analysis.comparisons):
        return _refused(tuple(dict.fromkeys(m for c in refused for m in c.mismatches)))
    if ArmStatus.VACUOUS in statuses:
        return _vacuous(file)
    if ArmStatus.VERIFIED not in statuses:
        return _unverified(model, file)
    if found and found <= {Verdict.IDENTICAL}:
        return _identical(model, file)
    return None


def _damaged(trace: TraceReader, file: str) -> Advice:
    losses = trace.losses
    what = [clean(loss.sentence) for loss in losses[:_SHOWN_LOSSES]]
    if len(losses) > _SHOWN_LOSSES:
        what.append(f"… and {len(losses) - _SHOWN_LOSSES} more")
    return Advice(
        "A part of this trace is damaged or missing",
        ("All that can be read is shown; what is lost is marked and never counted.", *what),
        (
            f"cachetrace validate {file}    lists every loss",
            f"cachetrace replay {file}    resumes an arm that was cut off",
        ),
    )


def empty(model: TraceModel) -> Advice:
    """No request was served."""
    file = quoted(model.file)
    arms = "no arm" if not model.arms else "an arm without any request"
    return Advice(
        "This trace is empty",
        (f"It has {arms}: the recording was stopped before its first request was served.",),
        (f"cachetrace record -o {file}    records it again",),
    )


def _single(model: TraceModel, file: str) -> Advice:
    state = model.arms[0].state
    return Advice(
        "This trace has one arm only",
        (
            f"It is the recording (state {state}). You can read its tokens, margins and near ties, "
            "but there is nothing to hold it against yet.",
        ),
        (
            f"cachetrace replay {file} --state cold,warm    adds arms, each run twice as its own control",
            "or press R here: it replays the episode under another state while you watch",
        ),
    )


def _refused(reasons: tuple[str, ...]) -> Advice:
    return Advice(
        "These arms may not be compared",
        ("Something besides the cache differs between them, so a difference would say nothing:", *reasons),
        ("replay again with the same engine, model and settings", "b chooses another baseline"),
    )


def _vacuous(file: str) -> Advice:
    return Advice(
        "The warm arm never met a warm cache",
        (
            "No prompt of this episode shares a prefix with what the cache held, so the exposure is 0 "
            "throughout: equal tokens say nothing about the cache here.",
        ),
        (
            f"cachetrace show {file}    shows the exposure of each request",
            "record an episode of several requests with a growing history (the default workload is one)",
        ),
    )


def _unverified(model: TraceModel, file: str) -> Advice:
    reasons = [
        f"{model.label(a.arm)}: {a.status}{', ' + clean(a.reason) if a.reason else ''}"
        for a in model.analysis().assessments
    ]
    return Advice(
        "No arm of this trace is verified",
        ("What the caches really held is not known, so no rate is given:", *reasons[:8]),
        (
            "cachetrace doctor URL    says which flags make the engine report its cached tokens",
            f"cachetrace replay {file} --state cold,warm    with an engine that counts them",
        ),
    )


def _identical(model: TraceModel, file: str) -> Advice:
    verdicts = [v for c in model.analysis().comparisons for v in c.requests]
    weakest = max(
        (v.evidence for v in verdicts if v.evidence is not None), key=list(Evidence).index, default=None
    )
    by = f", by {weakest}" if weakest is not None else ""
    return Advice(
        "Nothing differs between the arms",
        (f"All {len(verdicts)} compared requests have the same tokens and the same numbers{by}.",),
        (
            "look at the cache pane (6): was the exposure of the warm arm above 0?",
            f"cachetrace replay {file} --state no-prompt-cache,snapshot    tries the other states",
            "a longer episode, or coarser weights, gives drift more to act on",
        ),
    )
