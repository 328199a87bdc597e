"""Where in a TOML text a key stands, for messages that a person can act on."""

from __future__ import annotations

import re

TomlPlace = tuple[str | int, ...]
"""Keys and numbers from the outside in, such as ``("arms", 0, "states", 1)``."""

_TABLE = re.compile(r"^\s*(?P<open>\[\[?)\s*(?P<name>[^\]]+?)\s*\]")
_KEY = re.compile(r"^\s*(?P<name>[A-Za-z0-9_-]+|\"[^\"]*\")\s*=")


def place_of(text: str, place: TomlPlace) -> str:
    """``line 12, arms[0].states[1]``; the nearest line that is there when the key itself is not."""
    named = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    line = None
    for end in range(len(place), 0, -1):
        line = _line_of(text, place[:end])
        if line is not None:
            break
    words = [f"line {line}"] if line is not None else []
    return ", ".join([*words, named or "at the top level"])


def _line_of(text: str, place: TomlPlace) -> int | None:
    wanted = tuple(part for part in place)
    table: TomlPlace = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        opened = _TABLE.match(line)
        if opened:
            name = opened["name"]
            table = (name,)
            if opened["open"] == "[[":
                table = (name, counts.get(name, 0))
                counts[name] = counts.get(name, 0) + 1
            if table == wanted:
                return number
            continue
        key = _KEY.match(line)
        if key and (*table, key["name"].strip('"')) == wanted:
            return number
    return None
