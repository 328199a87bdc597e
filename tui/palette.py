"""The few styles of the screen, taken from the theme, and the signs that need no colour.

Colour is never the only sign: every state also has a character or an attribute of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from rich.style import Style

from replay.verdicts import Verdict
from tracer.clean_text import NOT_OBSERVED as NOT_OBSERVED

if TYPE_CHECKING:
    from textual.app import App

VERDICT_SIGNS: dict[Verdict, str] = {
    Verdict.IDENTICAL: "=",
    Verdict.DRIFTED: "~",
    Verdict.FLIPPED: "✗",
    Verdict.DOWNSTREAM: "↓",
    Verdict.PROMPT_CHANGED: "≠",
    Verdict.UNOBSERVED: "?",
    Verdict.FAILED: "!",
    Verdict.INCOMPLETE: "…",
}


class Palette(Struct, frozen=True):
    """Rich styles; every one also works with attributes alone when colour is off."""

    plain: Style
    faint: Style
    strong: Style
    heading: Style
    baseline: Style
    arm: Style
    flip: Style
    after: Style
    near_tie: Style
    exact_tie: Style
    forced: Style
    unobserved: Style
    cursor: Style
    row: Style
    """The chosen row, which also has a ▶ of its own."""
    good: Style
    warn: Style
    bad: Style
    cached: Style
    restored: Style
    computed: Style

    def of(self, verdict: Verdict | None) -> Style:
        """The style of a verdict's sign and word."""
        if verdict is Verdict.FLIPPED or verdict is Verdict.FAILED:
            return self.bad
        if verdict in (Verdict.DRIFTED, Verdict.PROMPT_CHANGED, Verdict.DOWNSTREAM):
            return self.warn
        if verdict is Verdict.IDENTICAL:
            return self.good
        return self.faint


_PALETTES: dict[tuple[str, bool], Palette] = {}
"""By the name of the theme, and whether colour is off."""


def palette_of(app: App[object]) -> Palette:
    """The styles for the application's theme."""
    key = (app.theme, app.no_color)
    if key not in _PALETTES:
        _PALETTES[key] = _without_hue(_palette(app)) if app.no_color else _palette(app)
    return _PALETTES[key]


def _without_hue(palette: Palette) -> Palette:
    """With NO_COLOR hues become greys, and a dark hue a grey that is hard to read: use the text's own."""
    plain, strong = Style(), Style(bold=True)
    return replace(
        palette,
        heading=strong,
        baseline=plain,
        arm=plain,
        cached=plain,
        restored=plain,
        good=plain,
        warn=plain,
        bad=strong,
        flip=Style(reverse=True, bold=True),
        near_tie=Style(underline=True),
        exact_tie=Style(underline=True, bold=True),
    )


def _palette(app: App[object]) -> Palette:
    colours = app.theme_variables

    def colour(name: str, fallback: str) -> str:
        value = colours.get(name, fallback)
        return value if value.startswith("#") and len(value) == 7 else fallback

    dark = app.current_theme.dark
    primary = colour("primary", "#4a9eda" if dark else "#005f9e")
    good = "#7fbf7f" if dark else "#1f6b2a"
    warn = "#e0b050" if dark else "#8a5a00"
    bad = "#f07070" if dark else "#b01818"
    soft = "#9a9a9a" if dark else "#5c5c5c"
    arm = "#d9a0e8" if dark else "#7a2a90"
    return Palette(
        plain=Style(),
        faint=Style(color=soft),
        strong=Style(bold=True),
        heading=Style(color=primary, bold=True),
        baseline=Style(color=primary),
        arm=Style(color=arm),
        flip=Style(reverse=True, bold=True, color=bad),
        after=Style(color=soft, dim=True),
        near_tie=Style(underline=True, color=warn),
        exact_tie=Style(underline=True, bold=True, color=warn),
        forced=Style(italic=True),
        unobserved=Style(color=soft, italic=True),
        cursor=Style(reverse=True),
        row=Style(bold=True, bgcolor="#26405c" if dark else "#cfe0f2"),
        good=Style(color=good),
        warn=Style(color=warn),
        bad=Style(color=bad, bold=True),
        cached=Style(color=good),
        restored=Style(color=arm),
        computed=Style(color=soft),
    )
