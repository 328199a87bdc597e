"""The shelf of states met: memory first, then files of our own that go away."""

from pathlib import Path

import pytest

from replay.snapshot_reference import SpillingShelf
from tracer.engines.base import SavedState
from tracer.errors import StateRefused


def state(number, size=10):
    return SavedState(token_ids=(number,), size_bytes=size, payload=bytes([number]) * size)


def test_states_beyond_the_limit_go_to_files_and_come_back():
    shelf = SpillingShelf(limit_bytes=25)
    states = [state(0), None, state(2), state(3), state(4)]
    for index, one in enumerate(states):
        shelf.put(index, one)
    folder = Path(shelf._folder.name)
    assert len(list(folder.glob("*.state"))) == 2
    assert len(shelf) == 5
    assert [shelf.get(index) for index in range(5)] == states
    with pytest.raises(StateRefused):
        shelf.get(9)
    shelf.close()
    assert not folder.exists()


def test_a_changed_file_is_refused():
    shelf = SpillingShelf(limit_bytes=0)
    shelf.put(0, state(1))
    (file,) = Path(shelf._folder.name).glob("*.state")
    file.write_bytes(b"other bytes")
    with pytest.raises(StateRefused, match="was changed"):
        shelf.get(0)
    shelf.close()


def test_states_that_an_engine_keeps_itself_stay_in_memory():
    shelf = SpillingShelf(limit_bytes=0)
    own = SavedState(token_ids=(1,), size_bytes=10, payload=("a handle",))
    shelf.put(0, own)
    assert shelf.get(0) is own
    shelf.close()
