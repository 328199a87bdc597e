"""Figures as SVG and PNG files, drawn with matplotlib (extra ``figures``)."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stats.figures.figure import Axis, Figure, group_index, limits
from stats.renderers.figure_svg import COLOURS, LABEL_CELLS, has_markers
from tracer.clean_text import clean, fit
from tracer.errors import UsageError

_DASHES: tuple[Any, ...] = ("solid", (0, (7, 3)), (0, (2, 2)), (0, (9, 3, 2, 3)), (0, (4, 2)), (0, (12, 4)))
_MARKERS = ("o", "s", "^", "D", "x", "+")
DPI = 160
NAME_WIDTH = 18
"""Characters of a word below a mark before it is folded."""


def draw_files(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """Two files a figure. ``UsageError`` when matplotlib is not installed or the folder cannot be written."""
    try:
        import matplotlib
    except ImportError as error:
        raise UsageError(
            "Figures as files need matplotlib; install cachetrace with the extra `figures`, or use "
            "--format html or --draw, which need nothing."
        ) from error
    matplotlib.use("Agg")
    # The same file for the same data: no date, ids from a fixed salt, text as text.
    settings: dict[Any, Any] = {"svg.hashsalt": "cachetrace", "svg.fonttype": "none", "font.size": 10}
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(settings), warnings.catch_warnings():
            # A name in a script that the font lacks is drawn as boxes; the tables hold it in full.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            for figure in figures:
                written += _draw(figure, folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written ({error.strerror}); give another folder.") from error
    return written


def _draw(figure: Figure, folder: Path) -> list[Path]:
    from matplotlib import pyplot

    height = 4.2 + 0.17 * len(figure.lines)
    drawing, axes = pyplot.subplots(figsize=(7.2, height), layout="constrained")
    low_x, high_x, low_y, high_y = limits(figure)
    for index, line in zip(group_index(figure), figure.lines, strict=True):
        aside = 0.08 * (index - (len(figure.lines) - 1) / 2) if figure.x.names else 0.0
        options: dict[str, Any] = {
            "color": COLOURS[index % len(COLOURS)],
            "marker": _MARKERS[index % len(_MARKERS)] if has_markers(line) else "",
            "linewidth": 1.0 if line.thin else 2.0,
            "clip_on": False,
            "linestyle": "none" if line.style == "points" else _DASHES[index % len(_DASHES)],
            "label": _plain(fit(clean(line.label), LABEL_CELLS)),
        }
        if line.style == "step":
            options["drawstyle"] = "steps-post"
        axes.plot([x + aside for x in line.x], line.y, **options)
        for x, low, high in zip(line.x, line.low, line.high, strict=False):
            if low is not None and high is not None:
                axes.vlines(x + aside, low, high, color=options["color"], linewidth=1.2)
    _scale(axes, "x", figure.x, low_x, high_x)
    _scale(axes, "y", figure.y, low_y, high_y)
    axes.set_title(_plain(clean(figure.title)), loc="left", fontweight="bold", fontsize=11)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    drawing.legend(loc="outside lower left", frameon=False, fontsize=8)
    paths = []
    for suffix, metadata in (("svg", {"Date": None}), ("png", {"Software": "cachetrace"})):
        path = folder / f"{figure.name}.{suffix}"
        drawing.savefig(path, dpi=DPI, metadata=metadata)
        paths.append(path)
    pyplot.close(drawing)
    return paths


def _scale(axes: Any, which: str, axis: Axis, low: float, high: float) -> None:
    from matplotlib.ticker import PercentFormatter

    side = getattr(axes, f"{which}axis")
    if axis.log:
        getattr(axes, f"set_{which}scale")("log")
    getattr(axes, f"set_{which}lim")(low, high)
    getattr(axes, f"set_{which}label")("" if axis.names else _plain(clean(axis.title)))
    if axis.percent:
        side.set_major_formatter(PercentFormatter(1.0, decimals=0))
    if axis.names:
        getattr(axes, f"set_{which}ticks")(
            range(len(axis.names)), [_folded(name) for name in axis.names], fontsize=8
        )


def _folded(name: str) -> str:
    return "\n".join(textwrap.wrap(_plain(clean(name)), NAME_WIDTH, break_long_words=False))


def _plain(text: str) -> str:
    """Matplotlib reads text between two dollar signs as mathematics."""
    return text.replace("$", r"\$")
