"""The vLLM adapter's own decisions, against scripted answers and captured ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tracer.cache_states import expected_now
from tracer.engines.base import GenerateCall
from tracer.engines.choice import EngineChoice
from tracer.engines.http.block_cache import BlockCache
from tracer.engines.http.endpoint import Endpoint
from tracer.engines.vllm import cache_counters
from tracer.engines.vllm.backend import command_line, open_backend
from tracer.engines.vllm.engine import VllmEngine
from tracer.engines.vllm.model_folder import folder_facts
from tracer.episode import CacheState, ExposureSource, Sampling, Scale
from tracer.errors import EngineDied, EngineError, EngineMissing, PromptTooLong, StateRefused, UsageError

WIRE = Path(__file__).parents[3] / "fixtures" / "wire" / "vllm-0.32.0-cpu"


def response(name: str) -> str:
    return json.dumps(json.loads((WIRE / name).read_text())["response"])


class Server:
    """A scripted vLLM: answers by path, remembers the bodies, counts its counters."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {
            "/version": response("version.json"),
            "/v1/models": response("models.json"),
            "/metrics": (WIRE / "metrics.txt").read_text(),
            "/v1/completions": response("cmpl_logprobs_ids.json"),
        } | answers
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST" and request.content:
            self.sent.append((request.url.path, json.loads(request.content)))
        answer = self.answers.get(f"{request.method} {request.url.path}", self.answers.get(request.url.path))
        if callable(answer):
            answer = answer()
        if isinstance(answer, Exception):
            raise answer
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        return (
            httpx.Response(404, text='{"detail":"Not Found"}')
            if answer is None
            else httpx.Response(status, text=body)
        )

    def bodies(self) -> list[dict[str, Any]]:
        return [body for path, body in self.sent if path == "/v1/completions"]


Attach = Callable[[Server], VllmEngine]


@pytest.fixture
def attach(monkeypatch: pytest.MonkeyPatch) -> Attach:
    def build(server: Server) -> VllmEngine:
        def scripted(url: str, **_: Any) -> Endpoint:
            return Endpoint(url, transport=httpx.MockTransport(server))

        monkeypatch.setattr("tracer.engines.vllm.backend.Endpoint", scripted)
        return VllmEngine(open_backend(EngineChoice(engine="vllm", url="http://engine:1")))

    monkeypatch.setattr(cache_counters, "_PATIENCE_S", 0.05)
    return build


def call(tokens: int = 33, **more: Any) -> GenerateCall:
    return GenerateCall(tuple(range(tokens)), Sampling(max_new_tokens=4), top_k=3, **more)


def test_ids_in_ids_out(attach: Attach) -> None:
    server = Server()
    engine = attach(server)
    answer = engine.generate(call())
    body = server.bodies()[0]
    assert body["prompt"] == list(range(33))
    assert body["return_tokens_as_token_ids"] is True
    assert (body["logprobs"], body["max_tokens"], body["temperature"], body["seed"]) == (3, 4, 0.0, 42)
    assert "cache_salt" not in body
    assert answer.path.token_ids.tolist() == [42944, 30, 198, 198]
    assert answer.alternatives is not None
    assert answer.alternatives.ids[0].tolist() == [42944, 17580, 5403]
    assert (answer.cached_tokens, answer.exposure_source) == (0, ExposureSource.USAGE)
    info = engine.info
    assert (info.version, info.prefix_cache, info.cache_block_tokens, info.context_tokens) == (
        "0.32.0",
        True,
        128,
        4096,
    )


def test_cold_is_a_new_salt_for_every_request(attach: Attach) -> None:
    server = Server()
    engine = attach(server)
    for _ in range(2):
        engine.generate(call(use_cache=False))
    salts = [body["cache_salt"] for body in server.bodies()]
    assert len(set(salts)) == 2


def test_a_fresh_start_by_salt_where_the_cache_cannot_be_emptied(attach: Attach) -> None:
    server = Server()
    engine = attach(server)
    assert engine.expected_cached(range(300)) is None
    engine.reset()
    assert engine.expected_cached(range(300)) == 0
    engine.generate(call(300))
    engine.generate(call(300))
    first, second = (body["cache_salt"] for body in server.bodies())
    assert first == second
    assert expected_now(engine, CacheState.WARM, tuple(range(300))) == 256
    assert expected_now(engine, CacheState.COLD, tuple(range(300))) == 0
    assert engine.info.flags["emptied_by"] == "cache_salt"
    engine.reset()
    engine.generate(call(300))
    assert server.bodies()[-1]["cache_salt"] != first


def test_a_reset_is_checked_and_asked_for_again(attach: Attach, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracer.engines.vllm.engine._RESET_PAUSE_S", 0.0)
    answers = iter(['{"success": false}', '{"success": true}'])
    server = Server(
        **{"GET /reset_prefix_cache": (405, "{}"), "POST /reset_prefix_cache": lambda: next(answers)}
    )
    engine = attach(server)
    engine.reset()
    assert engine.info.flags["emptied_by"] == "reset_prefix_cache"
    assert next(answers, None) is None
    busy = Server(
        **{"GET /reset_prefix_cache": (405, "{}"), "POST /reset_prefix_cache": '{"success": false}'}
    )
    with pytest.raises(EngineError, match="busy"):
        attach(busy).reset()


def counters(queries: int, hits: int) -> str:
    config = next(
        line for line in (WIRE / "metrics.txt").read_text().splitlines() if line.startswith("vllm:cache_con")
    )
    return f"{config}\nvllm:prefix_cache_queries_total 1{queries:05d}\nvllm:prefix_cache_hits_total {hits}\n"


def test_counters_stand_in_where_answers_do_not_count(attach: Attach) -> None:
    pages = iter([counters(0, 0), counters(0, 0), counters(0, 0), counters(756, 640)])
    server = Server(**{"/metrics": lambda: next(pages), "/v1/completions": response("B_cache_warm.json")})
    answer = attach(server).generate(call(756))
    assert (answer.cached_tokens, answer.exposure_source) == (640, ExposureSource.METRICS)
    pages = iter([counters(0, 0), counters(0, 0), counters(900, 640)])
    crowded = attach(server).generate(call(756))
    assert crowded.cached_tokens is None
    assert crowded.exposure_note is not None
    assert "other traffic" in crowded.exposure_note
    silent = attach(Server(**{"/metrics": counters(0, 0), "/v1/completions": response("B_cache_warm.json")}))
    assert silent.generate(call(756)).exposure_source is ExposureSource.NOT_OBSERVED


def test_caching_off_is_declared_and_warm_is_refused(attach: Attach) -> None:
    page = (WIRE / "B_metrics.txt").read_text()
    server = Server(**{"/metrics": page, "/v1/completions": response("B_cache_warm.json")})
    engine = attach(server)
    answer = engine.generate(call(756, use_cache=False))
    assert (answer.cached_tokens, answer.exposure_source) == (0, ExposureSource.DECLARED)
    assert "cache_salt" not in server.bodies()[0]
    assert engine.capabilities.states == (CacheState.COLD,)
    assert engine.expected_cached(range(756)) == 0
    with pytest.raises(StateRefused):
        engine.set_layers(prefix_cache=True, prompt_cache=False)


def test_raw_logits_are_called_logits(attach: Attach) -> None:
    raw = attach(Server(**{"/v1/completions": response("E_rawlogits.json")}))
    assert raw.generate(call()).scale is Scale.LOGIT
    info = "ModelConfig(logprobs_mode='raw_logits')"
    said = attach(Server(**{"/server_info": info}))
    assert said.generate(call()).scale is Scale.LOGIT


def test_errors_have_names(attach: Attach) -> None:
    with pytest.raises(PromptTooLong):
        attach(Server(**{"/v1/completions": (400, response("err_ctx.json"))})).generate(call())
    with pytest.raises(EngineError, match="out of vocabulary"):
        attach(Server(**{"/v1/completions": (400, response("err_oov_token.json"))})).generate(call())
    with pytest.raises(EngineDied, match="while serving a request of 33 prompt tokens"):
        attach(Server(**{"/v1/completions": httpx.ConnectError("refused")})).generate(call())
    with pytest.raises(EngineMissing, match="doctor"):
        attach(Server(**{"/version": (404, "{}")}))


def test_a_clamped_answer_is_told(attach: Attach) -> None:
    long = GenerateCall(tuple(range(33)), Sampling(max_new_tokens=500), top_k=3)
    assert attach(Server()).generate(long).extra == {"clamped_to_context": True}


def test_rendering_goes_through_ids(attach: Attach) -> None:
    from tracer.episode import Message

    server = Server(
        **{"/tokenize": response("tokenize_chat.json"), "/detokenize": '{"prompt":"<|im_start|>hi"}'}
    )
    engine = attach(server)
    assert engine.render([Message(role="user", content="hi")]) == "<|im_start|>hi"
    assert server.sent[-1][1]["tokens"][:3] == [1, 9690, 198]
    assert engine.tokenize("x")[:2] == [1, 9690]
    assert server.sent[-1][1]["add_special_tokens"] is False


def test_blocks() -> None:
    cache = BlockCache(16)
    cache.add(range(40))
    assert cache.expected(range(40)) == 32
    assert cache.expected(range(33)) == 32
    assert cache.expected(range(32)) == 16  # the last token is always computed
    assert cache.expected([*range(16), *range(100, 140)]) == 16
    assert cache.expected([1, *range(1, 40)]) == 0
    cache.clear()
    assert cache.expected(range(40)) == 0


def test_command_line(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\n")
    (tmp_path / "python").chmod(0o755)
    choice = EngineChoice(
        engine="vllm",
        model=str(tmp_path),
        server_bin=str(tmp_path / "python"),
        server_args=("--enforce-eager",),
    )
    line = command_line(choice, 1234)
    assert line[1:4] == ["-P", "-m", "vllm.entrypoints.openai.api_server"]
    assert line[-1] == "--enforce-eager"
    assert "--enable-prompt-tokens-details" in line
    with pytest.raises(UsageError, match="--model"):
        command_line(EngineChoice(engine="vllm", server_bin="x"), 1)
    with pytest.raises(UsageError, match="--server-bin"):
        command_line(EngineChoice(engine="vllm", model=str(tmp_path), server_bin="no-such-program"), 1)


def test_facts_of_a_model_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"architectures":["Llama"],"torch_dtype":"bfloat16","vocab_size":9}'
    )
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template":"x"}')
    (tmp_path / "a.safetensors").write_bytes(b"abc")
    facts = folder_facts(tmp_path)
    assert facts.model_hash == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (facts.architecture, facts.dtype, facts.vocabulary_tokens, facts.model_bytes) == (
        "Llama",
        "bfloat16",
        9,
        3,
    )
    assert facts.template_hash is not None
    assert folder_facts(tmp_path / "nothing").model_hash is None
