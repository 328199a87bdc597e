"""The view of one prompt with its cached stretches."""

from __future__ import annotations

from tui.trace_model import TraceModel
from tui.view_model import PromptView


def prompt_view(model: TraceModel, arm: int, request: int) -> PromptView:
    """One request's prompt in one arm."""
    timeline = model.timeline(arm)
    found = next((entry for entry in timeline if entry.request == request), None)
    if found is None:
        note = f"{model.label(arm)} has no request {request}"
        return PromptView(request, model.label(arm), None, (), None, note)
    ids = model.trace.prompt_ids(arm, request)
    return PromptView(
        request=request,
        label=model.label(arm),
        token_ids=ids,
        stretches=found.stretches,
        broke_at=found.broke_at,
        note="" if ids is not None else "the ids of this prompt were not observed",
    )
