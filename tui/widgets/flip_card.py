"""The flip card: all about one flip on one page."""

from __future__ import annotations

from rich.text import Text

from tui.palette import Palette
from tui.view_model import FlipCard
from tui.widgets.lines import LinesPane, named_lines, paragraph


class FlipPane(LinesPane):
    """Sentence, margins, drift, triage, evidence, exposure, and what came of it."""

    _card: FlipCard | None = None

    def show(self, card: FlipCard) -> None:
        self._card = card
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._card is not None and self.size.width:
            self.set_lines(flip_lines(self._card, self.room, self.palette))


def flip_lines(card: FlipCard, room: int, palette: Palette) -> list[Text]:
    """The pane's lines at this width."""
    lines = paragraph(card.title, room, palette.heading)
    lines += paragraph(card.sentence, room, palette.strong)
    lines += paragraph(card.note, room, palette.warn) if card.note else []
    for heading, facts in card.sections:
        lines.append(Text(heading, style=palette.heading))
        lines += named_lines(facts, room, palette)
    return lines
