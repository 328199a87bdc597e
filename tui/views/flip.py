"""The view of the flip card."""

from __future__ import annotations

from replay.divergence import AfterFlip, after_flip
from replay.divergence.views import NextStep
from replay.verdicts import Flip, FlipSide, RequestVerdict
from tracer.episode import Exposure, ExposureSource
from tui.numbers import count_text, drift_text, small_text, value_text
from tui.palette import NOT_OBSERVED
from tui.trace_model import ArmPair, TraceModel
from tui.view_model import Cursor, FlipCard

Section = tuple[str, tuple[tuple[str, str], ...]]
_MOST_COMPARED = 3_000
"""Output tokens up to which the two answers are aligned; beyond it would be felt at every key."""


def flip_card(model: TraceModel, cursor: Cursor) -> FlipCard:
    """The flip of the request under the cursor, or why there is none."""
    pair = model.pair(cursor)
    title = f"request {cursor.request}"
    if pair.b is None:
        return FlipCard(title, "There is no second arm here, so nothing can have flipped.")
    title += f" · {model.label(pair.a)} against {model.label(pair.b)}"
    if pair.refused:
        return FlipCard(title, "These two arms were not compared.", note="; ".join(pair.refused))
    verdict = pair.verdicts.get(cursor.request)
    if verdict is None:
        return FlipCard(title, "This request was not compared.")
    if verdict.flip is None:
        return _no_flip(model, pair, title, verdict)
    flip = verdict.flip
    title += f" · flip at token {flip.position}"
    sections: list[Section] = [
        ("margins and drift", _margins(model, pair, flip)),
        ("verdict", _judgement(verdict, flip)),
        ("exposure", _exposures(model, pair, verdict)),
    ]
    if min(_length(model, pair.a, cursor.request), _length(model, pair.b, cursor.request)) <= _MOST_COMPARED:
        sections.append(("afterwards", _afterwards(model, pair, cursor.request)))
    return FlipCard(title, flip.sentence, tuple(sections))


def _length(model: TraceModel, arm: int | None, request: int) -> int:
    found = model.request(arm, request)
    return 0 if found is None else found.output_tokens


def _no_flip(model: TraceModel, pair: ArmPair, title: str, verdict: RequestVerdict) -> FlipCard:
    facts = [
        ("largest drift", drift_text(verdict.max_drift, verdict.drift_from)),
        ("median drift", drift_text(verdict.median_drift, verdict.drift_from)),
        ("first drift at", count_text(verdict.first_drift)),
        ("compared", f"{verdict.compared_positions} tokens"),
        ("evidence", NOT_OBSERVED if verdict.evidence is None else str(verdict.evidence)),
    ]
    sentence = f"No flip: {verdict.verdict}."
    return FlipCard(
        title,
        sentence,
        (("numbers", tuple(facts)), ("exposure", _exposures(model, pair, verdict))),
        note=verdict.reason,
    )


def _margins(model: TraceModel, pair: ArmPair, flip: Flip) -> tuple[tuple[str, str], ...]:
    reference = flip.reference
    usual = reference.q99 if reference is not None else None
    facts = [
        (f"margin {model.label(pair.a)}", _margin(flip.a, usual)),
        (f"margin {_label(model, pair)}", _margin(flip.b, usual)),
        ("drift at the flip", small_text(flip.drift_at)),
        ("drift before it", drift_text(flip.drift_before, flip.drift_from)),
        ("gap changed by", small_text(flip.gap_change)),
        (
            "least drift for it",
            ("at least " if flip.least_drift_is_bound else "") + small_text(flip.least_drift),
        ),
    ]
    if flip.raw_change is not None:
        facts.append(("raw logits moved", small_text(flip.raw_change)))
    if reference is not None:
        spread = f"median {small_text(reference.q50)}, 95 % {small_text(reference.q95)}, "
        spread += f"99 % {small_text(reference.q99)}, largest {small_text(reference.largest)}"
        over = f"over {reference.positions} other positions"
        if reference.caveat:
            over += f" ({reference.caveat})"
        facts.append(("reference drift", f"{spread} {over}"))
    facts.append((f"{model.label(pair.a)} chose", _choice(flip.a, flip.b)))
    facts.append((f"{_label(model, pair)} chose", _choice(flip.b, flip.a)))
    return tuple(facts)


def _label(model: TraceModel, pair: ArmPair) -> str:
    return "" if pair.b is None else model.label(pair.b)


def _margin(side: FlipSide, usual: float | None) -> str:
    if side.margin is None:
        return f"{NOT_OBSERVED} ({side.why_no_margin})" if side.why_no_margin else NOT_OBSERVED
    text = small_text(side.margin)
    if side.exact_tie:
        text += " (exact tie)"
    if usual:
        text += f" = {side.margin / usual:.2g} × the 99 % reference drift"
    return text


def _choice(side: FlipSide, other: FlipSide) -> str:
    if side.token_id is None:
        return "nothing: its answer had ended"
    text = f"{value_text(side.value)}"
    if side.rank is not None:
        text += f", rank {side.rank}"
    if side.other_value is not None:
        rank = "" if side.other_rank is None else f", rank {side.other_rank}"
        text += f"; the other's token {value_text(side.other_value)}{rank}"
    elif other.token_id is not None:
        text += "; the other's token is not listed"
    return text


def _judgement(verdict: RequestVerdict, flip: Flip) -> tuple[tuple[str, str], ...]:
    known = {True: "yes", False: "no", None: "not known"}
    triage = str(flip.triage) + (f": {flip.triage_reason}" if flip.triage_reason else "")
    cause = known[verdict.attributable]
    if verdict.attribution_reason:
        cause += f": {verdict.attribution_reason}"
    return (
        ("triage", triage),
        ("near tie", known[flip.near_tie]),
        ("attributable", cause),
        ("evidence", NOT_OBSERVED if verdict.evidence is None else str(verdict.evidence)),
    )


def _exposures(model: TraceModel, pair: ArmPair, verdict: RequestVerdict) -> tuple[tuple[str, str], ...]:
    sides = ((pair.a, verdict.exposure_a), (pair.b, verdict.exposure_b))
    return tuple((model.label(arm), _exposure(found)) for arm, found in sides if arm is not None)


def _exposure(exposure: Exposure | None) -> str:
    if exposure is None or exposure.source is ExposureSource.NOT_OBSERVED:
        return NOT_OBSERVED
    text = f"{count_text(exposure.cached_tokens)} of {count_text(exposure.prompt_tokens)} cached"
    text += f", expected {count_text(exposure.expected_tokens)} (by {exposure.source})"
    if exposure.prompt_cache_tokens:
        text += f", {exposure.prompt_cache_tokens} by the prompt cache"
    if exposure.restored_tokens:
        text += f", {exposure.restored_tokens} restored"
    return text


def _afterwards(model: TraceModel, pair: ArmPair, request: int) -> tuple[tuple[str, str], ...]:
    assert pair.b is not None
    found: AfterFlip = after_flip(model.trace, pair.a, pair.b, request)
    if found.same_calls and found.step_a.tool_calls:
        steps = [("agent", f"the same in both arms: {_step(found.step_a)}")]
    else:
        steps = [(f"{model.label(pair.a)} went on", _step(found.step_a))]
        steps.append((f"{model.label(pair.b)} went on", _step(found.step_b)))
    edits = "edit" if found.edit_distance == 1 else "edits"
    return (
        *steps,
        ("tokens apart", f"{found.edit_distance} {edits}; {found.shared_tail_tokens} shared at the end"),
        ("later requests", f"{found.later_changed} of {found.later_requests} changed"),
    )


def _step(step: NextStep) -> str:
    if step.tool_calls:
        return "; ".join(f"{call.name}({call.arguments[:160]})" for call in step.tool_calls)
    return step.text[:160].strip() or "an empty text"
