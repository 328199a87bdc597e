"""A pane of ready-made lines, drawn through the line API: no layout when its content changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tracer.clean_text import ELLIPSIS, clean
from tui.palette import Palette, palette_of
from tui.token_text import clipped, without_controls

LONGEST_PARAGRAPH = 2_000
"""Characters."""


class LinesPane(ScrollView, can_focus=True, inherit_bindings=False):
    """Base of the panes whose content is a list of lines.

    It has no bindings of its own: every key goes to the screen, which knows all panes.
    """

    DEFAULT_CSS = """
    LinesPane { scrollbar-size: 0 1; overflow-x: hidden; scrollbar-gutter: stable; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._lines: Sequence[Text] = ()

    @property
    def palette(self) -> Palette:
        return palette_of(self.app)

    @property
    def room(self) -> int:
        """Cells that a line may take without scrolling sideways."""
        return max(self.scrollable_content_region.width, 20)

    @property
    def lines(self) -> Sequence[Text]:
        """What the pane shows now."""
        return self._lines

    def set_lines(
        self, lines: Sequence[Text], *, keep_scroll: bool = False, widest: int | None = None
    ) -> None:
        """Show other lines; ``widest`` in cells saves measuring them all."""
        self._lines = lines
        if widest is None:
            widest = max((line.cell_len for line in lines), default=0)
        size = Size(widest, len(lines))
        if size != self.virtual_size:
            self.virtual_size = size
        if not keep_scroll and self.scroll_offset != (0, 0):
            self.scroll_to(0, 0, animate=False, force=True, immediate=True)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        scroll_x, scroll_y = self.scroll_offset
        width = self.scrollable_content_region.width
        place = y + scroll_y
        if not 0 <= place < len(self._lines):
            return Strip.blank(width, self.rich_style)
        strip = strip_of(self._lines[place])
        return finished(strip, scroll_x, width, self.rich_style)


def strip_of(text: Text) -> Strip:
    """The text as segments; the last place where a control character could still get through."""
    segments = [Segment(without_controls(s.text), s.style) for s in _segments(text)]
    return Strip(segments, sum(cell_len(s.text) for s in segments))


def finished(strip: Strip, scroll_x: int, width: int, base: Style) -> Strip:
    """Cropped to what is visible, padded, on the widget's own background."""
    return strip.crop(scroll_x, scroll_x + width).adjust_cell_length(width).apply_style(base)


def _segments(text: Text) -> list[Segment]:
    """Rich's own rendering of one line, without a console (spans may overlap)."""
    plain = text.plain
    base = text.style if isinstance(text.style, Style) else Style.null()
    if not text.spans:
        return [Segment(plain, base)] if plain else []
    cuts = sorted(
        {0, len(plain), *(s.start for s in text.spans), *(min(s.end, len(plain)) for s in text.spans)}
    )
    found = []
    for start, end in pairwise(cuts):
        style = base
        for span in text.spans:
            if span.start <= start and end <= span.end and isinstance(span.style, Style):
                style += span.style
        found.append(Segment(plain[start:end], style))
    return found


def aligned(text: str, cells: int) -> str:
    """Padded on the right, by cells and not by characters."""
    return text + " " * max(cells - cell_len(text), 0)


def paragraph(text: str, room: int, style: Style, indent: str = "") -> list[Text]:
    """Words wrapped to the room, as lines. Very long text is cut: nobody reads it in a pane."""
    room = max(room - len(indent), 8)
    shown = clean(text[:LONGEST_PARAGRAPH]) + (ELLIPSIS if len(text) > LONGEST_PARAGRAPH else "")
    lines: list[str] = []
    line = ""
    for word in (part for whole in shown.split() for part in _pieces(whole, room)):
        if line and cell_len(line) + 1 + cell_len(word) > room:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        lines.append(line)
    return [Text(indent + line, style=style) for line in lines]


def _pieces(word: str, room: int) -> Iterator[str]:
    """A word that is too long for a line, cut into lines; looks at a bounded part of it at a time."""
    while len(word) > room or cell_len(word) > room:
        part = set_cell_size(word[: 6 * room], room).rstrip()
        yield part
        word = word[max(len(part), 1) :]
    if word:
        yield word


def named_lines(facts: Sequence[tuple[str, str]], room: int, palette: Palette) -> list[Text]:
    """Name and value in two columns; a value that does not fit goes on below its own start."""
    if not facts:
        return []
    names = min(max(cell_len(name) for name, _ in facts), max(room // 2, 8))
    lines = []
    for name, value in facts:
        parts = paragraph(value, room - names - 2, palette.plain) or [Text("")]
        for place, part in enumerate(parts):
            head = aligned(clipped(clean(name), names) if place == 0 else "", names + 2)
            lines.append(Text.assemble((head, palette.faint), part))
    return lines
