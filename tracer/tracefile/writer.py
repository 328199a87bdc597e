"""Writing a trace file: one writer, whole frames, a request's description last."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import filelock
import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from tracer.columns import Alternatives, PathColumns
from tracer.episode import Arm, ArmEnd, Episode, Request
from tracer.errors import TraceFormatError, UsageError
from tracer.tracefile.frames import NO_ARM, NO_REQUEST, Kind, pack_frame, payload_checksum
from tracer.tracefile.payloads import (
    Commit,
    FileHeader,
    as_ids,
    encode,
    encode_alternatives,
    encode_path,
    encode_prompt,
    encode_rows,
    prompt_hash,
)
from tracer.tracefile.prompt_bases import PromptBases
from tracer.tracefile.reader import TraceReader
from tracer.tracefile.scrub import scrub_command, scrub_environment


def writer_name() -> str:
    """What stands in the header of files written here."""
    try:
        return f"cachetrace {version('cachetrace')}"
    except PackageNotFoundError:
        return "cachetrace (not installed)"


class TraceWriter:
    """The one writer of a trace file. Every call leaves whole frames on the disk's side.

    A request is written with one system call and flushed to the operating system, so that a
    killed process loses at most the request that it was writing. ``end_arm`` also asks the disk.
    """

    def __init__(self, path: Path, lock: filelock.BaseFileLock) -> None:
        self.path = path
        self._lock = lock
        self._file: FileIO | None = None
        self._sequence = 0
        self._whole_bytes = 0
        """Length of the file after the last write that succeeded, and the number that follows it:"""
        self._whole_sequence = 0
        self._arms: list[Arm] = []
        self._committed: list[int] = []
        self._ended: list[bool] = []
        self._piece_ids: set[int] = set()
        self._bases = PromptBases()

    @classmethod
    def create(cls, path: Path | str, episode: Episode, *, written_by: str | None = None) -> Self:
        """Start a new file, and its folder. ``UsageError`` when it exists or has another writer.

        ``written_by``: what the header says about the program; None = this cachetrace.
        """
        path = Path(path)
        writer = cls(path, _locked(path))
        try:
            if path.exists():
                raise UsageError(f"{path} exists already; name another file or replay into it.")
            header = FileHeader(writer=written_by or writer_name(), episode=episode)
            # Written beside and renamed: a file under its own name always has a whole header.
            beside = path.with_name(path.name + ".new")
            beside.write_bytes(pack_frame(Kind.HEADER, 0, NO_ARM, NO_REQUEST, encode(header)))
            beside.replace(path)
            writer._start(sequence=1)
        except OSError as error:
            writer.close()
            raise UsageError(f"{path} cannot be written ({error.strerror}).") from error
        except BaseException:
            writer.close()
            raise
        return writer

    @classmethod
    def append(cls, path: Path | str) -> Self:
        """Continue a file: its torn tail is cut off first.

        ``UsageError`` when another writer has it, ``TraceFormatError`` when it is damaged
        anywhere else than at its end.
        """
        path = Path(path)
        if not path.exists():
            raise UsageError(f"{path} does not exist.")
        writer = cls(path, _locked(path))
        try:
            with TraceReader.open(path) as trace:
                damage = [loss for loss in trace.losses if not loss.at_end]
                if damage:
                    raise TraceFormatError(
                        f"{path} is damaged and cannot be continued ({damage[0].sentence}) "
                        "`cachetrace validate` lists all of it."
                    )
                writer._take_over(trace)
                keep = trace.intact_bytes
                sequence = trace.next_sequence
            with path.open("r+b") as file:
                file.truncate(keep)
            writer._start(sequence)
        except OSError as error:
            writer.close()
            raise UsageError(f"{path} cannot be written ({error.strerror}).") from error
        except BaseException:
            writer.close()
            raise
        return writer

    def _start(self, sequence: int) -> None:
        self._file = FileIO(self.path, "ab")
        self._whole_bytes = self.path.stat().st_size
        self._sequence = self._whole_sequence = sequence

    def _take_over(self, trace: TraceReader) -> None:
        self._piece_ids = set(trace.piece_ids)
        for arm in trace.arms:
            requests = trace.requests(arm)
            self._arms.append(arm)
            self._committed.append(len(requests))
            self._ended.append(trace.end(arm) is not None)
            for request in requests:
                ids = trace.prompt_ids(arm, request.index)
                if ids is not None:
                    self._bases.add((arm.index, request.index), ids, prompt_hash(ids))

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms that the file has by now."""
        return tuple(self._arms)

    def begin_arm(self, arm: Arm) -> Arm:
        """Write an arm's description; the answer has its index set and secrets scrubbed."""
        arm = structs.replace(
            arm,
            index=len(self._arms),
            command=None if arm.command is None else scrub_command(arm.command),
            environment=scrub_environment(arm.environment),
        )
        self._write([(Kind.ARM, encode(arm))], arm.index, NO_REQUEST)
        self._arms.append(arm)
        self._committed.append(0)
        self._ended.append(False)
        return arm

    def resume_arm(self, index: int) -> int:
        """Continue an incomplete arm; the answer is how many of its requests are committed."""
        if not 0 <= index < len(self._arms):
            raise UsageError(f"{self.path} has no arm {index}.")
        if self._ended[index]:
            raise UsageError(f"arm {index} of {self.path} has ended; there is nothing to resume.")
        return self._committed[index]

    def write_request(
        self,
        arm: int,
        request: Request,
        *,
        prompt_ids: Sequence[int] | NDArray[Any] | None = None,
        path: PathColumns | None = None,
        alternatives: Alternatives | None = None,
        rows: NDArray[np.float32] | None = None,
        pieces: Mapping[int, bytes] | None = None,
    ) -> Request:
        """Commit one request with its columns, all in one write; the answer is as it was stored.

        ``prompt``, ``prompt_hash`` and ``prompt_tokens`` are set from ``prompt_ids`` and
        ``output_tokens`` from ``path``. Pieces that the file holds already are left out.
        """
        self._expect(arm, request)
        columns: list[tuple[Kind, bytes]] = []
        ids: NDArray[np.int32] | None = None
        if prompt_ids is not None:
            ids = as_ids(prompt_ids)
            ids_hash = prompt_hash(ids)
            source = self._arms[arm].source_arm
            reference, tail = self._bases.choose(arm, request.index, source, ids, ids_hash)
            request = structs.replace(request, prompt=reference, prompt_hash=ids_hash, prompt_tokens=len(ids))
            if len(tail):
                columns.append((Kind.PROMPT, encode_prompt(tail)))
        if path is not None:
            request = structs.replace(request, output_tokens=len(path))
            columns.append((Kind.PATH, encode_path(path)))
        if alternatives is not None:
            columns.append((Kind.ALTERNATIVES, encode_alternatives(alternatives)))
        if rows is not None:
            columns.append((Kind.ROWS, encode_rows(rows)))
        self._write_with_commit(arm, request, columns, pieces or {})
        if ids is not None:
            self._bases.add((arm, request.index), ids, ids_hash)
        self._committed[arm] += 1
        return request

    def end_arm(self, arm: int, end: ArmEnd) -> None:
        """Write an arm's last frame and ask the disk to keep it."""
        if self._ended[arm]:
            raise UsageError(f"arm {arm} of {self.path} has ended already.")
        self._write([(Kind.ARM_END, encode(end))], arm, NO_REQUEST)
        self._ended[arm] = True
        try:
            os.fsync(self._open_file().fileno())
        except OSError as error:
            raise UsageError(f"{self.path} cannot be kept by the disk ({error.strerror}).") from error

    def close(self) -> None:
        """Close the file and let other writers in."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _expect(self, arm: int, request: Request) -> None:
        if not 0 <= arm < len(self._arms) or self._ended[arm]:
            raise ValueError(f"arm {arm} is not open")
        if request.index != self._committed[arm]:
            raise ValueError(f"request {request.index} where request {self._committed[arm]} is next")

    def _write_with_commit(
        self, arm: int, request: Request, columns: list[tuple[Kind, bytes]], pieces: Mapping[int, bytes]
    ) -> None:
        self._sequence = self._whole_sequence  # an earlier call may have failed half way
        frames = bytearray()
        new_pieces = {i: piece for i, piece in pieces.items() if i not in self._piece_ids}
        if new_pieces:
            frames += self._pack(Kind.PIECES, NO_ARM, NO_REQUEST, encode(new_pieces))
        manifest: dict[int, int] = {}
        for kind, payload in columns:
            frame = self._pack(kind, arm, request.index, payload)
            manifest[int(kind)] = payload_checksum(frame)
            frames += frame
        frames += self._pack(
            Kind.REQUEST, arm, request.index, encode(Commit(columns=manifest, request=request))
        )
        self._flush(bytes(frames))
        self._piece_ids |= new_pieces.keys()

    def _write(self, frames: list[tuple[Kind, bytes]], arm: int, request: int) -> None:
        self._sequence = self._whole_sequence
        self._flush(b"".join(self._pack(kind, arm, request, payload) for kind, payload in frames))

    def _pack(self, kind: Kind, arm: int, request: int, payload: bytes) -> bytes:
        frame = pack_frame(kind, self._sequence, arm, request, payload)
        self._sequence += 1
        return frame

    def _flush(self, frames: bytes) -> None:
        file = self._open_file()
        left = memoryview(frames)
        try:
            while left:
                left = left[file.write(left) :]
        except BaseException as error:
            # A torn frame must not stay, also when Ctrl-C came in the middle: the length in its
            # head would swallow what is written next.
            with suppress(OSError):
                file.truncate(self._whole_bytes)
            if isinstance(error, OSError):
                raise UsageError(f"{self.path} cannot be written ({error.strerror}).") from error
            raise
        self._whole_bytes += len(frames)
        self._whole_sequence = self._sequence

    def _open_file(self) -> FileIO:
        if self._file is None:
            raise ValueError("the trace file is closed")
        return self._file


def _locked(path: Path) -> filelock.BaseFileLock:
    lock = filelock.FileLock(str(path) + ".lock", timeout=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except filelock.Timeout:
        raise UsageError(f"{path} is being written by another cachetrace; wait until it is done.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}).") from error
    return lock
