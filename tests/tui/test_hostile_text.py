"""5,000 hostile tokens and texts through every pane: no exception, no control byte, no line too long."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import numpy as np
import pytest
from rich.cells import cell_len
from rich.text import Text
from textual.strip import Strip

from replay.verdicts import Verdict
from tests.synthetic import ArmSpec, write_trace
from tui.app import TraceApp
from tui.palette import Palette, palette_of
from tui.screens.advice import advice_lines
from tui.screens.trace import TraceScreen
from tui.stream_layout import StreamLayout
from tui.token_text import LONGEST_CELLS, line_text, token_text
from tui.view_model import (
    Advice,
    ArmCell,
    ArmName,
    DriftView,
    Filter,
    FlipCard,
    RequestRow,
    RequestsView,
    StreamRequest,
    TopKRow,
    TopKView,
)
from tui.widgets.drift import drift_lines
from tui.widgets.flip_card import flip_lines
from tui.widgets.lines import strip_of
from tui.widgets.requests import columns_for, row_segments
from tui.widgets.tokens import TokensPane
from tui.widgets.top_k import top_k_lines

CASES = 5000
ROOM = 60
FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
PARTS: tuple[bytes, ...] = (
    b"[/INST]",
    b"[/]",
    b"[bold red]",
    b"[@click=app.quit]x[/]",
    b"\x1b[31m",
    b"\x1b]8;;http://example.invalid\x07",
    b"\x1b]52;c;eA==\x07",
    b"\x1bP$q\x1b\\",
    b"\x9b31m",
    "\x85\x9c\x90".encode(),
    b"\r\n\x00\x07\x08\x7f",
    "\u202e\u2066\u2069\u200f\u061c".encode(),
    "a\u200db\u200c\u2060\ufeff".encode(),
    "\U0001f468\u200d\U0001f469\u200d\U0001f467".encode(),
    "表\u3000計".encode(),
    ("e" + "\u0301" * 40).encode(),
    b"\xf0\x9f\x98",
    b"\xff\xfe\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbf\xbd",
    "Ġhello▁world".encode(),
    b"<0xE2>",
    b"token_id:262",
    b"\\xf0\\x9f",
    b"=HYPERLINK(1)",
    b"",
    b" ",
    b"\t",
    "\U000e0041\ufe0f\u115f".encode(),
    b"x" * 10_000,
    "界".encode() * 5_000,
)
NUMBERS = (0.0, -0.0, 1.5, -3.4028235e38, -9999.0, math.inf, -math.inf, math.nan, 1e-45, None)


def pieces(count: int, seed: int = 7) -> list[bytes]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        chosen = rng.integers(0, len(PARTS), rng.integers(1, 4))
        noise = rng.integers(0, 256, rng.integers(0, 4)).astype(np.uint8).tobytes()
        found.append(b"".join(PARTS[i] for i in chosen) + noise)
    return found


def check(lines: Iterable[Text | Strip], room: int = ROOM) -> None:
    for line in lines:
        strip = line if isinstance(line, Strip) else strip_of(line)
        text = "".join(segment.text for segment in strip)
        assert not FORBIDDEN.search(text), repr(text)
        assert cell_len(text) <= room, repr(text)


@pytest.fixture(scope="module")
def palette() -> Palette:
    import asyncio

    from textual.app import App

    async def made() -> Palette:
        app: App[None] = App()
        async with app.run_test():
            return palette_of(app)

    return asyncio.run(made())


def test_tokens_and_lines() -> None:
    for number, piece in enumerate(pieces(CASES)):
        shown = token_text(piece, number)
        assert shown
        assert not FORBIDDEN.search(shown), repr(shown)
        assert 0 < cell_len(shown) <= LONGEST_CELLS
        line = line_text(piece.decode("utf-8", "replace"), ROOM)
        assert not FORBIDDEN.search(line), repr(line)
        assert cell_len(line) <= ROOM


def test_top_k(palette: Palette) -> None:
    rng = np.random.default_rng(1)
    made = pieces(CASES, 2)
    for start in range(0, CASES, 20):
        rows = []
        for number, piece in enumerate(made[start : start + 20]):
            a, b, change = (NUMBERS[i] for i in rng.integers(0, len(NUMBERS), 3))
            rows.append(TopKRow(number, token_text(piece, number), a, b, change, number == 0, number == 1))
        words = made[start].decode("utf-8", "replace")
        view = TopKView(0, 0, "cold", "warm", tuple(rows), "logit", ((words, words),), words, words)
        check(top_k_lines(view, ROOM, palette))


def test_flip_card_advice_and_requests(palette: Palette) -> None:
    for number, piece in enumerate(pieces(CASES, 3)):
        words = piece.decode("utf-8", "surrogateescape")[: 12_000 if number % 500 == 0 else 200]
        if number % 5 == 0:
            check(flip_lines(FlipCard(words, words, (("s", ((words, words),)),), words), ROOM, palette))
            check(advice_lines(Advice("t", (words,), (words,)), ROOM, palette, may_go_on=True))
        cell = ArmCell(0, Verdict.FLIPPED, None, None)
        row = RequestRow(number, 0, 0, words, None, (cell,), Verdict.FLIPPED, 3, math.inf)
        view = RequestsView((ArmName(0, "cold", baseline=True),), (row,), Filter.ALL, 1)
        columns = columns_for(view, ROOM)
        check([Strip(row_segments(row, columns, palette))])


class OneStream:
    """Tokens of one request, each with its own hostile piece."""

    label_a = "cold"
    label_b = "warm"

    def __init__(self, made: list[bytes]) -> None:
        self._made = made
        ids = np.arange(len(made), dtype=np.int32)
        words = made[0].decode("utf-8", "replace")
        self.requests = (
            StreamRequest(0, words, ids, ids[::-1].copy(), Verdict.FLIPPED, 3, (words,), (words[::-1],)),
        )
        self._marks = np.random.default_rng(len(made)).integers(0, 64, len(made)).astype(np.uint8)

    def marks(self, request: int):
        return self._marks

    def text(self, token_id: int) -> str:
        return token_text(self._made[token_id], token_id)


async def test_the_token_stream(palette: Palette, flipped) -> None:
    app = TraceApp(flipped)
    async with app.run_test(size=(200, 60)):
        pane = app.screen.query_one(TokensPane)
        made = pieces(CASES, 4)
        for start in range(0, CASES, 500):
            pane.show(OneStream(made[start : start + 500]), 0, start % 500, ids=bool(start % 1000))
            layout = pane._layout_of
            assert isinstance(layout, StreamLayout)
            for y in range(layout.height):
                line = layout.line(y)
                assert line is not None
                check([Strip(pane._segments(line, palette))], pane.room + 1)


@pytest.mark.parametrize("fill", [math.nan, math.inf, 0.0, 1e-300, -1.0])
def test_drift_of_strange_numbers(palette: Palette, fill: float) -> None:
    rng = np.random.default_rng(3)
    for n in (0, 1, 2, 57, 500):
        drift = np.where(rng.random(n) < 0.5, fill, rng.random(n))
        margin = np.where(rng.random(n) < 0.5, rng.random(n) * 10, fill)
        view = DriftView(0, drift, margin, n // 2 if n else None, n // 3, "cold", "warm")
        for room in (20, 38, ROOM):
            check(drift_lines(view, room, 10, palette), max(room, 40))


async def test_a_hostile_trace_on_the_screen(tmp_path) -> None:
    """The whole application on a trace of hostile pieces, with its frames as a terminal gets them."""
    path = tmp_path / "hostile.msgpack"
    arms = [ArmSpec(), ArmSpec(state="warm", drift=1e-2, flips={1: 4})]
    hostile_id = "[/INST]\x1b[31m\u202e"
    write_trace(path, requests=3, tokens=24, arms=arms, hostile_pieces=True, episode_id=hostile_id)
    app = TraceApp(path, out=tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert isinstance(app.screen, TraceScreen)
        await pilot.press("n", "p", "escape", "y", "e", "x", "x")
        await pilot.pause()
        for strip in app.screen._compositor.render_strips():
            assert not FORBIDDEN.search(strip.text), repr(strip.text)
        assert not FORBIDDEN.search(app.clipboard)
        for report in tmp_path.glob("*.md"):
            assert not FORBIDDEN.search(report.read_text(encoding="utf-8").replace("\n", ""))
