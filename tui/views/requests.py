"""The view of the requests pane."""

from __future__ import annotations

from replay.verdicts import DriftFrom, RequestVerdict, Verdict
from tracer.exposure import ExposureVerdict
from tui.trace_model import TraceModel
from tui.view_model import ArmCell, ArmName, Cursor, Filter, RequestRow, RequestsView
from tui.views.wording import did


def requests_view(model: TraceModel, cursor: Cursor) -> RequestsView:
    """All requests that pass the filter, with one cell for every arm."""
    pair = model.pair(cursor)
    names = arm_order(model.names(cursor))
    verdicts = {arm.index: _verdicts(model, cursor, arm.index) for arm in names}
    verdicts[pair.b if pair.b is not None else -1] = pair.verdicts
    total = max((len(model.requests(arm)) for arm in (pair.a, pair.b) if arm is not None), default=0)
    rows = [_row(model, cursor, index, names, verdicts) for index in range(total)]
    kept = tuple(row for row in rows if passes(row, cursor.filter, pair.b if pair.b is not None else pair.a))
    return RequestsView(names, kept, cursor.filter, total)


def arm_order(names: tuple[ArmName, ...]) -> tuple[ArmName, ...]:
    """Baseline first, then the chosen arm, then the others as they were run."""
    return tuple(sorted(names, key=lambda arm: (not arm.baseline, not arm.chosen, arm.index)))


def passes(row: RequestRow, chosen: Filter, arm: int) -> bool:
    """Whether a row is listed under a filter."""
    if chosen is Filter.ALL:
        return True
    if chosen is Filter.FLIPPED:
        return row.verdict is Verdict.FLIPPED
    if chosen is Filter.DRIFTED:
        return row.verdict in (Verdict.DRIFTED, Verdict.FLIPPED)
    cell = next((cell for cell in row.cells if cell.arm == arm), None)
    if cell is None or cell.cached_tokens is None:
        return False
    return cell.cached_tokens == 0 or cell.exposure is ExposureVerdict.SHORT


def _verdicts(model: TraceModel, cursor: Cursor, arm: int) -> dict[int, RequestVerdict]:
    comparison = model.comparison_of(cursor, arm)
    return {} if comparison is None else {v.request: v for v in comparison.requests}


def _row(
    model: TraceModel,
    cursor: Cursor,
    index: int,
    names: tuple[ArmName, ...],
    verdicts: dict[int, dict[int, RequestVerdict]],
) -> RequestRow:
    pair = model.pair(cursor)
    request = model.request(pair.a, index) or model.request(pair.b, index)
    verdict = pair.verdicts.get(index)
    flip = verdict.flip if verdict is not None else None
    chosen = pair.a if pair.b is None else pair.b
    cells = tuple(_cell(model, arm.index, index, verdicts[arm.index].get(index)) for arm in names)
    return RequestRow(
        index=index,
        turn=request.turn if request is not None else 0,
        step=request.step if request is not None else 0,
        did=did(request),
        prompt_tokens=_prompt_tokens(model, chosen, index),
        cells=cells,
        verdict=verdict.verdict if verdict is not None else None,
        flip_position=flip.position if flip is not None else None,
        margin=flip.a.margin if flip is not None else None,
        drift=verdict.max_drift if verdict is not None else None,
        drift_at_least=verdict is not None and verdict.drift_from is DriftFrom.CHOSEN,
        cached_tokens=next((cell.cached_tokens for cell in cells if cell.arm == chosen), None),
    )


def _cell(model: TraceModel, arm: int, index: int, verdict: RequestVerdict | None) -> ArmCell:
    request = model.request(arm, index)
    exposures = model.assessment(arm).exposures
    return ArmCell(
        arm=arm,
        verdict=verdict.verdict if verdict is not None else None,
        cached_tokens=request.exposure.cached_tokens if request is not None else None,
        prompt_tokens=_prompt_tokens(model, arm, index),
        exposure=exposures[index] if index < len(exposures) else None,
    )


def _prompt_tokens(model: TraceModel, arm: int, index: int) -> int | None:
    """As the engine said, else the number of prompt ids that were sent."""
    request = model.request(arm, index)
    if request is None:
        return None
    said = request.exposure.prompt_tokens
    return said if said is not None else request.prompt_tokens
