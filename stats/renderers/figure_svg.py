"""A figure as SVG of our own making: no library, the same bytes every time, text stays text.

Lines differ in dash, marker and lightness, so that they can be told apart in black and white; the
colours are those of M. Okabe and K. Ito, which colour-blind readers can tell apart.
"""

from __future__ import annotations

from stats.figures.figure import Figure, Line, group_index, limits
from stats.renderers.figure_scale import place, ticks
from tracer.clean_text import cells, fit, html

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 70
LEGEND_ROW = 18
LABEL_CELLS = 80
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
DASHES = ("none", "7 3", "2 3", "9 3 2 3", "4 2", "12 4")
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "plus")


def render_svg(figure: Figure) -> str:
    """One ``<svg>`` element with title and description for readers that cannot see it."""
    low_x, high_x, low_y, high_y = limits(figure)
    rows = len(figure.lines)
    height = HEIGHT + LEGEND_ROW * rows
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" font-family="sans-serif" font-size="12" fill="#1b1b1b">',
        f"<title>{html(figure.title)}</title><desc>{html(figure.caption)}</desc>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="14" font-weight="bold">{html(figure.title)}</text>',
    ]
    box = _Box(low_x, high_x, low_y, high_y, figure)
    parts += box.frame()
    for row, (line, group) in enumerate(zip(figure.lines, group_index(figure), strict=True)):
        parts += box.line(line, group)
        parts += _legend(line, group, row)
    return "\n".join([*parts, "</svg>"])


class _Box:
    """The plotting area: turns values into coordinates."""

    def __init__(self, low_x: float, high_x: float, low_y: float, high_y: float, figure: Figure) -> None:
        self.x_range, self.y_range, self.figure = (low_x, high_x), (low_y, high_y), figure

    def x(self, value: float) -> float:
        share = place(self.figure.x, *self.x_range, value)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        share = place(self.figure.y, *self.y_range, value)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    def frame(self) -> list[str]:
        bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        parts = [f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#555"/>']
        marks = ticks(self.figure.x, *self.x_range)
        room = int((right - LEFT) / max(len(marks), 1) / 6.5)
        for value, text in marks:
            at = self.x(value)
            parts.append(f'<path d="M{at} {bottom}v4" stroke="#555"/>')
            parts += _folded(at, bottom + 17, text, max(room, 4))
        for value, text in ticks(self.figure.y, *self.y_range):
            at = self.y(value)
            parts.append(f'<path d="M{LEFT} {at}H{right}" stroke="#ddd"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{at + 4}" text-anchor="end">{html(text)}</text>')
        middle_x, middle_y = (LEFT + right) / 2, (TOP + bottom) / 2
        if not self.figure.x.names:
            title = html(self.figure.x.title)
            parts.append(f'<text x="{middle_x}" y="{bottom + 38}" text-anchor="middle">{title}</text>')
        parts.append(
            f'<text transform="translate(16 {middle_y}) rotate(-90)" text-anchor="middle">'
            f"{html(self.figure.y.title)}</text>"
        )
        return parts

    def line(self, line: Line, index: int) -> list[str]:
        colour = COLOURS[index % len(COLOURS)]
        # Points of several lines over one word would hide each other: each line steps aside a little.
        aside = 9.0 * (index - (len(self.figure.lines) - 1) / 2) if self.figure.x.names else 0.0
        points = [(self.x(x) + aside, self.y(y)) for x, y in zip(line.x, line.y, strict=True)]
        parts = []
        if line.style != "points" and len(points) > 1:
            parts.append(
                f'<path d="{_path(points, step=line.style == "step")}" fill="none" stroke="{colour}" '
                f'stroke-width="{_width(line)}" stroke-dasharray="{DASHES[index % len(DASHES)]}"/>'
            )
        for i, (x, y) in enumerate(points):
            low = line.low[i] if i < len(line.low) else None
            high = line.high[i] if i < len(line.high) else None
            if low is not None and high is not None:
                top, bottom = self.y(high), self.y(low)
                parts.append(
                    f'<path d="M{x:.1f} {top}V{bottom}M{x - 4:.1f} {top}h8M{x - 4:.1f} {bottom}h8" '
                    f'stroke="{colour}" fill="none"/>'
                )
            if has_markers(line):
                parts.append(_marker(x, y, index))
        return parts


def has_markers(line: Line) -> bool:
    """Whether its points are marked: single points, and lines of a few of them."""
    return line.style == "points" or (len(line.x) <= 12 and not line.thin)


def _path(points: list[tuple[float, float]], *, step: bool) -> str:
    first_x, first_y = points[0]
    commands = [f"M{first_x:.1f} {first_y:.1f}"]
    for x, y in points[1:]:
        commands.append(f"H{x:.1f}V{y:.1f}" if step else f"L{x:.1f} {y:.1f}")
    return "".join(commands)


def _marker(x: float, y: float, index: int) -> str:
    colour = COLOURS[index % len(COLOURS)]
    shape = MARKERS[index % len(MARKERS)]
    filled = f'fill="{colour}"'
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {filled}/>'
    paths = {
        "square": f"M{x - 3.5:.1f} {y - 3.5:.1f}h7v7h-7z",
        "triangle": f"M{x:.1f} {y - 4.5:.1f}l4.5 8h-9z",
        "diamond": f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z",
        "cross": f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8",
        "plus": f"M{x - 5:.1f} {y:.1f}h10m-5 -5v10",
    }
    drawn = f'stroke="{colour}" stroke-width="2" fill="none"' if shape in ("cross", "plus") else filled
    return f'<path d="{paths[shape]}" {drawn}/>'


def _width(line: Line) -> float:
    return 1.0 if line.thin else 2.2


def _legend(line: Line, index: int, row: int) -> list[str]:
    y = HEIGHT + LEGEND_ROW * row
    colour = COLOURS[index % len(COLOURS)]
    sample = f'<path d="M{LEFT} {y - 4}h28" stroke="{colour}" stroke-width="{_width(line)}" '
    dash = DASHES[index % len(DASHES)]
    drawn = [] if line.style == "points" else [f'{sample}stroke-dasharray="{dash}"/>']
    label = html(fit(line.label, LABEL_CELLS))
    mark = [_marker(LEFT + 14, y - 4, index)] if has_markers(line) else []
    return [*drawn, *mark, f'<text x="{LEFT + 38}" y="{y}">{label}</text>']


def _folded(x: float, y: float, text: str, room: int) -> list[str]:
    """Words below a mark, in as many rows as they need, three at most."""
    rows: list[str] = []
    for word in text.split(" "):
        if rows and cells(rows[-1]) + 1 + cells(word) <= room:
            rows[-1] += f" {word}"
        else:
            rows.append(word)
    style = 'text-anchor="middle" font-size="11"'
    return [
        f'<text x="{x}" y="{y + 13 * i}" {style}>{html(fit(row, room + 4))}</text>'
        for i, row in enumerate(rows[:4])
    ]
