"""Reading a trace file: one pass over the frames' heads and descriptions, columns on demand."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracer.columns import Alternatives, PathColumns, empty_path
from tracer.episode import Arm, ArmEnd, Episode, Request
from tracer.errors import TraceFormatError
from tracer.tracefile.arm_index import LOST, ArmIndex
from tracer.tracefile.file_index import FileIndex
from tracer.tracefile.file_window import FileWindow
from tracer.tracefile.frames import Frame, Kind
from tracer.tracefile.losses import Loss, LossKind
from tracer.tracefile.payloads import (
    decode_alternatives,
    decode_path,
    decode_prompt,
    decode_rows,
    prompt_hash,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
_PROMPT_CACHE_TOKENS = 4_000_000


class TraceReader:
    """A trace file opened for reading. Arms are named by index or by their ``Arm``.

    Position i of ``requests(arm)`` is always request i: where one cannot be read, a request
    with ``error.kind == "lost"`` stands in its place and ``losses`` says why. A column that
    cannot be read is None, as if not observed, and a loss names it. Only opening, and files
    that contradict themselves, raise ``TraceFormatError``.
    """

    def __init__(self, path: Path, window: FileWindow, index: FileIndex) -> None:
        self.path_of_file = path
        self._window = window
        self._index = index
        self._prompts: dict[tuple[int, int], NDArray[np.int32] | None] = {}
        self._prompt_tokens_held = 0
        self._column_losses: dict[tuple[int, int, int], Loss] = {}

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Index the file; ``TraceFormatError`` when it is no trace or its header is damaged."""
        path = Path(path)
        window = FileWindow(path)
        try:
            return cls(path, window, FileIndex.build(path, window))
        except BaseException:
            window.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._window.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def episode(self) -> Episode:
        return self._index.header.episode

    @property
    def format_version(self) -> int:
        return self._index.header.format

    @property
    def writer(self) -> str:
        """Name and version of the program that created the file."""
        return self._index.header.writer

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All arms; position i holds arm i."""
        return self._index.arms()

    @property
    def losses(self) -> tuple[Loss, ...]:
        """All that could not be read, as far as it is known by now (``check`` reads everything)."""
        return (*self._index.losses(), *self._column_losses.values())

    @property
    def intact_bytes(self) -> int:
        """Length of the file without a torn tail and without columns that have no commit."""
        return self._index.intact_bytes

    @property
    def next_sequence(self) -> int:
        """Sequence number of the frame that would follow ``intact_bytes``."""
        return self._index.sequence_at_intact

    @property
    def piece_ids(self) -> frozenset[int]:
        """Token ids whose bytes the file holds."""
        return frozenset(self._index.pieces)

    def requests(self, arm: Arm | int) -> tuple[Request, ...]:
        """The committed requests of an arm, in order."""
        return self._arm(arm).requests()

    def end(self, arm: Arm | int) -> ArmEnd | None:
        """How the arm ended; None = incomplete."""
        return self._arm(arm).end

    def piece(self, token_id: int) -> bytes | None:
        """The token's bytes; None when the file does not hold them."""
        return self._index.pieces.get(token_id)

    def commit_order(self, arm: Arm | int, request: int) -> int:
        """Sequence number of the request's commit: a prompt's base must have a smaller one."""
        return self._arm(arm).commit_sequence[request]

    def path(self, arm: Arm | int, request: int) -> PathColumns:
        """The chosen path of a request; empty when it has none or it is lost."""
        found = self._column(arm, request, Kind.PATH, decode_path)
        if found is None:
            return empty_path()
        tokens = self._request(arm, request).output_tokens
        if len(found) != tokens:
            self._lose(arm, request, Kind.PATH, f"has {len(found)} positions where {tokens} are described")
            return empty_path()
        return found

    def alternatives(self, arm: Arm | int, request: int) -> Alternatives | None:
        """The top-k of a request; None when not observed or lost."""
        found = self._column(arm, request, Kind.ALTERNATIVES, decode_alternatives)
        if found is None:
            return None
        tokens = self._request(arm, request).output_tokens
        if len(found.counts) != tokens or (tokens and int(found.counts.max()) > found.k):
            self._lose(arm, request, Kind.ALTERNATIVES, "do not fit the request's description")
            return None
        return found

    def rows(self, arm: Arm | int, request: int) -> NDArray[np.float32] | None:
        """Whole rows, float32[n, vocabulary]; None when not stored or lost."""
        found = self._column(arm, request, Kind.ROWS, decode_rows)
        if found is not None and len(found) != self._request(arm, request).output_tokens:
            self._lose(arm, request, Kind.ROWS, "do not fit the request's description")
            return None
        return found

    def has_path(self, arm: Arm | int, request: int) -> bool:
        """Whether a path was stored."""
        return Kind.PATH in self._arm(arm).manifests.get(request, {})

    def has_alternatives(self, arm: Arm | int, request: int) -> bool:
        """Whether alternatives were stored; their payload is not read."""
        return Kind.ALTERNATIVES in self._arm(arm).manifests.get(request, {})

    def has_rows(self, arm: Arm | int, request: int) -> bool:
        """Whether whole rows were stored; their payload is not read."""
        return Kind.ROWS in self._arm(arm).manifests.get(request, {})

    def prompt_ids(self, arm: Arm | int, request: int) -> NDArray[np.int32] | None:
        """int32[prompt]; None when not observed, or when it or one of its bases is lost."""
        chain: list[tuple[int, int]] = []
        key: tuple[int, int] | None = (_number(arm), request)
        while key is not None and key not in self._prompts:
            chain.append(key)
            key = self._base_of(*key)
        for link in reversed(chain):
            self._hold_prompt(link, self._build_prompt(*link))
        return self._prompts[_number(arm), request]

    def refresh(self) -> bool:
        """Read what was written since; True when anything changed."""
        changed = self._index.extend(self._window)
        if changed is None:  # another file is in its place, or its tail was replaced
            with TraceReader.open(self.path_of_file) as fresh:
                self._window, fresh._window = fresh._window, self._window  # the old one is closed
                self._index = fresh._index
            changed = True
        if changed:
            self._prompts.clear()
            self._prompt_tokens_held = 0
            self._column_losses.clear()
        return changed

    def check(self) -> tuple[Loss, ...]:
        """Read every column and prompt, then return ``losses``."""
        for arm in range(len(self.arms)):
            for request in self.requests(arm):
                if request.error is not None and request.error.kind == LOST:
                    continue
                self.path(arm, request.index)
                self.alternatives(arm, request.index)
                self.rows(arm, request.index)
                self.prompt_ids(arm, request.index)
        return self.losses

    def _arm(self, arm: Arm | int) -> ArmIndex:
        return self._index.arm(_number(arm))

    def _request(self, arm: Arm | int, request: int) -> Request:
        return self._arm(arm).requests()[request]

    def _column(self, arm: Arm | int, request: int, kind: Kind, decode: Callable[[bytes], _T]) -> _T | None:
        entry = self._arm(arm)
        frame: Frame | None = entry.frames.get(request, {}).get(kind)
        if kind not in entry.manifests.get(request, {}) or frame is None:
            return None
        payload = self._window.payload(frame, alone=True)
        if payload is None:
            self._lose(arm, request, kind, "do not have the checksum that was written")
            return None
        try:
            return decode(payload)
        except TraceFormatError as error:
            self._lose(arm, request, kind, f"cannot be read: {error}")
            return None

    def _lose(self, arm: Arm | int, request: int, kind: Kind, why: str) -> None:
        number = _number(arm)
        frame = self._arm(arm).frames.get(request, {}).get(kind)
        name = kind.name.lower()
        self._column_losses[number, request, kind] = Loss(
            kind=LossKind.COLUMN,
            sentence=f"arm {number}, request {request}: the {name} columns {why}.",
            arm=number,
            request=request,
            column=name,
            offset=frame.offset if frame is not None else None,
        )

    def _base_of(self, arm: int, request: int) -> tuple[int, int] | None:
        ref = self._request(arm, request).prompt
        if ref is None or ref.base_request is None:
            return None
        base_arm = arm if ref.base_arm is None else ref.base_arm
        own = self._arm(arm).commit_sequence.get(request, -1)
        bases = self._index.arm_or_none(base_arm)
        base = bases.commit_sequence.get(ref.base_request) if bases is not None else None
        if base is None or base >= own:  # lost, or not earlier: following it could go in circles
            return None
        return base_arm, ref.base_request

    def _build_prompt(self, arm: int, request: int) -> NDArray[np.int32] | None:
        described = self._request(arm, request)
        ref = described.prompt
        if ref is None:
            return None
        ids: NDArray[np.int32] = np.empty(0, np.int32)
        if ref.tail_tokens:
            tail = self._column(arm, request, Kind.PROMPT, lambda raw: decode_prompt(raw, ref.tail_tokens))
            if tail is None:
                self._lose(arm, request, Kind.PROMPT, "are damaged or missing")
                return None
            ids = tail
        if ref.base_request is not None:
            base_key = self._base_of(arm, request)
            base = self._prompts.get(base_key) if base_key is not None else None
            if base is None or not 0 <= ref.common_tokens <= len(base):
                self._lose(arm, request, Kind.PROMPT, "build on an earlier prompt that is lost")
                return None
            ids = np.concatenate((base[: ref.common_tokens], ids))
        written = described.prompt_hash or ""
        if written.startswith("xxh3:") and written != prompt_hash(ids):
            self._lose(arm, request, Kind.PROMPT, "do not have the hash that was written")
            return None
        return ids

    def _hold_prompt(self, key: tuple[int, int], ids: NDArray[np.int32] | None) -> None:
        size = 0 if ids is None else len(ids)
        if self._prompt_tokens_held + size > _PROMPT_CACHE_TOKENS and len(self._prompts) > 1:
            # Keep the newest only: the chain that is being built needs its last link.
            newest = next(reversed(self._prompts))
            self._prompts = {newest: self._prompts[newest]}
            held = self._prompts[newest]
            self._prompt_tokens_held = 0 if held is None else len(held)
        self._prompts[key] = ids
        self._prompt_tokens_held += size


def _number(arm: Arm | int) -> int:
    return arm if isinstance(arm, int) else arm.index
