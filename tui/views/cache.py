"""The view of the cache timeline."""

from __future__ import annotations

from tui.trace_model import TraceModel
from tui.view_model import ArmName, CacheRow, CacheView, Cursor
from tui.views.requests import arm_order


def cache_view(model: TraceModel, cursor: Cursor) -> CacheView:
    """One row for every request of every arm that is shown, by request and then by arm."""
    arms = shown_arms(model, cursor)
    rows = model.kept(("cache", *(arm.index for arm in arms)), lambda: _rows(model, arms))
    longest = max((row.prompt_tokens or 0 for row in rows), default=0)
    return CacheView(arms, rows, cursor.request, longest)


def _rows(model: TraceModel, arms: tuple[ArmName, ...]) -> tuple[CacheRow, ...]:
    timelines = {arm.index: model.timeline(arm.index) for arm in arms}
    count = max((len(timeline) for timeline in timelines.values()), default=0)
    return tuple(
        _row(model, arm.index, index)
        for index in range(count)
        for arm in arms
        if index < len(timelines[arm.index])
    )


def shown_arms(model: TraceModel, cursor: Cursor) -> tuple[ArmName, ...]:
    """Baseline, chosen arm, and the first of every other kind: repeats would say the same again."""
    names = arm_order(model.names(cursor))
    return tuple(arm for arm in names if not arm.control)


def _row(model: TraceModel, arm: int, index: int) -> CacheRow:
    found = model.timeline(arm)[index]
    return CacheRow(
        request=found.request,
        arm=arm,
        prompt_tokens=found.prompt_tokens,
        stretches=found.stretches,
        cached_tokens=found.exposure.cached_tokens,
        expected_tokens=found.exposure.expected_tokens,
        verdict=found.verdict,
        broke_at=found.broke_at,
        broke_text="" if found.broke_token is None else model.text(found.broke_token),
    )
