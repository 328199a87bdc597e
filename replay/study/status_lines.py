"""``study status`` as lines for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.study.cell_record import CellStatus
from replay.study.study_run import CellState
from tracer.clean_text import clean


def status_lines(states: Sequence[CellState]) -> Iterator[str]:
    """One line a cell and one for all."""
    width = max((len(state.cell_id) for state in states), default=0)
    for state in states:
        took = "–" if state.elapsed_s is None else f"{state.elapsed_s:.0f} s"
        episodes = f"{state.traces} of {state.episodes}" if state.episodes is not None else f"{state.traces}"
        reason = f"  {clean(state.reason)}" if state.reason else ""
        if state.too_long:
            reason = f"  {state.too_long} too long for the context{reason}"
        name = clean(state.cell_id).ljust(width)
        yield f"{name}  {state.status:11}  {episodes:>8} traces  {took:>7}{reason}"
    done = sum(state.status is CellStatus.DONE for state in states)
    yield f"{done} of {len(states)} cells done"
