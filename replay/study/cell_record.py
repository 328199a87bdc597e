"""How far each cell of a study is, kept beside its traces as ``cell.json``."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from replay.study.cells import Cell
from tracer.errors import UsageError
from tracer.output_folder import make_folder

RECORD_FILE = "cell.json"
LOCK_FILE = ".cell.lock"


class CellStatus(StrEnum):
    """How far a cell is."""

    PENDING = "pending"
    RUNNING = "running"
    """Being run, or its process was killed: ``study status`` asks the lock."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DONE = "done"


class CellRecord(Struct, frozen=True, kw_only=True):
    """What ``cell.json`` holds."""

    cell: Cell
    status: CellStatus
    started_at: float
    elapsed_s: float | None = None
    episodes: int | None = None
    failed: tuple[str, ...] = ()
    too_long: tuple[str, ...] = ()
    """Episodes whose prompts grew out of the context; they have no rates."""
    reason: str | None = None


def read_record(cell: Cell, study_folder: Path) -> CellRecord | None:
    """The record of a cell; None before its first run.

    Raises ``UsageError`` when the folder holds a cell of this name from another study file, or over other
    data: its files must not be mixed with new ones.
    """
    path = study_folder / cell.cell_id / RECORD_FILE
    try:
        record = msgspec.json.decode(path.read_bytes(), type=CellRecord)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise UsageError(
            f"{study_folder} cannot be the study's folder: a file is in the way; give another one with -o."
        ) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{path} cannot be read ({error}); move the folder {path.parent} away.") from error
    if _differ_by_their_data(record.cell, cell):
        raise UsageError(
            f"{path.parent} was run on other data: the sha256 of {cell.workload.file} was "
            f"{record.cell.data_sha256 or 'not kept'} and is {cell.data_sha256}; put the file back, give "
            "another folder with -o, or move that one away."
        )
    if record.cell.fingerprint != cell.fingerprint:
        raise UsageError(
            f"{path.parent} was run from a study file that said something else about this cell; give another "
            "folder with -o, or move that one away."
        )
    return record


def _differ_by_their_data(before: Cell, now: Cell) -> bool:
    same_data = msgspec.structs.replace(before, data_sha256=now.data_sha256)
    return before.data_sha256 != now.data_sha256 and same_data.fingerprint == now.fingerprint


def write_record(record: CellRecord, study_folder: Path) -> None:
    """Replace the record in one step."""
    folder = study_folder / record.cell.cell_id
    make_folder(folder)
    half = folder / f".{RECORD_FILE}.{os.getpid()}"
    half.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1))
    half.replace(folder / RECORD_FILE)
