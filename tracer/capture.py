"""From one row of logits to the columns of one output position.

For each position: the greedy choice, the k best values, the log-sum-exp and a fingerprint of the
whole row. A row is a float32 vector over the vocabulary that the engine overwrites with its next
decode, so everything is taken from it before that, or from one copy of it afterwards.

Cost is what this module is about: a decode takes from 1 ms (GPU) to 10 ms (two CPU cores) and the
capture must stay within 3 % of it. After a decode the processor's caches hold weights, so every
distinct numpy call costs tens of microseconds whatever its size: few calls count, and nothing may
partition the vocabulary. The k-th best value is guessed from the positions before; where the guess
does not hold, the k-th best of some hundred group maxima is a lower bound for it.
"""

from __future__ import annotations

import math
import threading
from enum import StrEnum
from queue import SimpleQueue

import numpy as np
import xxhash
from numpy.typing import NDArray

from tracer.columns import Alternatives, PathColumns, PositionFlag
from tracer.errors import UsageError

Row = NDArray[np.float32]

MOST_ALTERNATIVES = 255
"""Counts of alternatives are stored in one byte."""

_GROUP_ROWS = 64
_MOST_CANDIDATES = 1024
_WIDER = 1.25
"""How much farther than lately the k-th best value is looked for."""
_SAFE_EXPONENT = 60.0
_VALUE = int(PositionFlag.VALUE)
_ALTERNATIVES = int(PositionFlag.ALTERNATIVES)
_EXACT_TIE = int(PositionFlag.EXACT_TIE)
_LOW_HALF = (1 << 64) - 1


class CaptureMode(StrEnum):
    """When a row is measured: on CPU cores that are all busy only ``inline`` does not lose."""

    INLINE = "inline"
    OVERLAPPED = "overlapped"
    """From a copy, right after the next decode was submitted to an asynchronous device."""
    THREAD = "thread"
    """From a copy, on a thread of its own."""


def greedy(row: Row) -> int:
    """Id of the highest value; of equal ones the lowest id. NaN is never chosen (all NaN: 0)."""
    best = int(row.argmax())
    if math.isnan(row[best]):
        usable = np.flatnonzero(~np.isnan(row))
        return int(usable[row[usable].argmax()]) if len(usable) else 0
    return best


def log_sum_exp(row: Row, highest: float, scratch: Row | None = None) -> float:
    """Natural log of the sum of exp of the row, whose best value is ``highest``.

    Exponentials in float32, summed pairwise; shifted by the best value unless that is so near 0
    that they can neither overflow nor vanish. The error before rounding to float32 is below 2e-6,
    usually below 2e-7. NaN anywhere gives NaN; an infinite maximum is returned as it is.
    """
    if not math.isfinite(highest):
        return float(row.max())
    if abs(highest) < _SAFE_EXPONENT:
        return math.log(np.exp(row, out=scratch).sum())
    with np.errstate(over="ignore"):  # a value more than the type's range below has exp 0
        shifted = np.subtract(row, np.float32(highest), out=scratch)
    return highest + math.log(np.exp(shifted, out=shifted).sum())


def fingerprint(row: Row) -> tuple[int, int]:
    """Low and high half of the 128-bit xxh3 of the row's bytes."""
    digest = xxhash.xxh3_128_intdigest(row.data)
    return digest & _LOW_HALF, digest >> 64


def top(row: Row, k: int, guess: float = math.nan) -> tuple[NDArray[np.int64], Row]:
    """Ids and values of the k best, best first, equal values by ascending id; NaN has no rank.

    ``guess`` is a value that the k-th best probably reaches. It changes the cost, never the result.
    """
    ids = (row >= guess).nonzero()[0]
    if k <= len(ids) <= _MOST_CANDIDATES:
        return _ranked(ids, row[ids], k)
    width = len(row) // _GROUP_ROWS
    if width >= 2 * k:
        maxima = row[: width * _GROUP_ROWS].reshape(_GROUP_ROWS, width).max(axis=0)
        threshold = np.partition(maxima, width - k)[width - k]
        ids = (row >= threshold).nonzero()[0]
        if len(ids) >= k:  # fewer: there are NaN among the maxima
            return _ranked(ids, row[ids], k)
    ids = (~np.isnan(row)).nonzero()[0]
    return _ranked(ids, row[ids], k)


def _ranked(ids: NDArray[np.int64], values: Row, k: int) -> tuple[NDArray[np.int64], Row]:
    order = np.lexsort((ids, -values))[:k]
    return ids[order], values[order]


class RowCapture:
    """Collects the columns of one request, position by position.

    Use: ``token = capture.take(row)``, submit the next decode, ``capture.overlap()``; after the
    last token ``capture.finish()``, then read ``path``, ``alternatives`` and ``rows``.
    Values are logits. Buffers grow by doubling and are kept from request to request.
    """

    def __init__(
        self, vocabulary: int, top_k: int, *, mode: CaptureMode = CaptureMode.INLINE, keep_rows: bool = False
    ) -> None:
        if not 1 <= top_k <= MOST_ALTERNATIVES:
            raise UsageError(
                f"The number of alternatives must be from 1 to {MOST_ALTERNATIVES}, not {top_k}."
            )
        self._vocabulary = vocabulary
        self._k = top_k
        self._mode = mode
        self._keep_rows = keep_rows
        self._scratch: Row = np.empty(vocabulary, np.float32)
        self._reach = math.nan
        self._length = 0
        self._reserve(64)
        self._waiting: tuple[int, Row] | None = None
        self._spares: list[Row] = [np.empty(vocabulary, np.float32) for _ in range(2)]
        self._worker = _Worker(self) if mode is CaptureMode.THREAD else None

    def __len__(self) -> int:
        return self._length

    def clear(self) -> None:
        """Forget the last request; the buffers stay."""
        self.finish()
        self._length = 0

    def take(self, row: Row, forced_id: int | None = None) -> int:
        """Note one row and return the token that is taken: the greedy one, or the forced one.

        After ``take`` returns (inline) or from its copy (other modes) the row may be overwritten.
        """
        if self._length == len(self._token_ids):
            self.finish()
            self._reserve(2 * self._length)
        position = self._length
        chosen = greedy(row) if forced_id is None else forced_id
        self._token_ids[position] = chosen
        self._chosen[position] = row[chosen]
        self._length += 1
        if self._mode is CaptureMode.INLINE:
            self.measure(position, row)
            return chosen
        if self._waiting is not None:
            self.overlap()
        spare = self._spare(position)
        np.copyto(spare, row)
        if self._worker is not None:
            self._worker.submit(position, spare)
        else:
            self._waiting = (position, spare)
        return chosen

    def overlap(self) -> None:
        """Measure the copied row now, while the device computes the next one."""
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            self.measure(*waiting)

    def finish(self) -> None:
        """Wait until every row that was taken has been measured."""
        self.overlap()
        if self._worker is not None:
            self._worker.wait()

    def close(self) -> None:
        """End the thread, if there is one."""
        if self._worker is not None:
            self._worker.stop()

    def measure(self, position: int, row: Row) -> None:
        """Fill the columns of one position from its row."""
        highest = float(row[greedy(row)])
        ids, values = top(row, self._k, highest - self._reach)
        count = len(ids)
        if count == self._k and math.isfinite(gap := highest - float(values[-1])):
            self._reach = 0.5 * (self._reach if math.isfinite(self._reach) else gap) + 0.5 * _WIDER * gap
        self._ids[position, :count] = ids
        self._values[position, :count] = values
        self._counts[position] = count
        self._log_sum_exp[position] = log_sum_exp(row, highest, self._scratch)
        self._fingerprints[position] = fingerprint(row)
        tied = count > 1 and values[0] == values[1]
        self._flags[position] = _VALUE | (_ALTERNATIVES if count else 0) | (_EXACT_TIE if tied else 0)
        if self._rows is not None:
            self._rows[position] = row

    def path(self) -> PathColumns:
        """The path of the request, copied out of the buffers; values are logits."""
        self.finish()
        n = self._length
        return PathColumns(
            token_ids=self._token_ids[:n].copy(),
            flags=self._flags[:n].copy(),
            chosen_values=self._chosen[:n].copy(),
            log_sum_exp=self._log_sum_exp[:n].copy(),
            fingerprints=self._fingerprints[:n].copy(),
        )

    def alternatives(self) -> Alternatives:
        """The top-k of the request, copied out of the buffers; values are logits."""
        self.finish()
        n = self._length
        return Alternatives(self._ids[:n].copy(), self._values[:n].copy(), self._counts[:n].copy())

    def rows(self) -> Row | None:
        """float32[n, vocabulary], or None when rows are not kept."""
        self.finish()
        return None if self._rows is None else self._rows[: self._length].copy()

    def _spare(self, position: int) -> Row:
        if self._worker is not None:
            self._worker.wait_for_room()
        return self._spares[position % len(self._spares)]

    def _reserve(self, capacity: int) -> None:
        """Make room; what is already there is kept."""
        n, k = self._length, self._k

        def grown(name: str, shape: tuple[int, ...], dtype: type, fill: float = 0) -> None:
            new: NDArray[np.generic] = np.full(shape, fill, dtype)
            if n:
                new[:n] = getattr(self, name)[:n]
            setattr(self, name, new)

        self._token_ids: NDArray[np.int32]
        self._flags: NDArray[np.uint8]
        self._chosen: Row
        self._log_sum_exp: Row
        self._fingerprints: NDArray[np.uint64]
        self._ids: NDArray[np.int32]
        self._values: Row
        self._counts: NDArray[np.uint8]
        self._rows: Row | None
        grown("_token_ids", (capacity,), np.int32)
        grown("_flags", (capacity,), np.uint8)
        grown("_chosen", (capacity,), np.float32)
        grown("_log_sum_exp", (capacity,), np.float32)
        grown("_fingerprints", (capacity, 2), np.uint64)
        grown("_ids", (capacity, k), np.int32, -1)
        grown("_values", (capacity, k), np.float32, np.nan)
        grown("_counts", (capacity,), np.uint8)
        if self._keep_rows:
            grown("_rows", (capacity, self._vocabulary), np.float32)
        else:
            self._rows = None


class _Worker:
    """One thread that measures copied rows; at most as many wait as there are copies."""

    def __init__(self, capture: RowCapture) -> None:
        self._capture = capture
        self._jobs: SimpleQueue[tuple[int, Row] | None] = SimpleQueue()
        self._room = threading.Semaphore(2)
        self._idle = threading.Condition()
        self._open = 0
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="row-capture", daemon=True)
        self._thread.start()

    def wait_for_room(self) -> None:
        self._room.acquire()

    def submit(self, position: int, row: Row) -> None:
        with self._idle:
            self._open += 1
        self._jobs.put((position, row))

    def wait(self) -> None:
        with self._idle:
            self._idle.wait_for(lambda: self._open == 0)
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def stop(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._capture.measure(*job)
            except BaseException as error:  # noqa: BLE001  # handed to the caller in wait()
                self._error = error
            self._room.release()
            with self._idle:
                self._open -= 1
                self._idle.notify_all()
