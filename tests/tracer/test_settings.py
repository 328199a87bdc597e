"""Command line over environment over settings file over default."""

import pytest

from tracer.engines.choice import EngineChoice
from tracer.engines.registry import open_engine
from tracer.errors import UsageError
from tracer.settings import engine_choice, settings_path


@pytest.fixture
def file(tmp_path, monkeypatch):
    for name in EngineChoice.__struct_fields__:
        monkeypatch.delenv(f"CACHETRACE_{name.upper()}", raising=False)
    path = tmp_path / "settings.toml"
    monkeypatch.setenv("CACHETRACE_SETTINGS", str(path))
    return path


def test_defaults_without_any_setting(file):
    assert settings_path() == file
    assert engine_choice({"engine": None}) == EngineChoice()


def test_order(file, monkeypatch):
    file.write_text('threads = 2\nmodel = "file.gguf"\nkv_type = "f32"\n')
    monkeypatch.setenv("CACHETRACE_MODEL", "environment.gguf")
    monkeypatch.setenv("CACHETRACE_KV_TYPE", "q8_0")
    choice = engine_choice({"kv_type": "f16", "threads": None})
    assert (choice.threads, choice.model, choice.kv_type) == (2, "environment.gguf", "f16")


def test_environment_values_are_converted(file, monkeypatch):
    monkeypatch.setenv("CACHETRACE_GPU_LAYERS", "99")
    monkeypatch.setenv("CACHETRACE_TIMEOUT_S", "1.5")
    monkeypatch.setenv("CACHETRACE_SERVER_ARGS", "--cache-ram 0 '--alias=my model'")
    choice = engine_choice({})
    assert choice.gpu_layers == 99
    assert choice.timeout_s == 1.5
    assert choice.server_args == ("--cache-ram", "0", "--alias=my model")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("threads = 'two'", "threads in the settings file"),
        ("thread = 2", "unknown key 'thread'"),
        ("threads = ", "not valid TOML"),
        ('engine = "gpt"', "engine in the settings file"),
    ],
)
def test_a_mistake_in_the_file_is_named(file, text, word):
    file.write_text(text)
    with pytest.raises(UsageError, match=word):
        engine_choice({})


def test_a_mistake_in_the_environment_is_named(file, monkeypatch):
    monkeypatch.setenv("CACHETRACE_THREADS", "many")
    with pytest.raises(UsageError, match="CACHETRACE_THREADS"):
        engine_choice({})


def test_a_mistake_on_the_command_line_is_named(file):
    with pytest.raises(UsageError, match=r"\$\.flash_attention"):
        engine_choice({"flash_attention": "maybe"})


def test_a_server_in_the_settings_belongs_to_their_engine(file):
    file.write_text('engine = "llama-server"\nurl = "http://127.0.0.1:8080"\nthreads = 2\n')
    assert engine_choice({}).url == engine_choice({"engine": "llama-server"}).url == "http://127.0.0.1:8080"
    other = engine_choice({"engine": "llama"})
    assert (other.url, other.threads) == (None, 2)


def test_an_engine_in_process_attaches_to_no_server(file):
    choice = engine_choice({"url": "http://127.0.0.1:8080"})
    with pytest.raises(UsageError, match="choose --engine llama-server"):
        open_engine(choice)
