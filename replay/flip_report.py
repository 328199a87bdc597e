"""One flip as a Markdown bug report: what a maintainer asks for first, and the commands that repeat it.

Everything of the trace that goes into it (tokens, tool calls, names, recorded commands) is hostile
and passes ``tracer.clean_text``. Nothing that was not observed is written as a number.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import asdict

from replay.divergence import AfterFlip, ReadableTrace, after_flip
from replay.divergence.views import NextStep
from replay.verdicts import FlipSide, RequestVerdict
from tracer.clean_text import NOT_OBSERVED, clean, markdown, markdown_code, number, token
from tracer.episode import Arm, CacheState, Exposure, Way, default_priming

ROWS = 8
"""Alternatives of each arm that the report lists."""
_LONGEST = 300
_FLAG_OF_WAY = {Way.CLOSED_LOOP: "--closed-loop", Way.FORCED: "--forced"}


def flip_report(trace: ReadableTrace, path: Path, a: int, b: int, verdict: RequestVerdict) -> str:
    """The report of one flipped request of baseline ``a`` and arm ``b``. ``verdict.flip`` must be there."""
    assert verdict.flip is not None, "only a flipped request has a flip to report"
    one, two = trace.arms[a], trace.arms[b]
    blocks = [
        f"## Token {verdict.flip.position} of request {verdict.request} flips between "
        f"{markdown_code(one.label)} and {markdown_code(two.label)}",
        f"> {markdown(verdict.flip.sentence)}.",
        "\n".join(f"- {fact}" for fact in _facts(one, two, verdict)),
        "### Both arms at that token",
        _table(trace, a, b, verdict),
        "### What came of it",
        "\n".join(f"- {fact}" for fact in _afterwards(one, two, after_flip(trace, a, b, verdict.request))),
        "### Engine",
        "\n".join(f"- {fact}" for fact in _engine(one, two)),
        "### How to repeat it",
        "With your own engine options (`--engine`, `--model`, `--url`), which a trace never carries:",
        _fenced(repeat_commands(path, one, two, verdict)),
    ]
    recorded = [arm.command for arm in (one, two) if arm.command]
    if recorded:
        blocks.append("The arms were written by:")
        blocks.append("\n".join(f"- {markdown_code(command)}" for command in dict.fromkeys(recorded)))
    return "\n\n".join(blocks) + "\n"


def repeat_commands(path: Path, a: Arm, b: Arm, verdict: RequestVerdict) -> tuple[str, ...]:
    """Commands that run both arms again and open the flip; every word is quoted for a shell."""
    assert verdict.flip is not None
    states = [str(arm.state) for arm in (a, b) if arm.state is not CacheState.AS_SERVED]
    words = ["cachetrace", "replay", str(path), "--again"]
    words += ["--state", ",".join(dict.fromkeys(states))] if states else []
    primings = {str(arm.priming) for arm in (a, b) if arm.priming is not default_priming(arm.state)}
    if primings:
        words += ["--priming", ",".join(sorted(primings))]
    words += sorted({_FLAG_OF_WAY[arm.way] for arm in (a, b) if arm.way in _FLAG_OF_WAY})
    look = ["cachetrace", "tui", str(path), "--request", str(verdict.request)]
    look += ["--token", str(verdict.flip.position), "--arm", str(b.index), "--baseline", str(a.index)]
    return tuple(clean(shlex.join(words)) for words in (words, look))


def _facts(a: Arm, b: Arm, verdict: RequestVerdict) -> Iterator[str]:
    flip = verdict.flip
    assert flip is not None
    for arm, side in ((a, flip.a), (b, flip.b)):
        yield f"margin in {markdown_code(arm.label)}: {_margin(side)}"
    of = "" if flip.drift_from is None else flip.drift_from.of
    before = f"largest drift{of} before it: {number(flip.drift_before)}"
    yield f"drift at the flip: {number(flip.drift_at)}; {before}"
    if flip.least_drift is not None:
        at_least = "at least " if flip.least_drift_is_bound else ""
        yield f"the flip takes a drift of {at_least}{number(flip.least_drift)}"
    if flip.reference is not None:
        reference = flip.reference
        caveat = f" ({reference.caveat})" if reference.caveat else ""
        yield (
            f"drift of other requests: median {number(reference.q50)}, 99 % {number(reference.q99)}, "
            f"largest {number(reference.largest)}, over {reference.positions} positions{caveat}"
        )
    reason = f" ({markdown(flip.triage_reason)})" if flip.triage_reason else ""
    yield f"triage: {flip.triage}{reason}"
    yield f"evidence: {NOT_OBSERVED if verdict.evidence is None else verdict.evidence}"
    known = {True: "yes", False: "no", None: "not known"}[verdict.attributable]
    reason = f" ({markdown(verdict.attribution_reason)})" if verdict.attribution_reason else ""
    yield f"attributable to the cache: {known}{reason}"
    for arm, exposure in ((a, verdict.exposure_a), (b, verdict.exposure_b)):
        yield f"exposure of {markdown_code(arm.label)}: {_exposure(exposure)}"


def _margin(side: FlipSide) -> str:
    if side.margin is None:
        why = f" ({markdown(side.why_no_margin)})" if side.why_no_margin else ""
        return f"{NOT_OBSERVED}{why}"
    return number(side.margin) + (" (exact tie)" if side.exact_tie else "")


def _exposure(exposure: Exposure | None) -> str:
    if exposure is None:
        return NOT_OBSERVED
    return (
        f"{number(exposure.cached_tokens)} of {number(exposure.prompt_tokens)} prompt tokens cached, "
        f"{number(exposure.expected_tokens)} expected (said by: {exposure.source})"
    )


def _table(trace: ReadableTrace, a: int, b: int, verdict: RequestVerdict) -> str:
    assert verdict.flip is not None
    lists = [_listed(trace, arm, verdict.request, verdict.flip.position) for arm in (a, b)]
    ids = list(dict.fromkeys(token_id for listed in lists for token_id in list(listed)[:ROWS]))
    if not ids:
        return "No alternatives were observed."
    labels = [markdown_code(trace.arms[arm].label) for arm in (a, b)]
    rows = [f"| token | id | {labels[0]} | {labels[1]} |", "|---|---:|---:|---:|"]
    for token_id in ids:
        text = markdown_code(token(token_id, trace.piece(token_id)))
        values = " | ".join(
            f"{listed[token_id]:.4f}" if token_id in listed else NOT_OBSERVED for listed in lists
        )
        rows.append(f"| {text} | {token_id} | {values} |")
    scale = verdict.flip.scale
    return "\n".join(rows) + (f"\n\nValues are {scale}s." if scale is not None else "")


def _value(value: float | None) -> str:
    return NOT_OBSERVED if value is None else f"{value:.4f}"


def _listed(trace: ReadableTrace, arm: int, request: int, position: int) -> dict[int, float]:
    table = trace.alternatives(arm, request)
    if table is None or position >= len(table.counts):
        return {}
    count = int(table.counts[position])
    pairs = zip(table.ids[position, :count].tolist(), table.values[position, :count].tolist(), strict=True)
    return {int(token_id): float(value) for token_id, value in pairs}


def _afterwards(a: Arm, b: Arm, after: AfterFlip) -> Iterator[str]:
    yield f"{markdown_code(a.label)} went on with {_step(after.step_a)}"
    yield f"{markdown_code(b.label)} went on with {_step(after.step_b)}"
    edits = "edit" if after.edit_distance == 1 else "edits"
    yield (
        f"{after.edit_distance} {edits} between both answers, {after.shared_tail_tokens} tokens shared at "
        f"the end; {after.later_changed} of {after.later_requests} later requests changed"
    )


def _step(step: NextStep) -> str:
    calls = "; ".join(f"{call.name}({call.arguments})" for call in step.tool_calls)
    text = calls or step.text.strip()
    return markdown_code(text[:_LONGEST]) if text else "an empty text"


def _engine(a: Arm, b: Arm) -> Iterator[str]:
    """What is the same in both arms once, what differs with both values."""
    facts_a, facts_b = asdict(a.engine), asdict(b.engine)
    for name, value in facts_a.items():
        if value == facts_b[name]:
            if value is not None and value != {}:
                yield f"{name}: {markdown_code(str(value))}"
        else:
            values = (NOT_OBSERVED if v is None else markdown_code(str(v)) for v in (value, facts_b[name]))
            yield f"{name}: {' / '.join(values)}"
    yield f"sampling: {markdown_code(_sampling(a))}"
    for arm in (a, b):
        yield f"{markdown_code(arm.label)}: state {arm.state}, priming {arm.priming}, way {arm.way}"


def _sampling(arm: Arm) -> str:
    return ", ".join(
        f"{name} {value}" for name, value in asdict(arm.sampling).items() if value not in (None, {})
    )


def _fenced(lines: Sequence[str]) -> str:
    """A code block that its own content cannot end."""
    fence = "```"
    while any(fence in line for line in lines):
        fence += "`"
    return "\n".join((f"{fence}sh", *lines, fence))
