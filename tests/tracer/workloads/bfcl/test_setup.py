"""The wheel is accepted by its hash only, and what is missing is said in one sentence."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from tracer.errors import UsageError
from tracer.workloads.bfcl import setup


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CACHETRACE_DATA_DIR", str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_without_setup_the_user_is_told_what_to_run() -> None:
    with pytest.raises(UsageError, match="cachetrace bfcl setup"):
        setup.require_wheel()


def test_another_wheel_is_refused_and_not_kept(tmp_path: Path, own_folder: Path) -> None:
    other = tmp_path / setup.WHEEL_NAME
    other.write_bytes(b"PK another")
    with pytest.raises(UsageError, match="not the pinned"):
        setup.set_up(other)
    assert not own_folder.exists()


def test_a_missing_wheel_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.whl"):
        setup.set_up(tmp_path / "nowhere.whl")


def test_a_kept_wheel_that_was_changed_is_refused(own_folder: Path) -> None:
    kept = setup.kept_wheel()
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"changed")
    with pytest.raises(UsageError, match="sha256"):
        setup.require_wheel()


def test_the_pinned_wheel_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "given.whl"
    given.write_bytes(b"the wheel")
    monkeypatch.setattr(setup, "WHEEL_SHA256", hashlib.sha256(b"the wheel").hexdigest())
    kept = setup.set_up(given)
    assert kept.read_bytes() == b"the wheel"
    assert setup.require_wheel() == kept
    assert list(kept.parent.iterdir()) == [kept]  # no half-written file beside it


def test_pip_that_fails_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "ERROR: no matching distribution\n")

    monkeypatch.setattr(subprocess, "run", no_network)
    with pytest.raises(UsageError, match="--wheel PATH"):
        setup.set_up()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"cachetrace\[bfcl\]"):
        setup.set_up()
