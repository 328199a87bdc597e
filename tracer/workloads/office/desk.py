"""The office's state and its eight tools. Every error is a value that the agent reads."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tracer.workloads.office.calculator import calculate

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_MOST_FILES = 40
_MOST_CHARACTERS = 2000
_MOST_EVENTS = 12
_CALL_MINUTES = 60

FILES = {
    "budget.txt": "venue 1240\ncatering 865\nprinting 312\ntravel 543\n",
    "contacts.txt": "Dana Novak, caterer, ext. 412\nIlir Berisha, printer, ext. 377\n",
    "notes.txt": "Autumn workshop. Ask Dana about the vegetarian menu.\n",
}
EVENTS = (
    ("Monday", "10:00", 60, "supplier call"),
    ("Tuesday", "09:30", 15, "stand-up"),
    ("Tuesday", "11:00", 60, "budget meeting"),
    ("Tuesday", "15:00", 60, "design review"),
    ("Thursday", "14:00", 30, "room inspection"),
)


@dataclass(slots=True)
class Event:
    """One calendar entry."""

    day: str
    start: str
    minutes: int
    title: str


class ToolError(Exception):
    """Why a tool refused; becomes a value before anyone outside sees it."""


@dataclass(slots=True)
class Desk:
    """Files and calendar. Two desks share nothing."""

    files: dict[str, str] = field(default_factory=lambda: dict(FILES))
    events: list[Event] = field(default_factory=lambda: [Event(*each) for each in EVENTS])

    def call(self, tool: Any, arguments: Any) -> tuple[str, bool]:
        """Run one tool; returns one line of JSON and whether it is an error."""
        try:
            return _line({"result": self._run(tool, arguments)}), False
        except ToolError as error:
            return _line({"error": str(error)}), True

    def state_hash(self) -> str:
        """``sha256:<hex>`` of the canonical JSON of the whole state."""
        events = sorted([e.day, e.start, e.minutes, e.title] for e in self.events)
        canonical = json.dumps(
            {"calendar": events, "files": self.files}, sort_keys=True, separators=(",", ":")
        )
        return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()

    def _run(self, tool: Any, arguments: Any) -> str:
        names = TOOLS.get(tool) if isinstance(tool, str) else None
        if names is None:
            raise ToolError(f"there is no such tool; the tools are {', '.join(TOOLS)}")
        if not isinstance(arguments, dict) or set(arguments) != set(names):
            raise ToolError(f"{tool} takes exactly these arguments: {', '.join(names) or 'none'}")
        if not all(isinstance(value, str) for value in arguments.values()):
            raise ToolError("every argument must be a string")
        method: Callable[..., str] = getattr(self, f"_{tool}")
        return method(**arguments)

    def _calc(self, expression: str) -> str:
        try:
            return calculate(expression)
        except ValueError as error:
            raise ToolError(str(error)) from None

    def _list_files(self) -> str:
        return ", ".join(sorted(self.files))

    def _read_file(self, path: str) -> str:
        if path not in self.files:
            raise ToolError("no such file")
        return self.files[path]

    def _write_file(self, path: str, content: str) -> str:
        if not _PATH.fullmatch(path):
            raise ToolError("a file name has letters, digits, dots, dashes and underscores only")
        if path not in self.files and len(self.files) >= _MOST_FILES:
            raise ToolError("the folder is full")
        if len(content) > _MOST_CHARACTERS:
            raise ToolError(f"a file holds at most {_MOST_CHARACTERS} characters")
        self.files[path] = content
        return f"wrote {len(content)} characters to {path}"

    def _append_file(self, path: str, content: str) -> str:
        before = self._read_file(path)
        joint = "" if not before or before.endswith("\n") else "\n"
        self._write_file(path, f"{before}{joint}{content}")
        return f"appended {len(content)} characters to {path}"

    def _list_events(self, day: str) -> str:
        entries = [f"{e.start} {e.title} ({e.minutes} min)" for e in self._on(day)]
        return "; ".join(entries) or "no events"

    def _add_event(self, day: str, time: str, title: str) -> str:
        if not title or len(title) > 80:
            raise ToolError("a title has 1 to 80 characters")
        if len(self._on(day)) >= _MOST_EVENTS:
            raise ToolError(f"{day} is full")
        self._refuse_clash(day, time, _CALL_MINUTES, None)
        self.events.append(Event(day, time, _CALL_MINUTES, title))
        return f"booked {title} on {day} at {time}"

    def _move_event(self, day: str, title: str, time: str) -> str:
        event = next((e for e in self._on(day) if e.title == title), None)
        if event is None:
            raise ToolError(f"there is no event of that title on {day}")
        self._refuse_clash(day, time, event.minutes, event)
        event.start = time
        return f"moved {title} on {day} to {time}"

    def _on(self, day: str) -> list[Event]:
        if day not in DAYS:
            raise ToolError(f"the days are {', '.join(DAYS)}")
        return sorted((e for e in self.events if e.day == day), key=lambda e: (e.start, e.title))

    def _refuse_clash(self, day: str, time: str, minutes: int, moved: Event | None) -> None:
        start = _minute(time)
        for event in self._on(day):
            other = _minute(event.start)
            if event is not moved and start < other + event.minutes and other < start + minutes:
                raise ToolError(f"{time} clashes with {event.title} ({event.start}, {event.minutes} min)")


TOOLS: dict[str, tuple[str, ...]] = {
    "calc": ("expression",),
    "list_files": (),
    "read_file": ("path",),
    "write_file": ("path", "content"),
    "append_file": ("path", "content"),
    "list_events": ("day",),
    "add_event": ("day", "time", "title"),
    "move_event": ("day", "title", "time"),
}
"""Tool → its arguments, all strings, all required."""


def _minute(time: str) -> int:
    match = _CLOCK.fullmatch(time)
    if match is None:
        raise ToolError("a time is written HH:MM")
    return int(match.group(1)) * 60 + int(match.group(2))


def _line(value: dict[str, str]) -> str:
    return json.dumps(value, ensure_ascii=False)
