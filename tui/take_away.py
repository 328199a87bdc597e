"""What the user takes away: copied text, pictures, a bug report of a flip."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.clean_text import clean
from tracer.errors import NothingToCompute
from tui.trace_model import TraceModel
from tui.view_model import Cursor
from tui.views.top_k import top_k_view

if TYPE_CHECKING:
    from typing import Any

    from textual.app import App

_REMOTE_FONT = re.compile(r"@font-face\s*\{[^}]*\}\s*")


def copied_text(model: TraceModel, cursor: Cursor) -> str:
    """The sentence at a flip, else the token under the cursor in both arms. Cleaned."""
    view = top_k_view(model, cursor)
    if view.sentence:
        return clean(view.sentence)
    chosen = [row for row in view.rows if row.chosen_a or row.chosen_b]
    facts = ", ".join(f"{name} {value}" for name, value in view.facts)
    tokens = " / ".join(f"{clean(row.text)} ({row.token_id})" for row in chosen)
    return f"request {view.request} token {view.position}: {tokens or 'no token'}; {facts}"


def picture_name(model: TraceModel | None, cursor: Cursor | None, folder: Path) -> Path:
    """A file name that does not exist yet, made of plain letters."""
    if model is None or cursor is None:
        return free_name(folder, "cachetrace", ".svg")
    return free_name(folder, f"cachetrace-{_plain(model)}-r{cursor.request}-t{cursor.position}", ".svg")


def picture_of(app: App[Any], title: str | None = None) -> str:
    """The screen as SVG that fetches nothing: Textual's own names a font on a server."""
    return _REMOTE_FONT.sub("", app.export_screenshot(title=title))


def free_name(folder: Path, stem: str, suffix: str) -> Path:
    """The stem, or the stem with the first number that is free."""
    path = folder / f"{stem}{suffix}"
    number = 2
    while path.exists():
        path = folder / f"{stem}-{number}{suffix}"
        number += 1
    return path


def write_flip_report(model: TraceModel, cursor: Cursor, folder: Path) -> Path:
    """The flip of the request under the cursor as a Markdown bug report; says so when there is none."""
    from replay.flip_report import flip_report

    pair = model.pair(cursor)
    verdict = pair.verdicts.get(cursor.request)
    if pair.b is None or verdict is None or verdict.flip is None:
        raise NothingToCompute("There is no flip in this request; n goes to the next one.")
    text = flip_report(model.trace, model.file, pair.a, pair.b, verdict)
    path = free_name(folder, f"flip-{_plain(model)}-r{cursor.request}-t{verdict.flip.position}", ".md")
    path.write_text(text, encoding="utf-8")
    return path


def _plain(model: TraceModel) -> str:
    """The episode's name without anything that a shell or a file system could trip over."""
    return re.sub(r"[^A-Za-z0-9]+", "-", model.trace.episode.episode_id)[:40].strip("-") or "trace"
