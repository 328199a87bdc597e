"""The arms: what each one is, whether it may count, and the rates as the report gives them."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from tui.palette import NOT_OBSERVED, Palette
from tui.token_text import line_text, without_controls
from tui.view_model import ArmsView
from tui.widgets.lines import LinesPane, aligned, paragraph


class ArmsPane(LinesPane):
    """Arms and rates."""

    _view: ArmsView | None = None

    def show(self, view: ArmsView) -> None:
        self._view = view
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._view is not None and self.size.width:
            self.set_lines(arms_lines(self._view, self.room, self.palette))


def arms_lines(view: ArmsView, room: int, palette: Palette) -> list[Text]:
    """The pane's lines at this width."""
    lines: list[Text] = []
    if view.rates:
        lines += _rates(view.rates, room, palette)
    for note in view.notes:
        lines += paragraph(note, room, palette.faint)
    names = max((cell_len(arm.name.label) for arm in view.arms), default=0)
    for arm in view.arms:
        sign = "▀" if arm.name.baseline else "▄" if arm.name.chosen else " "
        style = palette.baseline if arm.name.baseline else palette.arm if arm.name.chosen else palette.plain
        line = Text.assemble((f"{sign}{arm.name.index:>2} {aligned(arm.name.label, names)} ", style))
        word = str(arm.status) if arm.status is not None else NOT_OBSERVED
        line.append(word, style=palette.good if word == "verified" else palette.warn)
        facts = ""
        if arm.facts:
            facts = line_text(" · ".join(arm.facts), 200)
            if cell_len(line.plain) + 2 + cell_len(facts) <= room:
                line.append("  " + facts, style=palette.faint)
                facts = ""
        lines.append(line)
        lines += paragraph(facts, room, palette.faint, indent="    ")
        if arm.reason:
            lines += paragraph(arm.reason, room, palette.warn, indent="    ")
    return lines


def _rates(rates: tuple[tuple[str, ...], ...], room: int, palette: Palette) -> list[Text]:
    """The table where it fits, else one block for each row."""
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rates, strict=True)]
    if sum(widths) + 2 * (len(widths) - 1) > room:
        return _blocks(rates, room, palette)
    lines = []
    for place, row in enumerate(rates):
        cells = [aligned(without_controls(cell), width) for cell, width in zip(row, widths, strict=True)]
        lines.append(Text("  ".join(cells), style=palette.heading if place == 0 else palette.plain))
    return lines


def _blocks(rates: tuple[tuple[str, ...], ...], room: int, palette: Palette) -> list[Text]:
    lines: list[Text] = []
    for row in rates[1:]:
        lines.append(Text(line_text(row[0], room), style=palette.heading))
        facts = ", ".join(f"{name} {value}" for name, value in zip(rates[0][1:], row[1:], strict=True))
        lines += paragraph(facts, room, palette.plain, indent="  ")
    return lines
