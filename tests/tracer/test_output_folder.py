"""An output that cannot be a folder: every command refuses it in one sentence, on the engine ``fake``."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cachetrace import build_app
from tracer.episode import Capabilities, EngineInfo
from tracer.errors import UsageError
from tracer.output_folder import make_folder
from tracer.proxy.recording import Recording

STUDY = """name = "mine"
[workload]
name = "chat"
file = "talks.jsonl"
[[engine]]
engine = "fake"
[[arms]]
states = ["cold", "warm"]
"""


@pytest.fixture(autouse=True)
def _a_file_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHETRACE_SETTINGS", str(tmp_path / "no-settings.toml"))
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    talks = [{"id": n, "messages": [{"role": "user", "content": "What is rain?"}]} for n in range(2)]
    Path("talks.jsonl").write_text("\n".join(map(json.dumps, talks)))
    Path("study.toml").write_text(STUDY)


def run(*words: str) -> Result:
    return CliRunner().invoke(build_app(), list(words))


@pytest.mark.parametrize("output", ["file", "file/below"])
@pytest.mark.parametrize(
    "command",
    [
        ("record", "--engine", "fake", "--workload", "chat", "--file", "talks.jsonl"),
        ("isolate", "--engine", "fake", "--items", "2"),
        ("study", "run", "study.toml", "--no-report"),
    ],
    ids=lambda command: command[0],
)
def test_a_file_where_a_folder_is_needed_is_refused(command: tuple[str, ...], output: str) -> None:
    refused = run(*command, "-q", "-o", output)
    assert isinstance(refused.exception, UsageError), refused.exception
    assert refused.exception.exit_code == 2
    assert "give another one with -o" in str(refused.exception)
    assert Path("file").read_text() == "mine"


def test_the_state_of_a_study_in_a_file_is_refused() -> None:
    refused = run("study", "status", "study.toml", "-o", "file")
    assert isinstance(refused.exception, UsageError)
    assert "file cannot be the study's folder" in str(refused.exception)


def test_a_replayed_copy_gets_its_folder_and_is_refused_below_a_file() -> None:
    assert run("record", "--engine", "fake", "--turns", "1", "-q", "-o", "one.msgpack").exit_code == 0
    replay = ("replay", "one.msgpack", "--engine", "fake", "--repeat", "1", "-q", "-o")
    assert run(*replay, "new/folder/copy.msgpack").exit_code == 0
    assert Path("new/folder/copy.msgpack").is_file()
    refused = run(*replay, "file/copy.msgpack")
    assert isinstance(refused.exception, UsageError), refused.exception
    assert "file is a file, and a folder is needed" in str(refused.exception)


def test_a_proxy_recording_into_a_file_is_refused() -> None:
    with pytest.raises(UsageError, match="file is a file, and a folder is needed"):
        Recording(Path("file"), EngineInfo(engine="openai"), Capabilities(), print, top_k=20)


def test_a_ladder_of_no_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracer.engines.llama.library.load_library", lambda: None)
    refused = run("ladder", "model.gguf", "--formats", " , ", "-o", "ladder")
    assert isinstance(refused.exception, UsageError), refused.exception
    assert "--formats names no weight format" in str(refused.exception)


def test_a_folder_is_made_once_and_a_file_is_no_folder(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    with pytest.raises(UsageError, match="file is a file, and a folder is needed"):
        make_folder(tmp_path / "file")
    with pytest.raises(UsageError, match=r"below cannot be made \(Not a directory\)"):
        make_folder(tmp_path / "file" / "below")
