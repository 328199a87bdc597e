"""The view of the top-k pane: both lists of one position, joined by token."""

from __future__ import annotations

import numpy as np

from replay.divergence import PositionDrift
from replay.verdicts import RequestVerdict
from tracer.columns import Alternatives, PathColumns, PositionFlag, margins
from tui.numbers import drift_text, small_text
from tui.trace_model import ArmPair, TraceModel
from tui.view_model import Cursor, TopKRow, TopKView

Listed = dict[int, tuple[int, float]]
"""Token id → (rank, value)."""


def top_k_view(model: TraceModel, cursor: Cursor) -> TopKView:
    """The token under the cursor in both arms."""
    pair = model.pair(cursor)
    view = TopKView(cursor.request, cursor.position, model.label(pair.a), _label(model, pair))
    a, b = _listed(model, pair.a, cursor), _listed(model, pair.b, cursor)
    verdict = pair.verdicts.get(cursor.request)
    flip = verdict.flip if verdict is not None else None
    at_flip = flip is not None and flip.position == cursor.position
    request = model.request(pair.a, cursor.request) or model.request(pair.b, cursor.request)
    after = flip is not None and cursor.position > flip.position
    rows = _rows(model, pair, cursor, a, b, comparable=not after)
    return TopKView(
        request=view.request,
        position=view.position,
        label_a=view.label_a,
        label_b=view.label_b,
        rows=rows,
        scale=str(request.scale) if request is not None and request.scale is not None else None,
        facts=_facts(model, pair, cursor, verdict, a, b),
        sentence=flip.sentence if flip is not None and at_flip else "",
        note=_note(model, pair, cursor, rows, after=after),
    )


def _label(model: TraceModel, pair: ArmPair) -> str | None:
    return None if pair.b is None else model.label(pair.b)


def _path(model: TraceModel, arm: int | None, cursor: Cursor) -> PathColumns | None:
    if model.request(arm, cursor.request) is None or arm is None:
        return None
    return model.path(arm, cursor.request)


def _chosen(path: PathColumns | None, position: int) -> int | None:
    return None if path is None or position >= len(path) else int(path.token_ids[position])


def _listed(model: TraceModel, arm: int | None, cursor: Cursor) -> Listed:
    path = _path(model, arm, cursor)
    if path is None or arm is None or cursor.position >= len(path):
        return {}
    found: Listed = {}
    table = model.alternatives(arm, cursor.request)
    at = cursor.position
    if table is not None:
        for rank in range(int(table.counts[at])):
            found.setdefault(int(table.ids[at, rank]), (rank, float(table.values[at, rank])))
    chosen = int(path.token_ids[at])
    if chosen not in found and path.chosen_values is not None and path.flags[at] & PositionFlag.VALUE:
        found[chosen] = (len(found), float(path.chosen_values[at]))
    return found


def _rows(
    model: TraceModel, pair: ArmPair, cursor: Cursor, a: Listed, b: Listed, *, comparable: bool
) -> tuple[TopKRow, ...]:
    chosen_a = _chosen(_path(model, pair.a, cursor), cursor.position)
    chosen_b = _chosen(_path(model, pair.b, cursor), cursor.position)
    first = a or b

    def order(token_id: int) -> tuple[int, int]:
        return (0, a[token_id][0]) if token_id in a else (1, b[token_id][0])

    rows = []
    for token_id in sorted({*a, *b}, key=order) if first else ():
        value_a = a[token_id][1] if token_id in a else None
        value_b = b[token_id][1] if token_id in b else None
        both = value_a is not None and value_b is not None and comparable
        with np.errstate(invalid="ignore"):
            change = float(np.float64(value_b) - np.float64(value_a)) if both else None
        text = str(token_id) if cursor.ids else model.text(token_id)
        rows.append(
            TopKRow(token_id, text, value_a, value_b, change, token_id == chosen_a, token_id == chosen_b)
        )
    return tuple(rows)


def margin_at(model: TraceModel, arm: int | None, request: int, position: int) -> float | None:
    """The margin of one position of one arm; None where there is none."""
    if arm is None or model.request(arm, request) is None:
        return None
    path = model.path(arm, request)
    table = model.alternatives(arm, request)
    if table is None or position >= len(path):
        return None
    at = slice(position, position + 1)
    one = Alternatives(table.ids[at], table.values[at], table.counts[at])
    margin = float(margins(one, path.flags[at])[0])
    return None if np.isnan(margin) else margin


def _facts(
    model: TraceModel,
    pair: ArmPair,
    cursor: Cursor,
    verdict: RequestVerdict | None,
    a: Listed,
    b: Listed,
) -> tuple[tuple[str, str], ...]:
    at = cursor.position
    facts = [(f"margin {model.label(pair.a)}", _margin_text(model, pair.a, cursor))]
    if pair.b is None:
        return tuple(facts)
    facts.append((f"margin {model.label(pair.b)}", _margin_text(model, pair.b, cursor)))
    found = model.drift(pair, cursor.request) if verdict is not None else None
    if found is None or verdict is None or at >= verdict.compared_positions:
        return tuple(facts)
    facts.append(("drift here", drift_text(float(found.drift[at]), found.drift_from)))
    chosen_a = _chosen(_path(model, pair.a, cursor), at)
    chosen_b = _chosen(_path(model, pair.b, cursor), at)
    if chosen_a != chosen_b:
        facts.append((f"rank of {model.label(pair.b)}'s choice", _rank(a, chosen_b, model.label(pair.a))))
        facts.append((f"rank of {model.label(pair.a)}'s choice", _rank(b, chosen_a, model.label(pair.b))))
    facts.append(("rows", _rows_equal(found, at)))
    return tuple(facts)


def _margin_text(model: TraceModel, arm: int, cursor: Cursor) -> str:
    path = _path(model, arm, cursor)
    text = small_text(margin_at(model, arm, cursor.request, cursor.position))
    if path is None or cursor.position >= len(path):
        return text
    flags = path.flags[cursor.position]
    if flags & PositionFlag.FORCED:
        return f"{text} (forced)"
    if flags & PositionFlag.EXACT_TIE:
        return f"{text} (exact tie)"
    if flags & PositionFlag.MERGED:
        return f"{text} (several tokens in one entry)"
    return text


def _rank(listed: Listed, token_id: int | None, label: str) -> str:
    if token_id is None:
        return "the end"
    if token_id not in listed:
        return f"not among the {len(listed)} listed in {label}"
    return f"{listed[token_id][0]} in {label}"


def _rows_equal(found: PositionDrift, at: int) -> str:
    if found.rows_equal is None or at >= len(found.rows_equal):
        return "whole rows were not observed"
    return "bit-identical" if found.rows_equal[at] else "not bit-identical"


def _note(model: TraceModel, pair: ArmPair, cursor: Cursor, rows: tuple[TopKRow, ...], *, after: bool) -> str:
    if pair.refused:
        return "not compared: " + "; ".join(pair.refused)
    if after:
        return "after the flip: the two lists belong to different texts, so no change is shown"
    if rows:
        return ""
    request = model.request(pair.a, cursor.request)
    if request is not None and request.error is not None:
        return f"this request failed: {request.error.message}"
    if request is not None and not request.output_tokens:
        return "this request produced no token"
    why = request.not_observed.get("alternatives") if request is not None else None
    return f"no numbers were observed here{': ' + why if why else ''}"
