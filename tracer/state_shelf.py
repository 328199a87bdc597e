"""Where the cache states that the requests of a warm arm met are kept until ``snapshot`` needs them.

States are parsed by native code, so a file is only ever read back if this user's own run wrote it:
each file carries a keyed hash whose key lies in the user's data folder and never in a trace.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Protocol

import msgspec

from tracer.engines.base import SavedState
from tracer.errors import StateRefused, UsageError

_KEY_BYTES = 32


class StateShelf(Protocol):
    """The state that request ``index`` met: None = the cache was empty."""

    def put(self, index: int, state: SavedState | None) -> None: ...

    def get(self, index: int) -> SavedState | None:
        """Raises ``StateRefused`` if no state was kept for this request."""
        ...

    def __len__(self) -> int: ...


class MemoryShelf:
    """States in memory: about 23 KB a token for SmolLM2, gone when the run ends."""

    def __init__(self) -> None:
        self._states: dict[int, SavedState | None] = {}

    def put(self, index: int, state: SavedState | None) -> None:
        self._states[index] = state

    def get(self, index: int) -> SavedState | None:
        if index not in self._states:
            raise StateRefused(f"no state was kept for request {index} of the reference arm.")
        return self._states[index]

    def __len__(self) -> int:
        return len(self._states)


class _StateLabel(msgspec.Struct, frozen=True, kw_only=True):
    """What lies beside a state's bytes. ``seal``: keyed hash over the ids and the bytes."""

    token_ids: tuple[int, ...]
    size_bytes: int
    seal: str
    empty: bool = False


class FileShelf:
    """States in files of a folder: ``record --keep-states``. Only states that are bytes."""

    def __init__(self, folder: Path, key: bytes | None = None) -> None:
        self._folder = folder
        self._key = key if key is not None else own_key()

    def put(self, index: int, state: SavedState | None) -> None:
        payload = b"" if state is None else state.payload
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise StateRefused(
                "this engine keeps its states itself, so they cannot be kept beside the trace."
            )
        ids = () if state is None else state.token_ids
        self._folder.mkdir(parents=True, exist_ok=True)
        self._bytes_path(index).write_bytes(payload)
        label = _StateLabel(
            token_ids=ids,
            size_bytes=len(payload),
            seal=self._seal(index, ids, bytes(payload)),
            empty=state is None,
        )
        self._label_path(index).write_bytes(msgspec.json.encode(label))

    def get(self, index: int) -> SavedState | None:
        try:
            label = msgspec.json.decode(self._label_path(index).read_bytes(), type=_StateLabel)
            payload = self._bytes_path(index).read_bytes()
        except (OSError, msgspec.MsgspecError) as error:
            raise StateRefused(
                f"the kept state of request {index} cannot be read from {self._folder}; "
                "replay without the kept states, which runs the reference arm again."
            ) from error
        if not hmac.compare_digest(label.seal, self._seal(index, label.token_ids, payload)):
            raise StateRefused(
                f"the kept state of request {index} in {self._folder} was not written by this user's own "
                "run, or was changed; delete the folder to have the reference arm run again."
            )
        if label.empty:
            return None
        return SavedState(token_ids=label.token_ids, size_bytes=label.size_bytes, payload=payload)

    def __len__(self) -> int:
        return len(list(self._folder.glob("request-*.json")))

    def _bytes_path(self, index: int) -> Path:
        return self._folder / f"request-{index:05d}.state"

    def _label_path(self, index: int) -> Path:
        return self._folder / f"request-{index:05d}.json"

    def _seal(self, index: int, ids: tuple[int, ...], payload: bytes) -> str:
        mac = hmac.new(self._key, digestmod=hashlib.sha256)
        mac.update(msgspec.json.encode([index, ids, len(payload)]))
        mac.update(payload)
        return mac.hexdigest()


def states_folder(trace: Path) -> Path:
    """The folder beside a trace where ``record --keep-states`` keeps the states met."""
    return trace.with_suffix(".states")


def discard_states(folder: Path) -> None:
    """Remove the states of a recording that is being replaced, and nothing else."""
    for pattern in ("request-*.state", "request-*.json"):
        for path in folder.glob(pattern):
            path.unlink()


def own_key() -> bytes:
    """This user's key for state files, made at first use."""
    from platformdirs import user_data_path

    path = user_data_path("cachetrace") / "state.key"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.touch(mode=0o600)
            path.write_bytes(secrets.token_bytes(_KEY_BYTES))
        key = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the key for kept states cannot be read or made at {path}: {error.strerror}."
        ) from error
    if len(key) != _KEY_BYTES:
        raise UsageError(f"{path} is damaged; delete it (states kept earlier then have to be made again).")
    return key
