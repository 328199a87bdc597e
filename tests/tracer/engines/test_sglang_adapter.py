"""The SGLang adapter's own decisions, against scripted answers in the form that its documents give."""

import json
from typing import Any

import httpx
import pytest

from tracer.cache_states import expected_now
from tracer.engines.base import GenerateCall
from tracer.engines.choice import EngineChoice
from tracer.engines.http.endpoint import Endpoint
from tracer.engines.sglang import engine as sglang_engine
from tracer.engines.sglang import open_sglang
from tracer.engines.sglang.described import describe, read_settings
from tracer.engines.sglang.engine import SglangEngine
from tracer.episode import CacheState, ExposureSource, Sampling
from tracer.errors import EngineDied, EngineError, EngineMissing, StateRefused, UsageError

SETTINGS = {
    "version": "0.5.10",
    "disable_radix_cache": False,
    "page_size": 1,
    "context_length": 4096,
    "dtype": "bfloat16",
}


class Server:
    def __init__(self, flushes: tuple[int, ...] = (200,), **answers: Any) -> None:
        self.flushes = list(flushes)
        self.answers = answers
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        body = json.loads(request.content) if request.content else {}
        self.sent.append((path, body))
        if path == "/flush_cache":
            return httpx.Response(self.flushes.pop(0) if len(self.flushes) > 1 else self.flushes[0])
        if path == "/generate" and "generate" not in self.answers:
            return httpx.Response(200, json=answer(len(body["input_ids"])))
        found = self.answers.get(path.strip("/"))
        if isinstance(found, Exception):
            raise found
        return httpx.Response(404 if found is None else 200, json=found)

    def asked(self, path: str) -> list[dict[str, Any]]:
        return [body for where, body in self.sent if where == path]


def answer(prompt_tokens: int) -> dict[str, Any]:
    meta = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": 2,
        "cached_tokens": 0,
        "finish_reason": {"type": "length"},
        "output_token_logprobs": [[-0.5, 11, None], [-0.25, 12, None]],
        "output_top_logprobs": [[[-0.5, 11, None], [-1.0, 13, None]], [[-0.25, 12, None], [-2.0, 13, None]]],
    }
    return {"text": "ab", "output_ids": [11, 12], "meta_info": meta}


def engine(server: Server) -> SglangEngine:
    return SglangEngine(
        Endpoint("http://engine:1", transport=httpx.MockTransport(server)), describe(SETTINGS)
    )


def call(**more: Any) -> GenerateCall:
    return GenerateCall(tuple(range(20)), Sampling(max_new_tokens=2), top_k=2, **more)


def test_ids_in_ids_out() -> None:
    server = Server()
    got = engine(server).generate(call())
    body = server.asked("/generate")[0]
    assert body["input_ids"] == list(range(20))
    assert (body["top_logprobs_num"], body["logprob_start_len"], body["return_logprob"]) == (2, -1, True)
    assert body["sampling_params"]["temperature"] == 0.0
    assert got.path.token_ids.tolist() == [11, 12]
    assert (got.cached_tokens, got.exposure_source) == (0, ExposureSource.ENGINE)
    assert got.alternatives is not None
    assert got.alternatives.ids.tolist() == [[11, 13], [12, 13]]


def test_cold_empties_before_every_request_and_serves_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sglang_engine, "_FLUSH_PAUSE_S", 0.0)
    server = Server(flushes=(400, 200))
    opened = engine(server)
    opened.generate(call(use_cache=False))
    opened.generate(call(use_cache=False))
    assert [path for path, _ in server.sent] == [
        "/generate",
        "/flush_cache",
        "/flush_cache",
        "/generate",
        "/flush_cache",
        "/generate",
    ]
    with pytest.raises(EngineError, match="busy"):
        engine(Server(flushes=(400,))).reset()


def test_what_should_be_reused() -> None:
    opened = engine(Server())
    assert expected_now(opened, CacheState.WARM, tuple(range(20))) is None
    opened.reset()
    opened.generate(call())
    assert expected_now(opened, CacheState.WARM, tuple(range(20))) == 19
    assert expected_now(opened, CacheState.WARM, (*range(20), 11, 12, 5)) == 21
    off = describe(SETTINGS | {"disable_radix_cache": True})
    without = SglangEngine(Endpoint("http://engine:1", transport=httpx.MockTransport(Server())), off)
    assert without.capabilities.states == (CacheState.COLD,)
    assert without.expected_cached((1, 2, 3)) == 0


def test_settings_under_both_names_and_refusals() -> None:
    endpoint = Endpoint("http://engine:1", transport=httpx.MockTransport(Server(server_info=SETTINGS)))
    assert describe(read_settings(endpoint)).version == "0.5.10"
    assert describe({}).prefix_cache is None
    opened = engine(Server(generate=httpx.ReadError("gone"), tokenize={"tokens": [5, 6]}))
    assert opened.tokenize("x") == [5, 6]
    assert opened.piece(7) is None
    with pytest.raises(EngineDied, match="20 prompt tokens"):
        opened.generate(call())
    with pytest.raises(EngineError, match="renders"):
        opened.render([])
    with pytest.raises(StateRefused):
        opened.save_state()
    with pytest.raises(UsageError, match="--url"):
        open_sglang(EngineChoice(engine="sglang"))
    with pytest.raises(EngineMissing):
        open_sglang(EngineChoice(engine="sglang", url="http://127.0.0.1:9"))
