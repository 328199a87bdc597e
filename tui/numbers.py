"""How numbers stand in the panes: short, aligned, "–" where nothing was observed."""

from __future__ import annotations

from math import isfinite, isnan

from replay.verdicts import DriftFrom
from tui.palette import NOT_OBSERVED

_LARGE = 1e5
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def value_text(value: float | None) -> str:
    """A logit or logprob, to three places. A NaN was observed as one, so it is not a dash."""
    if value is None:
        return NOT_OBSERVED
    if isnan(value):
        return "NaN"
    return f"{value:.3f}" if abs(value) < _LARGE else _large_text(value)


def small_text(value: float | None) -> str:
    """A margin or a drift: three significant digits, as short as they go."""
    if value is None or isnan(value):
        return NOT_OBSERVED
    if value == 0.0 or abs(value) >= _LARGE:
        return "0" if value == 0.0 else _large_text(value)
    return f"{value:.1e}" if abs(value) < 1e-3 else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def drift_text(value: float | None, drift_from: DriftFrom | None) -> str:
    """A drift with what it is of, where that is not the lists."""
    text = small_text(value)
    of = "" if text == NOT_OBSERVED or drift_from is None else drift_from.of
    return f"{text} ({of.strip()})" if of else text


def _large_text(value: float) -> str:
    """Sentinels such as −3.4e38 stand in for real values in some engines' answers."""
    return f"{value:.1e}" if isfinite(value) else ("∞" if value > 0 else "-∞")


def count_text(value: int | None) -> str:
    """A count of tokens."""
    return NOT_OBSERVED if value is None else str(value)


def bar_text(fraction: float | None, cells: int) -> str:
    """A bar of this many cells, in eighths; "–" where the fraction is not known."""
    if fraction is None or isnan(fraction):
        return NOT_OBSERVED.ljust(cells)
    eighths = round(min(max(fraction, 0.0), 1.0) * cells * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(cells)


def level_text(fraction: float | None) -> str:
    """One cell that is filled from below; "·" for exactly none, "–" where it is not known."""
    if fraction is None or isnan(fraction):
        return NOT_OBSERVED
    if fraction <= 0:
        return "·"
    return "▁▂▃▄▅▆▇█"[min(int(fraction * 8), 7)]


def twin_bar_text(a: float | None, b: float | None, cells: int) -> str:
    """Two bars in one line on one scale: upper half the baseline, lower half the arm."""
    above = round(min(max(a or 0.0, 0.0), 1.0) * cells)
    below = round(min(max(b or 0.0, 0.0), 1.0) * cells)
    both = min(above, below)
    rest = "▀" * (above - both) if above > below else "▄" * (below - both)
    return ("█" * both + rest).ljust(cells)
