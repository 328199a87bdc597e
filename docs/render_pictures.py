"""Render the pictures of README and docs from the real application and a recorded trace.

    python docs/render_pictures.py [TRACE] [--out docs/pictures]

Without TRACE it takes the demo trace of the fixtures. The pictures are SVG as the application saves
them with the key s; nothing is drawn by hand.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HOME))
os.environ["TEXTUAL_ANIMATIONS"] = "none"

PICTURES: tuple[tuple[str, tuple[int, int], str, tuple[str, ...]], ...] = (
    ("screen", (160, 44), "textual-dark", ()),
    ("screen-light", (120, 36), "textual-light", ()),
    ("narrow-tokens", (80, 24), "textual-dark", ("2",)),
    ("narrow-flip", (80, 24), "textual-dark", ("4",)),
    ("cache", (100, 24), "textual-dark", ("6",)),
    ("prompt", (100, 24), "textual-dark", ("p",)),
)
"""Name, columns and rows, theme, keys that lead there."""


async def render(trace: Path, out: Path) -> None:
    """Write every picture."""
    from tui.app import TraceApp
    from tui.screens.trace import TraceScreen
    from tui.take_away import picture_of

    out.mkdir(parents=True, exist_ok=True)
    for name, size, theme, keys in PICTURES:
        app = TraceApp(trace, theme=theme, out=out)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            screen = app.screen
            while isinstance(screen, TraceScreen) and not screen.rates_known:
                await asyncio.sleep(0.05)
            await pilot.press(*keys) if keys else None
            await pilot.pause()
            (out / f"{name}.svg").write_text(picture_of(app, "cachetrace"), encoding="utf-8")
        print(out / f"{name}.svg")  # noqa: T201  # what a script says


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--out", type=Path, default=HOME / "docs" / "pictures")
    asked = parser.parse_args()
    shipped = sorted((HOME / "fixtures").glob("demo-*.msgpack"))
    source = asked.trace or (shipped[0] if shipped else None)
    if source is None:
        sys.exit("There is no fixtures/demo-*.msgpack; give a trace.")
    with tempfile.TemporaryDirectory() as folder:
        # A plain name, since commands on the screen show it; and a copy, since fixtures are not written to.
        trace = Path(folder) / "episode.msgpack"
        shutil.copyfile(source, trace)
        asyncio.run(render(trace, asked.out))


if __name__ == "__main__":
    main()
