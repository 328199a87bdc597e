"""Hostile text on its way to a line of the screen: cleaned by ``tracer.clean_text``, then cut.

``tracer.clean_text`` is the formatting boundary; here are only the lengths that the screen needs.
"""

from __future__ import annotations

import re

from tracer import clean_text

LONGEST_CELLS = 40
"""A longer token is cut: no token may push its neighbours off the line."""
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")


def without_controls(text: str) -> str:
    """The last guard before the terminal: text that was cleaned passes unchanged."""
    return text if text.isascii() and text.isprintable() else _CONTROLS.sub("�", text)


def token_text(piece: bytes | None, token_id: int) -> str:
    """One token with visible spaces and newlines; never empty, at most ``LONGEST_CELLS`` wide."""
    shown = clean_text.token(token_id, piece[: 8 * LONGEST_CELLS] if piece else piece)
    return clean_text.fit(shown, LONGEST_CELLS)


def line_text(text: str, cells: int) -> str:
    """Free text (of a model, a tool, a file name) as one line of at most this many cells."""
    return clean_text.fit(clean_text.clean(text[: 8 * max(cells, 1)]), cells)


def clipped(text: str, cells: int) -> str:
    """Cleaned text of at most this many cells; an ellipsis says that something is missing."""
    return clean_text.fit(text, cells)
