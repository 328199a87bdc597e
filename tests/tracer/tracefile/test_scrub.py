from pathlib import Path

import msgspec
import pytest

from tests.tracer.tracefile.test_round_trip import ARM, EPISODE
from tracer.tracefile import TraceReader, TraceWriter
from tracer.tracefile.scrub import (
    hide_secrets,
    scrub_arguments,
    scrub_command,
    scrub_environment,
    scrub_headers,
    scrub_url,
    secret_spans,
)

SECRET = "sk-abcdefghijklmnop1234"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://user:pw@host:8080/v1?key=1#x", "http://host:8080/v1"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https://[::1]:9/a", "https://[::1]:9/a"),
        ("http://host:notaport/", "[scrubbed]"),
    ],
)
def test_urls(url: str, kept: str) -> None:
    assert scrub_url(url) == kept


@pytest.mark.parametrize(
    "command",
    [
        f"cachetrace record --api-key {SECRET}",
        f"cachetrace record --api-key={SECRET} -o out.msgpack",
        f"curl -H 'Authorization: Bearer {SECRET}' http://host/",
        f"curl -H 'Cookie: session={SECRET}'",
        f"env OPENAI_API_KEY={SECRET} cachetrace record",
        f"cachetrace record --url http://u:{SECRET}@host/?token={SECRET}",
        f"server --hf-token {SECRET} --ctx-size 4096",
        f"x 'unbalanced --password={SECRET}",
        f"run {SECRET}",
        f"run --header 'X-Api-Key: {SECRET}'",
    ],
)
def test_secrets_leave_command_lines(command: str) -> None:
    assert SECRET not in scrub_command(command)


def test_ordinary_options_stay() -> None:
    command = "record --max-new-tokens 64 --context-tokens 4096 --n-tokens=3 --url http://h:1/v1 -o a.msgpack"
    assert scrub_command(command) == command
    assert scrub_arguments(["--api-key", "--verbose"]) == ["--api-key", "--verbose"]


def test_headers_and_environment() -> None:
    headers = {"Authorization": "Bearer x", "Cookie": "a=b", "Content-Type": "json", "X-Api-Key": "k"}
    assert scrub_headers(headers) == {"Content-Type": "json"}
    environment = {
        "VLLM_BATCH_INVARIANT": "1",
        "OMP_NUM_THREADS": "2",
        "GGML_CUDA_FORCE_MMQ": "1",
        "LLAMA_ARG_API_KEY": SECRET,
        "OPENAI_API_KEY": SECRET,
        "HOME": "/home/someone",
    }
    assert scrub_environment(environment) == {
        "VLLM_BATCH_INVARIANT": "1",
        "OMP_NUM_THREADS": "2",
        "GGML_CUDA_FORCE_MMQ": "1",
    }


def test_the_writer_scrubs_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    arm = msgspec.structs.replace(
        ARM, command=f"cachetrace record --api-key {SECRET}", environment={"AWS_SECRET_ACCESS_KEY": SECRET}
    )
    with TraceWriter.create(path, EPISODE) as writer:
        stored = writer.begin_arm(arm)
    assert SECRET.encode() not in path.read_bytes()
    with TraceReader.open(path) as trace:
        assert trace.arms == (stored,)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("an ordinary prompt about tokens and passwords", "an ordinary prompt about tokens and passwords"),
        (f"use {SECRET} please", "use [scrubbed] please"),
        ("Authorization: Bearer abcdefgh12345", "Authorization: [scrubbed]"),
        ("https://user:pw@host/?q=1", "https://[scrubbed]@host/?q=1"),
        ('{"password": "hunter22", "n": 1}', '{"password": "[scrubbed]", "n": 1}'),
        ("look at http://host/?q=1&page=2", "look at http://host/?q=1&page=2"),
    ],
)
def test_likely_secrets_are_found_and_only_they_are_hidden(text: str, hidden: str) -> None:
    assert hide_secrets(text) == hidden
    assert len(secret_spans(text)) == hidden.count("[scrubbed]")
    assert secret_spans(hidden) == []
