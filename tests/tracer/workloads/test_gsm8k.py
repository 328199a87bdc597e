"""GSM8K items as episodes, the pinned data file, and its fetch from a loopback server."""

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tracer.episode import Message
from tracer.errors import UsageError
from tracer.request_source import Answer
from tracer.workloads import gsm8k
from tracer.workloads.gsm8k_answers import gold_value

LINES = [
    {"question": "What is 1 + 1?", "answer": "1+1=<<1+1=2>>2\n#### 2"},
    {"question": "How many are 600 and 600?", "answer": "600+600=1,200\n#### 1,200"},
]
DATA = "".join(json.dumps(line) + "\n" for line in LINES).encode()
SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "gsm8k_test.jsonl"


class Words:
    """A tokenizer whose tokens are characters."""

    def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None = None) -> str:
        return "".join(f"<{m.role}>{m.content}" for m in messages) + "<assistant>"

    def tokenize(self, text: str) -> list[int]:
        return [ord(c) for c in text]

    def piece(self, token_id: int) -> bytes | None:
        return chr(token_id).encode()


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(gsm8k, "DATA_SHA256", hashlib.sha256(DATA).hexdigest())
    monkeypatch.setenv("CACHETRACE_DATA_DIR", str(tmp_path / "kept"))
    file = tmp_path / "test.jsonl"
    file.write_bytes(DATA)
    return file


@pytest.fixture
def server() -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """A loopback server; what it sends and with which status can be set."""
    asked: list[str] = []
    sends: dict[str, Any] = {"body": DATA, "status": 200}

    class Serve(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(sends["status"])
            self.send_header("Content-Length", str(len(sends["body"])))
            self.end_headers()
            self.wfile.write(sends["body"])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Serve) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}/test.jsonl", asked, sends
        listening.shutdown()
        thread.join()


def test_an_item_is_one_request_whose_prompt_is_fixed(pinned: Path) -> None:
    first, second = gsm8k.Gsm8kFamily().episodes(file=str(pinned))
    assert (first.episode_id, second.episode_id) == ("gsm8k_0000", "gsm8k_0001")
    source = first.start(Words())
    planned = source.next_request()
    assert planned is not None
    text = "".join(chr(token) for token in planned.prompt_ids)
    assert text == f"<user>{gsm8k.INSTRUCTION}What is 1 + 1?<assistant>"
    assert source.planned == 1
    source.digest(Answer(token_ids=(50,), text="2", stopped_by_length=False))
    assert source.next_request() is None
    outcome = source.outcome()
    assert outcome is not None
    assert outcome.score is outcome.solved is None  # answers are derived from the stored text, later
    assert outcome.details == {"item": 0, "gold": "2"}


def test_an_item_is_asked_again_without_the_data_file(pinned: Path) -> None:
    family = gsm8k.Gsm8kFamily()
    _, item = family.episodes(file=str(pinned))
    pinned.unlink()
    again = family.from_spec(item.spec)
    assert again.start(Words()).next_request() == item.start(Words()).next_request()
    assert item.spec.params["gold"] == "1,200"


def test_an_item_of_another_prompt_version_is_refused(pinned: Path) -> None:
    import msgspec

    item = next(iter(gsm8k.Gsm8kFamily().episodes(file=str(pinned))))
    with pytest.raises(UsageError, match="prompt version"):
        gsm8k.Gsm8kFamily().from_spec(msgspec.structs.replace(item.spec, version="0"))


def test_an_option_of_another_workload_is_refused(pinned: Path) -> None:
    with pytest.raises(UsageError, match="no option 'turns'"):
        list(gsm8k.Gsm8kFamily().episodes(file=str(pinned), turns=3))


def test_another_file_is_refused(pinned: Path) -> None:
    pinned.write_bytes(DATA + b"\n")
    with pytest.raises(UsageError, match="not the pinned"):
        list(gsm8k.Gsm8kFamily().episodes(file=str(pinned)))


def test_the_file_is_fetched_once(pinned: Path, server: tuple[str, list[str], dict[str, Any]]) -> None:
    url, asked, _ = server
    kept = gsm8k.require_data(url=url)
    assert kept.read_bytes() == DATA
    assert gsm8k.require_data(url=url) == kept
    assert asked == ["/test.jsonl"]


def test_a_fetched_file_with_another_hash_is_not_kept(
    pinned: Path, server: tuple[str, list[str], dict[str, Any]]
) -> None:
    url, _, sends = server
    sends["body"] = DATA[:-1]
    with pytest.raises(UsageError, match="nothing was kept"):
        gsm8k.require_data(url=url)
    assert not (pinned.parent / "kept").exists()


def test_a_server_error_and_a_closed_port_are_one_sentence(
    pinned: Path, server: tuple[str, list[str], dict[str, Any]]
) -> None:
    url, _, sends = server
    sends["status"] = 503
    with pytest.raises(UsageError, match="give its path instead"):
        gsm8k.require_data(url=url)
    with pytest.raises(UsageError, match="give its path instead"):
        gsm8k.require_data(url="http://127.0.0.1:9/test.jsonl")


def test_gold_of_all_1319_items() -> None:
    if not SHARED.is_file():
        pytest.skip("left out: the GSM8K test set is not beside this checkout (../shared/data)")
    from fractions import Fraction

    assert gsm8k.require_data(SHARED) == SHARED
    items = list(gsm8k.Gsm8kFamily().episodes(file=str(SHARED)))
    assert len(items) == gsm8k.ITEMS == 1319
    lines = [json.loads(line) for line in SHARED.read_text(encoding="utf-8").splitlines()]
    stated = [str(item.spec.params["gold"]) for item in items]
    derived = [gold_value(line["answer"]) for line in lines]
    assert derived == [Fraction(text.replace(",", "")) for text in stated]
    assert sum("," in text for text in stated) == 14
    assert sum(value < 0 for value in derived) == 2
    assert all(value.denominator == 1 for value in derived)
