"""The benchmark's episodes, read straight from the wheel. Nothing of the package is imported here."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_EPISODES = "bfcl_eval/data/BFCL_v4_multi_turn_base.json"
_ANSWERS = "bfcl_eval/data/possible_answer/BFCL_v4_multi_turn_base.json"
_FUNCTION_DOCS = "bfcl_eval/data/multi_turn_func_doc/"
PAPER_EPISODES = 80
CPU8_EPISODES = 8
FILE_SYSTEM = "GorillaFileSystem"


@dataclass(frozen=True, slots=True)
class Entry:
    """One episode of the benchmark as its files have it."""

    entry: dict[str, Any]
    ground_truth: list[list[str]]
    """Calls of each turn, as source text."""

    @property
    def episode_id(self) -> str:
        return str(self.entry["id"])

    @property
    def number(self) -> int:
        return number_of(self.episode_id)

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.entry["involved_classes"])


def number_of(episode_id: str) -> int:
    """The benchmark's number: ids sort by it, since as strings 10 comes before 2."""
    return int(episode_id.rsplit("_", 1)[1])


def read_entries(wheel: Path) -> list[Entry]:
    """All 200 episodes by ascending number."""
    with zipfile.ZipFile(wheel) as archive:
        episodes = _json_lines(archive, _EPISODES)
        answers = {line["id"]: line["ground_truth"] for line in _json_lines(archive, _ANSWERS)}
    entries = [Entry(entry=line, ground_truth=answers[line["id"]]) for line in episodes]
    return sorted(entries, key=lambda entry: entry.number)


def read_entry(wheel: Path, episode_id: str) -> Entry:
    """One episode by its id; raises KeyError when there is none."""
    for entry in read_entries(wheel):
        if entry.episode_id == episode_id:
            return entry
    raise KeyError(episode_id)


def read_function_docs(wheel: Path, file_names: list[str]) -> list[dict[str, Any]]:
    """The function descriptions of an episode's classes, in the order of the classes."""
    with zipfile.ZipFile(wheel) as archive:
        return [doc for name in file_names for doc in _json_lines(archive, _FUNCTION_DOCS + name)]


def file_system_episodes(entries: list[Entry]) -> list[Entry]:
    """Those that use the file system only: they fit into 6,144 tokens of context."""
    return [entry for entry in entries if set(entry.classes) == {FILE_SYSTEM}]


def _json_lines(archive: zipfile.ZipFile, name: str) -> list[dict[str, Any]]:
    with archive.open(name) as stream:
        return [json.loads(line) for line in stream if line.strip()]
