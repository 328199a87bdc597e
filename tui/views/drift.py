"""The view of the drift pane."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tui.trace_model import ArmPair, TraceModel
from tui.view_model import Cursor, DriftView

_ONLY_CHOSEN = "there is no top-k list to compare, so this is the drift of the chosen token"


def drift_view(model: TraceModel, cursor: Cursor) -> DriftView:
    """Drift and the baseline's margin over the positions of the request under the cursor."""
    pair = model.pair(cursor)
    verdict = pair.verdicts.get(cursor.request)
    found = model.drift(pair, cursor.request) if verdict is not None else None
    if found is not None:
        drift, margin = found.drift, found.margin_a
    else:
        margin = model.margins(pair.a, cursor.request)
        drift = np.full(len(margin), np.nan)
    flip = verdict.flip if verdict is not None else None
    return DriftView(
        request=cursor.request,
        drift=drift,
        margin=margin,
        flip=flip.position if flip is not None else None,
        position=cursor.position,
        label_a=model.label(pair.a),
        label_b=None if pair.b is None else model.label(pair.b),
        note=_note(pair, cursor, drift) or ("" if found is None or not found.drift_from.of else _ONLY_CHOSEN),
    )


def _note(pair: ArmPair, cursor: Cursor, drift: NDArray[np.float64]) -> str:
    if pair.b is None:
        return "one arm only: there is nothing to drift from"
    if pair.refused:
        return "not compared: " + "; ".join(pair.refused)
    verdict = pair.verdicts.get(cursor.request)
    if verdict is not None and np.isnan(drift).all():
        return f"{verdict.verdict}: {verdict.reason or 'no numbers to compare'}"
    return ""
