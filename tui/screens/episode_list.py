"""A folder of traces: one row each, from their headers alone. Enter goes into one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.message import Message
from textual.screen import Screen
from textual.widgets import DataTable
from textual.worker import get_current_worker

from tracer.clean_text import clean
from tracer.errors import CachetraceError
from tracer.tracefile import read_header
from tui.actions import Context
from tui.bindings import bindings_of
from tui.palette import NOT_OBSERVED, Palette, palette_of
from tui.screens.ask import AskScreen
from tui.token_text import line_text
from tui.widgets.key_line import KeyLine
from tui.widgets.status_line import StatusLine

if TYPE_CHECKING:
    from tui.app import TraceApp

FIRST_ROWS = 120
"""Rows of the first paint: more than any screen shows."""
BATCH_ROWS = 200
HEADINGS = ("file", "episode", "workload", "requests", "arms", "recorded (UTC)", "size", "")


class EpisodeTable(DataTable[Text], inherit_bindings=False):
    """A table without keys of its own; a click on the chosen row opens it."""


class EpisodeListScreen(Screen[None]):
    """All traces under a folder."""

    BINDINGS: ClassVar = bindings_of(Context.LIST)
    DEFAULT_CSS = """
    EpisodeListScreen EpisodeTable { height: 1fr; background: $background; scrollbar-size: 0 1; }
    EpisodeTable > .datatable--header { background: $background; color: $primary; text-style: bold; }
    """

    class RowsRead(Message):
        """More headers have been read on their own thread."""

        def __init__(self, rows: list[tuple[Text, ...]]) -> None:
            super().__init__()
            self.rows = rows

    contexts = (Context.LIST, Context.EVERYWHERE)
    is_episode_list = True

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.files = sorted(path for path in folder.rglob("*.msgpack") if path.is_file())
        self._looking_for = ""

    def compose(self) -> ComposeResult:
        yield StatusLine()
        yield EpisodeTable(cursor_type="row", cell_padding=1)
        yield KeyLine(*self.contexts)

    def on_mount(self) -> None:
        table = self.query_one(EpisodeTable)
        palette = palette_of(self.app)
        for heading in HEADINGS:
            table.add_column(Text(heading, style=palette.heading))
        table.add_rows([row_of(self._folder, path, palette) for path in self.files[:FIRST_ROWS]])
        table.focus()
        self._say()
        if len(self.files) > FIRST_ROWS:
            self._read_rest(palette)

    @property
    def chosen(self) -> Path | None:
        """The file under the cursor."""
        row = self.query_one(EpisodeTable).cursor_row
        return self.files[row] if 0 <= row < len(self.files) else None

    @work(thread=True, exclusive=True)
    def _read_rest(self, palette: Palette) -> None:
        """Read the other headers while the first rows can already be used."""
        worker = get_current_worker()
        for start in range(FIRST_ROWS, len(self.files), BATCH_ROWS):
            rows = [row_of(self._folder, path, palette) for path in self.files[start : start + BATCH_ROWS]]
            if worker.is_cancelled:
                return
            self.post_message(self.RowsRead(rows))

    def on_episode_list_screen_rows_read(self, message: RowsRead) -> None:
        self.query_one(EpisodeTable).add_rows(message.rows)

    def _say(self) -> None:
        count = len(self.files)
        right = (
            f"{count} {'trace' if count == 1 else 'traces'}"
            if count
            else "no .msgpack file here; cachetrace record writes one"
        )
        self.query_one(StatusLine).show(clean(str(self._folder)), right, urgent=not count)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        event.stop()
        self.action_open()

    def action_open(self) -> None:
        path = self.chosen
        if path is not None:
            app: TraceApp = self.app  # type: ignore[assignment]  # this screen belongs to that application
            app.open_trace(path)

    def action_up(self) -> None:
        self._move(-1)

    def action_down(self) -> None:
        self._move(1)

    def action_page_up(self) -> None:
        self._move(-max(self.size.height - 4, 1))

    def action_page_down(self) -> None:
        self._move(max(self.size.height - 4, 1))

    def action_first(self) -> None:
        self._move(-len(self.files))

    def action_last(self) -> None:
        self._move(len(self.files))

    def _move(self, step: int) -> None:
        table = self.query_one(EpisodeTable)
        row = min(max(table.cursor_row + step, 0), max(table.row_count - 1, 0))
        table.move_cursor(row=row, animate=False)

    def action_find(self) -> None:
        def answered(text: str | None) -> None:
            if text:
                self._looking_for = text
                self._find(text.casefold())

        self.app.push_screen(AskScreen("find a file", self._looking_for), answered)

    def _find(self, text: str) -> None:
        table = self.query_one(EpisodeTable)
        count = min(table.row_count, len(self.files))
        here = table.cursor_row
        for ahead in range(1, count + 1):
            row = (here + ahead) % count
            if text in str(self.files[row].relative_to(self._folder)).casefold():
                table.move_cursor(row=row, animate=False)
                return
        self.notify("no file with this in its name", severity="warning", markup=False)


def row_of(folder: Path, path: Path, palette: Palette) -> tuple[Text, ...]:
    """One row; a file that is no trace says so in its place."""
    name = Text(line_text(str(path.relative_to(folder)), 48))
    try:
        head = read_header(path)
    except CachetraceError:
        return (name, Text("not a trace", style=palette.bad), *(Text(NOT_OBSERVED) for _ in HEADINGS[2:]))
    states = ", ".join(dict.fromkeys(str(one.arm.state) for one in head.arms))
    requests = max((one.requests for one in head.arms), default=0)
    when = datetime.fromtimestamp(head.episode.created_at, UTC).strftime("%Y-%m-%d %H:%M")
    damaged = Text("damaged", style=palette.warn) if head.damaged or head.torn else Text("")
    return (
        name,
        Text(line_text(head.episode.episode_id, 32)),
        Text(line_text(head.episode.workload.name, 12)),
        Text(str(requests), justify="right"),
        Text(f"{len(head.arms)}: {states}" if states else "0"),
        Text(when),
        Text(_size(head.size_bytes), justify="right"),
        damaged,
    )


def _size(size_bytes: int) -> str:
    if size_bytes < 10_000:
        return f"{size_bytes} B"
    return f"{size_bytes / 1000:.0f} kB" if size_bytes < 10_000_000 else f"{size_bytes / 1e6:.0f} MB"
