"""Kept states come back only as this user's own run wrote them."""

import pytest

from tests.tracer.arm_runs import plan, record
from tracer.engines.base import SavedState
from tracer.errors import StateRefused, UsageError
from tracer.state_shelf import FileShelf, MemoryShelf, discard_states, own_key, states_folder

KEY = b"k" * 32
STATE = SavedState(token_ids=(1, 2, 3), size_bytes=4, payload=b"\x00abc")


@pytest.fixture
def shelf(tmp_path):
    return FileShelf(tmp_path / "t.states", KEY)


def test_a_state_comes_back_as_it_was(shelf):
    shelf.put(0, None)
    shelf.put(1, STATE)
    assert shelf.get(0) is None
    assert shelf.get(1) == STATE
    assert len(shelf) == 2


@pytest.mark.parametrize("change", ["payload", "label", "swap", "truncate"])
def test_a_changed_state_is_refused(shelf, tmp_path, change):
    shelf.put(0, STATE)
    shelf.put(1, SavedState((1, 2, 3), 4, b"\x00abd"))
    folder = tmp_path / "t.states"
    if change == "payload":
        (folder / "request-00000.state").write_bytes(b"\x00abX")
    elif change == "label":
        label = folder / "request-00000.json"
        label.write_bytes(label.read_bytes().replace(b"[1,2,3]", b"[1,2,4]"))
    elif change == "swap":
        for suffix in ("state", "json"):
            (folder / f"request-00001.{suffix}").replace(folder / f"request-00000.{suffix}")
    else:
        (folder / "request-00000.state").write_bytes(b"")
    with pytest.raises(StateRefused, match="not written by this user's own run"):
        shelf.get(0)


def test_a_state_of_another_user_is_refused(shelf, tmp_path):
    shelf.put(0, STATE)
    with pytest.raises(StateRefused):
        FileShelf(tmp_path / "t.states", b"x" * 32).get(0)


def test_a_missing_or_unreadable_state_is_refused(shelf, tmp_path):
    with pytest.raises(StateRefused, match="request 4"):
        shelf.get(4)
    shelf.put(0, STATE)
    (tmp_path / "t.states" / "request-00000.json").write_text("{")
    with pytest.raises(StateRefused, match="cannot be read"):
        shelf.get(0)
    with pytest.raises(StateRefused):
        MemoryShelf().get(0)


def test_an_engine_that_keeps_its_states_itself_is_refused(shelf, tmp_path):
    trace = record(tmp_path / "t.msgpack", arm_plan=plan(keep_states=shelf))
    assert "keeps its states itself" in trace.end(0).reason  # FakeEngine's states are no bytes


def test_the_key_is_made_once_and_only_readable_by_its_user(tmp_path, monkeypatch):
    monkeypatch.setattr("platformdirs.user_data_path", lambda name: tmp_path / name)
    assert own_key() == own_key()
    path = tmp_path / "cachetrace" / "state.key"
    assert path.stat().st_mode & 0o077 == 0
    path.write_bytes(b"short")
    with pytest.raises(UsageError, match="damaged"):
        own_key()


def test_discarding_leaves_other_files_alone(shelf, tmp_path):
    shelf.put(0, STATE)
    other = tmp_path / "t.states" / "mine.txt"
    other.write_text("keep")
    discard_states(states_folder(tmp_path / "t.msgpack"))
    assert [path.name for path in (tmp_path / "t.states").iterdir()] == ["mine.txt"]
