"""A figure as text for a terminal: bars where the axis carries words, else a grid of marks."""

from __future__ import annotations

import textwrap
from itertools import pairwise

from stats.figures.figure import Figure, limits
from stats.renderers.figure_scale import place, ticks
from tracer.clean_text import cells, clean, fit, percent

MARKS = "o+x*#@%&"
ROWS = 14
BAR = 30


def render_text(figure: Figure, width: int = 100) -> str:
    """Title, drawing, legend and caption; plain characters only."""
    body = _bars(figure) if figure.x.names else _grid(figure, width)
    caption = textwrap.wrap(clean(figure.caption), width)
    return "\n".join([clean(figure.title), *body, *caption])


def _bars(figure: Figure) -> list[str]:
    names = [clean(name) for name in figure.x.names]
    widest = max(map(cells, names))
    lines = []
    for line in figure.lines:
        if len(figure.lines) > 1:
            lines.append(clean(line.label))
        for i, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
            filled = round(BAR * place(figure.y, *limits(figure)[2:], y))
            bar = "█" * filled + "·" * (BAR - filled)
            low = line.low[i] if i < len(line.low) else None
            high = line.high[i] if i < len(line.high) else None
            interval = f" [{percent(low)}, {percent(high)}]" if low is not None and high is not None else ""
            name = fit(names[int(x)], widest, pad=True)
            lines.append(f"  {name}  {bar} {percent(y):>8}{interval}")
    return lines


def _grid(figure: Figure, width: int) -> list[str]:
    low_x, high_x, low_y, high_y = limits(figure)
    marks_y = ticks(figure.y, low_y, high_y)
    margin = max(len(text) for _, text in marks_y)
    columns = max(width - margin - 3, 20)
    grid = [[" "] * columns for _ in range(ROWS)]
    # Backwards, so that where marks meet the first line is seen: what was observed comes first.
    for index, line in reversed(list(enumerate(figure.lines))):
        for x, y in _dense(line.x, line.y, line.style == "points"):
            column = round(place(figure.x, low_x, high_x, x) * (columns - 1))
            row = ROWS - 1 - round(place(figure.y, low_y, high_y, y) * (ROWS - 1))
            grid[row][column] = MARKS[index % len(MARKS)]
    labels = {ROWS - 1 - round(place(figure.y, low_y, high_y, v) * (ROWS - 1)): text for v, text in marks_y}
    lines = [f"{labels.get(i, ''):>{margin}} │{''.join(row).rstrip()}" for i, row in enumerate(grid)]
    lines.append(f"{'':>{margin}} └{'─' * columns}")
    lines.append(_x_labels(figure, low_x, high_x, columns, margin))
    lines.append(f"{'':>{margin}}  {clean(figure.x.title)}")
    lines += [f"  {MARKS[i % len(MARKS)]} {clean(line.label)}" for i, line in enumerate(figure.lines)]
    return lines


def _dense(x: tuple[float, ...], y: tuple[float, ...], only_points: bool) -> list[tuple[float, float]]:
    """Points of a line, with some between neighbours so that it reads as a line."""
    points = list(zip(x, y, strict=True))
    if only_points or len(points) > 40:
        return points
    dense = points[:1]
    for (x0, y0), (x1, y1) in pairwise(points):
        dense += [(x0 + (x1 - x0) * i / 8, y0 + (y1 - y0) * i / 8) for i in range(1, 9)]
    return dense


def _x_labels(figure: Figure, low: float, high: float, columns: int, margin: int) -> str:
    row = [" "] * (columns + 8)
    free = 0
    for value, text in ticks(figure.x, low, high):
        start = max(0, round(place(figure.x, low, high, value) * (columns - 1)) - len(text) // 2)
        if start >= free:
            row[start : start + len(text)] = text
            free = start + len(text) + 1
    return f"{'':>{margin}}  {''.join(row).rstrip()}"
