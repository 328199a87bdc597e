"""A frame of the application as text that can be compared and read in a diff.

Each line of the screen is one line of text and, where anything in it has a style of its own, one line
of style letters below it; the letters are explained at the end. A picture as SVG says the same in a
hundred times the size.
"""

from __future__ import annotations

from itertools import groupby

from rich.style import Style
from textual.app import App
from textual.strip import Strip

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-*/=%&@#$!?<>"


def frame_text(app: App[object]) -> str:
    """What stands on the screen now."""
    strips = app.screen._compositor.render_strips()
    known: dict[str, str] = {}
    lines: list[str] = []
    for strip in _filtered(app, strips):
        lines.append(f"|{strip.text.rstrip()}")
        runs = [(_words(segment.style), len(segment.text)) for segment in strip]
        for words, _ in runs:
            known.setdefault(words, _LETTERS[len(known) % len(_LETTERS)])
        lines.append("~" + _run_lengths("".join(known[words] * length for words, length in runs)))
    legend = [f"{letter}: {words or 'plain'}" for words, letter in known.items()]
    return "\n".join((*lines, *legend)) + "\n"


def _filtered(app: App[object], strips: list[Strip]) -> list[Strip]:
    """As the terminal gets them: NO_COLOR is a filter at the very end."""
    from textual.color import Color

    for line_filter in app._filters:
        if line_filter.enabled:
            strips = [strip.apply_filter(line_filter, Color.parse("black")) for strip in strips]
    return strips


def _run_lengths(letters: str) -> str:
    return "".join(f"{len(list(run))}{letter}" for letter, run in groupby(letters))


def _words(style: Style | None) -> str:
    if style is None:
        return ""
    words = [name for name in ("bold", "dim", "italic", "underline", "reverse") if getattr(style, name)]
    if style.color is not None:
        words.append(style.color.name)
    if style.bgcolor is not None:
        words.append(f"on {style.bgcolor.name}")
    return " ".join(words)
