"""Saving and restoring the slot of a launched server, through files that are checked before use."""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec.structs import replace

from tracer.engines.base import SavedState
from tracer.engines.http.refusals import refusal_of
from tracer.engines.llama_server.backend import Backend
from tracer.engines.llama_server.slot_files import SlotFile
from tracer.errors import EngineDied, EngineError, EngineMissing, StateRefused

SLOT = 0


class SlotStates:
    """The states of one server's slot. Each way to fail has a name and leaves the trace intact."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def save(self, held: tuple[int, ...]) -> SavedState:
        """Have the server write its slot, which holds these tokens, and note what it wrote."""
        folder = self._backend.slot_folder
        if folder is None:
            raise StateRefused("Slot files of a server that was not started by cachetrace are never used.")
        name = folder.next_name()
        saved = self._ask("save", name, f"while saving the state {name}").get("n_saved")
        if saved != len(held):
            raise EngineError(f"The server saved {saved} tokens, but its slot should hold {len(held)}.")
        file = folder.record(name, self._settings())
        return SavedState(held, file.size_bytes, file)

    def checked(self, state: SavedState) -> SlotFile:
        """The state's file, unchanged and of this configuration. Raises ``StateRefused`` otherwise."""
        folder, file = self._backend.slot_folder, state.payload
        if folder is None or not isinstance(file, SlotFile):
            raise StateRefused("This state was not saved by this server; record it again.")
        folder.check(file, self._settings())
        return file

    def restore(self, state: SavedState, file: SlotFile) -> None:
        """Have the server read the file. It empties its slot when it cannot."""
        said = self._ask("restore", file.name, f"while restoring the state {file.name}")
        if said.get("n_restored") != len(state.token_ids):
            raise EngineError(
                f"The server restored {said.get('n_restored')} tokens of a state of {len(state.token_ids)}."
            )

    def _settings(self) -> str:
        """Hash of what a state depends on; the layers may differ between saving and restoring."""
        fixed = replace(self._backend.info, prompt_cache_bytes=None, prefix_cache=None, flags={})
        return hashlib.sha256(repr(fixed).encode()).hexdigest()

    def _ask(self, action: str, filename: str, while_doing: str) -> dict[str, Any]:
        path = f"/slots/{SLOT}?action={action}"
        try:
            reply = self._backend.endpoint.post(path, {"filename": filename})
        except (EngineDied, EngineMissing) as problem:
            raise self._backend.death(while_doing, problem) from problem
        if reply.status == 501:
            raise StateRefused(
                "This server cannot save and restore slots (a projector is loaded, or it is off)."
            )
        if not reply.ok:
            said = refusal_of(reply.status, reply.body)
            raise EngineError(f"The server failed {while_doing}: {said.error.message}")
        parsed = reply.json()
        return parsed if isinstance(parsed, dict) else {}
