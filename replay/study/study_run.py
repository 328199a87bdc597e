"""Run the cells of a study one after the other, each in a process of its own; any of it again later."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout
from msgspec import Struct
from msgspec.structs import replace

from replay.study.cell_record import LOCK_FILE, CellRecord, CellStatus, read_record, write_record
from replay.study.cells import Cell
from replay.study.child_process import CellOrder, CellReply, run_in_child
from replay.study.manifest import write_manifest
from replay.study.study_file import Study
from tracer.errors import EngineError, UsageError
from tracer.output_folder import make_folder
from tracer.progress import ArmProgress, time_left


class CellState(Struct, frozen=True, kw_only=True):
    """One line of ``study status``."""

    cell_id: str
    status: CellStatus
    episodes: int | None = None
    traces: int = 0
    """Trace files that are there."""
    too_long: int = 0
    """Episodes that grew out of the context."""
    elapsed_s: float | None = None
    reason: str | None = None


class StudyRun:
    """A study in its folder."""

    def __init__(self, study: Study, cells: Sequence[Cell], folder: Path, progress: ArmProgress) -> None:
        self._study = study
        self._cells = cells
        self._folder = folder
        self._progress = progress

    def run(self, chosen: Sequence[Cell], *, quiet: bool = False, command: str | None = None) -> None:
        """Run what is left of these cells. A cell that fails does not stop the rest.

        Raises ``EngineError`` in the end if any failed, and ``UsageError`` before the first one if
        the folder belongs to another study.
        """
        left = [cell for cell in chosen if not self._is_done(cell)]
        if len(left) < len(chosen):
            self._progress.note(f"{len(chosen) - len(left)} of {len(chosen)} cells are done already.")
        started = time.monotonic()
        failed: list[str] = []
        for number, cell in enumerate(left):
            more = time_left(number, len(left), time.monotonic() - started)
            self._progress.note(f"cell {number + 1} of {len(left)}: {cell.cell_id}{more}")
            where = str(self._folder.resolve())
            order = CellOrder(cell=cell, study_folder=where, quiet=quiet, command=command)
            record = self._one(cell, order)
            if record.status is not CellStatus.DONE:
                failed.append(f"{cell.cell_id}: {record.reason}")
                self._progress.note(f"{cell.cell_id} {record.status}: {record.reason}")
        write_manifest(self._study, self._cells, self._folder)
        if failed:
            raise EngineError(
                f"{len(failed)} of {len(chosen)} cells did not finish; the first: {failed[0]}. "
                "Run the same command again to try them once more."
            )

    def states(self) -> list[CellState]:
        """How far every cell is."""
        return [self._state(cell) for cell in self._cells]

    def _is_done(self, cell: Cell) -> bool:
        record = read_record(cell, self._folder)
        return record is not None and record.status is CellStatus.DONE

    def _one(self, cell: Cell, order: CellOrder) -> CellRecord:
        started, clock = time.time(), time.monotonic()
        begun = CellRecord(cell=cell, status=CellStatus.RUNNING, started_at=started)
        lock = self._lock(cell)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return replace(begun, reason="another process is running it")
        except OSError as error:
            raise UsageError(
                f"{lock.lock_file} cannot be written ({error.strerror}); give another folder with -o."
            ) from error
        try:
            write_record(begun, self._folder)
            reply = run_in_child(order)
            record = _with_reply(begun, reply, time.monotonic() - clock)
            write_record(record, self._folder)
            return record
        except KeyboardInterrupt:
            stopped = replace(begun, status=CellStatus.INTERRUPTED, reason="stopped by the user")
            write_record(stopped, self._folder)
            self._progress.note(f"{cell.cell_id} stopped; run the same command again to take it up.")
            raise
        finally:
            lock.release()

    def _lock(self, cell: Cell) -> FileLock:
        folder = self._folder / cell.cell_id
        make_folder(folder)
        return FileLock(folder / LOCK_FILE)

    def _state(self, cell: Cell) -> CellState:
        record = read_record(cell, self._folder)
        if record is None:
            return CellState(cell_id=cell.cell_id, status=CellStatus.PENDING)
        status, reason = record.status, record.reason
        if status is CellStatus.RUNNING and self._is_free(cell):
            status, reason = CellStatus.INTERRUPTED, "its process is gone"
        return CellState(
            cell_id=cell.cell_id,
            status=status,
            episodes=record.episodes,
            traces=len(list((self._folder / cell.cell_id).glob("*.msgpack"))),
            too_long=len(record.too_long),
            elapsed_s=record.elapsed_s,
            reason=reason,
        )

    def _is_free(self, cell: Cell) -> bool:
        lock = self._lock(cell)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return False
        lock.release()
        return True


def _with_reply(begun: CellRecord, reply: CellReply, elapsed_s: float) -> CellRecord:
    reason = reply.reason
    if reason is None and reply.failed:
        more = f" (and {len(reply.failed) - 1} more)" if len(reply.failed) > 1 else ""
        reason = f"{reply.failed[0]}{more}"
    return replace(
        begun,
        status=CellStatus.DONE if reason is None else CellStatus.FAILED,
        elapsed_s=elapsed_s,
        episodes=reply.episodes if reply.reason is None else None,
        failed=reply.failed,
        too_long=reply.too_long,
        reason=reason,
    )
