"""What ``cachetrace show`` prints: the episode, its arms, their requests, the tokens of one request.

Everything that a model, tool or file said is cleaned here. What was not observed is shown as –.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import numpy as np

from tracer.clean_text import NOT_OBSERVED, cells, clean, fit, number, percent, token
from tracer.columns import PositionFlag, margins
from tracer.episode import Arm, ArmEnd, Exposure, Request
from tracer.errors import UsageError
from tracer.tracefile import TraceReader

_TEXT_CELLS = 60
_LAST_COLUMN_CELLS = 96
_ALTERNATIVES_SHOWN = 5
_REQUEST_HEADS = ("request", "turn", "prompt", "cached", "expected", "source", "output", "stop", "says")
_FLAG_WORDS = {
    PositionFlag.FORCED: "forced",
    PositionFlag.MERGED: "merged",
    PositionFlag.EXACT_TIE: "exact tie",
}


def choose_arms(trace: TraceReader, wanted: str | None) -> tuple[Arm, ...]:
    """All arms, or those with this label or index; ``UsageError`` when there is none."""
    if wanted is None:
        return trace.arms
    found = tuple(arm for arm in trace.arms if arm.label == wanted)
    if not found and wanted.isascii() and wanted.isdigit():
        found = tuple(arm for arm in trace.arms if arm.index == int(wanted))
    if not found:
        have = ", ".join(dict.fromkeys(arm.label for arm in trace.arms)) or "none"
        raise UsageError(f"there is no arm {wanted!r}; the arms are: {have}.")
    return found


def listing(trace: TraceReader, arms: Sequence[Arm], request: int | None, tokens: bool) -> Iterator[str]:
    """The lines that ``show`` prints."""
    yield from episode_lines(trace)
    yield ""
    yield from table(
        ["arm", "label", "priming", "way", "engine", "requests", "cached", "ended"],
        [_arm_row(trace, arm) for arm in trace.arms],
    )
    for arm in arms:
        chosen = [r for r in trace.requests(arm) if request is None or r.index == request]
        yield ""
        yield f"arm {arm.index} {clean(arm.label)}"
        if not chosen:
            yield "  no such request" if request is not None else "  no request was committed"
            continue
        rows = [_request_row(r) for r in chosen]
        yield from table(
            ["request", "turn", "prompt", "cached", "expected", "source", "output", "stop", "says"], rows
        )
        for one in chosen:
            if request is not None:
                yield from _request_lines(one)
            if tokens:
                yield ""
                yield from token_lines(trace, arm, one)
    if trace.losses:
        yield ""
        yield from (f"lost: {clean(loss.sentence)}" for loss in trace.losses)


def episode_lines(trace: TraceReader) -> Iterator[str]:
    """What the header says."""
    episode = trace.episode
    workload = episode.workload
    when = _time(episode.created_at)
    yield f"episode  {clean(episode.episode_id)}"
    yield (
        f"workload {clean(workload.name)}, history {clean(workload.history)}, agent {clean(workload.agent)}; "
        f"recorded {when}"
    )
    written = f"format {trace.format_version}, written by {clean(trace.writer)}"
    yield f"file     {clean(str(trace.path_of_file))}, {written}"
    if workload.note is not None:
        yield f"         {clean(workload.note)}"
    for name, note in episode.notes.items():
        yield f"note     {clean(name)}: {clean(note)}"


def _arm_row(trace: TraceReader, arm: Arm) -> list[str]:
    requests = trace.requests(arm)
    planned = "" if arm.requests_planned is None else f"/{arm.requests_planned}"
    return [
        str(arm.index),
        arm.label,
        str(arm.priming),
        str(arm.way),
        " ".join(filter(None, (arm.engine.engine, arm.engine.model_name, arm.engine.weight_format))),
        f"{len(requests)}{planned}",
        percent(_cached_share([r.exposure for r in requests])),
        _ended(trace.end(arm)),
    ]


def _cached_share(exposures: Iterable[Exposure]) -> float | None:
    """Cached of prompt tokens over all requests; None unless every request was observed."""
    cached = prompt = 0
    for exposure in exposures:
        if exposure.cached_tokens is None or exposure.prompt_tokens is None:
            return None
        cached += exposure.cached_tokens
        prompt += exposure.prompt_tokens
    return cached / prompt if prompt else None


def _ended(end: ArmEnd | None) -> str:
    if end is None:
        return "incomplete"
    score = "" if end.outcome is None or end.outcome.score is None else f", score {number(end.outcome.score)}"
    return ("completed" if end.completed else f"stopped: {end.reason or NOT_OBSERVED}") + score


def _request_row(request: Request) -> list[str]:
    exposure = request.exposure
    return [
        str(request.index),
        f"{request.turn}.{request.step}",
        number(request.prompt_tokens),
        number(exposure.cached_tokens),
        number(exposure.expected_tokens),
        str(exposure.source),
        str(request.output_tokens),
        str(request.stop),
        _says(request),
    ]


def _says(request: Request) -> str:
    if request.error is not None:
        return f"error {request.error.kind}: {request.error.message}"
    if request.tool_calls:
        return " ".join(f"{call.name}({call.arguments})" for call in request.tool_calls)
    return request.text


def _request_lines(request: Request) -> Iterator[str]:
    for message in request.messages_added:
        yield f"  {clean(message.role)} ┤ {clean(message.content)}"
    yield f"  answer ┤ {clean(request.text)}"
    for call in request.tool_calls:
        blocked = "" if call.blocked is None else f"  (blocked: {clean(call.blocked)})"
        yield f"  call   ┤ {clean(call.name)} {clean(call.arguments)}{blocked}"
    for result in request.tool_results:
        yield f"  result ┤ {'error ' if result.is_error else ''}{clean(result.name)}: {clean(result.content)}"
    if request.prefix_break is not None:
        cause = request.prefix_break.cause or "no cause was found"
        yield f"  prefix breaks at prompt token {request.prefix_break.position} ({clean(cause)})"
    if request.exposure.note is not None:
        yield f"  exposure: {clean(request.exposure.note)}"
    for column, why in request.not_observed.items():
        yield f"  not observed: {clean(column)} ({clean(why)})"


def token_lines(trace: TraceReader, arm: Arm, request: Request) -> Iterator[str]:
    """One line a token: text, value, log-sum-exp, margin, and the best alternatives."""
    path = trace.path(arm, request.index)
    alternatives = trace.alternatives(arm, request.index)
    if not len(path):
        yield "  no tokens were observed"
        return
    gaps = np.full(len(path), np.nan) if alternatives is None else margins(alternatives, path.flags)
    scale = NOT_OBSERVED if request.scale is None else str(request.scale)
    rows: list[list[str]] = []
    for p, token_id in enumerate(path.token_ids.tolist()):
        observed = bool(path.flags[p] & PositionFlag.VALUE) and path.chosen_values is not None
        value = float(path.chosen_values[p]) if observed and path.chosen_values is not None else None
        lse = None if path.log_sum_exp is None else float(path.log_sum_exp[p])
        best: list[str] = []
        if alternatives is not None:
            for a in range(min(int(alternatives.counts[p]), _ALTERNATIVES_SHOWN)):
                other = int(alternatives.ids[p, a])
                best.append(f"{_shown(trace, other)} {number(float(alternatives.values[p, a]), 5)}")
        words = [word for flag, word in _FLAG_WORDS.items() if path.flags[p] & flag]
        rows.append(
            [
                str(p),
                str(token_id),
                _shown(trace, token_id),
                number(value, 6),
                number(lse, 6),
                number(float(gaps[p]), 4),
                ", ".join(words),
                "  ".join(best) or NOT_OBSERVED,
            ]
        )
    yield from table(["position", "id", "token", scale, "log-sum-exp", "margin", "", "best"], rows)


def _shown(trace: TraceReader, token_id: int) -> str:
    return fit(token(token_id, trace.piece(token_id)), 24)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell; the last one is cut."""
    cleaned = [
        [fit(clean(cell), _TEXT_CELLS) for cell in row[:-1]] + [fit(clean(row[-1]), 96)] for row in rows
    ]
    lines = [list(heads), *cleaned]
    widths = [max(cells(line[c]) for line in lines) for c in range(len(heads))]
    for line in lines:
        padded = [fit(cell, width, pad=True) for cell, width in zip(line, widths, strict=True)]
        yield ("  " + "  ".join(padded)).rstrip()


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return NOT_OBSERVED  # a trace may claim any number
