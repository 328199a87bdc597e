"""The view of the arms pane."""

from __future__ import annotations

from tracer.episode import Arm
from tui.trace_model import TraceModel
from tui.view_model import ArmRow, ArmsView, Cursor
from tui.views.rates import Rates


def arms_view(model: TraceModel, cursor: Cursor, rates: Rates | None = None) -> ArmsView:
    """Every arm with what it is and whether it may count; the rates as the report gives them.

    What the workload says of its own figures stands before any rate.
    """
    rows = []
    for name in model.names(cursor):
        arm, assessment = model.arms[name.index], model.assessment(name.index)
        rows.append(ArmRow(name, assessment.status, _facts(model, arm), assessment.reason))
    note = model.trace.episode.workload.note
    about = () if note is None else (note,)
    if rates is None:
        return ArmsView(tuple(rows), notes=about)
    return ArmsView(tuple(rows), rates.rows, (*about, *rates.notes))


def _facts(model: TraceModel, arm: Arm) -> tuple[str, ...]:
    facts = [f"priming {arm.priming}", str(arm.way), str(model.assessment(arm.index).evidence_class)]
    requests = model.requests(arm.index)
    planned = arm.requests_planned
    facts.append(f"{len(requests)} requests" if planned is None else f"{len(requests)}/{planned} requests")
    cached = [r.exposure.cached_tokens for r in requests]
    if cached and all(c is not None for c in cached):
        facts.append(f"{sum(c or 0 for c in cached)} cached")
    return tuple(facts)
