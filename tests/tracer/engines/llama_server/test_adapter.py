"""The adapter's own decisions, against scripted answers of a server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tracer.engines.base import GenerateCall, SavedState
from tracer.engines.choice import EngineChoice
from tracer.engines.http.endpoint import Endpoint
from tracer.engines.llama_server import open_llama_server
from tracer.engines.llama_server.arguments import ServerSettings, value_of, without
from tracer.engines.llama_server.backend import AttachedBackend
from tracer.engines.llama_server.described import ServerFacts, describe, read_facts, speculative
from tracer.engines.llama_server.engine import LlamaServerEngine
from tracer.episode import ExposureSource, Sampling, StopReason
from tracer.errors import EngineDied, EngineError, StateRefused, UsageError

WIRE = Path(__file__).parents[4] / "fixtures" / "wire" / "llama-server-0c1e570"


class Scripted:
    """Answers by path; remembers what was sent."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {
            "/props": (WIRE / "props.json").read_text(),
            "/slots": (WIRE / "slots.json").read_text(),
            "/metrics": (WIRE / "metrics.txt").read_text(),
            "/v1/models": "{}",
            "/completion": (WIRE / "c1.json").read_text(),
            "/tokenize": '{"tokens":[5,6,7]}',
        } | answers
        self.sent: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        answer = self.answers.get(request.url.path)
        if request.method == "POST":
            self.sent.append(json.loads(request.content))
        if callable(answer):
            answer = answer()
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            return httpx.Response(
                404, text='{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'
            )
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        return httpx.Response(status, text=body)


@pytest.fixture
def attach(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scripted], LlamaServerEngine]:
    def build(script: Scripted) -> LlamaServerEngine:
        def scripted(url: str, **_: Any) -> Endpoint:
            return Endpoint(url, transport=httpx.MockTransport(script))

        monkeypatch.setattr("tracer.engines.llama_server.backend.Endpoint", scripted)
        return LlamaServerEngine(AttachedBackend("http://engine:1", timeout_s=5))

    return build


def call(tokens: int = 41, **more: Any) -> GenerateCall:
    return GenerateCall(tuple(range(tokens)), Sampling(max_new_tokens=6), top_k=3, **more)


def test_ids_in_ids_out_and_every_setting_explicit(attach: Callable[[Scripted], LlamaServerEngine]) -> None:
    script = Scripted()
    answer = attach(script).generate(call())
    sent = script.sent[-1]
    assert sent["prompt"] == list(range(41))
    assert (sent["temperature"], sent["seed"], sent["n_probs"], sent["n_predict"]) == (0.0, 42, 3, 6)
    assert sent["return_tokens"] is True
    assert sent["cache_prompt"] is True
    assert "id_slot" not in sent
    assert answer.cached_tokens == 0
    assert answer.exposure_source is ExposureSource.ENGINE
    assert answer.exposure_note is None
    assert answer.stop is StopReason.LENGTH
    assert answer.prompt_cache_tokens is None


def test_cold_is_asked_for_per_request(attach: Callable[[Scripted], LlamaServerEngine]) -> None:
    script = Scripted()
    attach(script).generate(call(use_cache=False))
    assert script.sent[-1]["cache_prompt"] is False


def test_several_slots_are_pinned(attach: Callable[[Scripted], LlamaServerEngine]) -> None:
    props = json.loads((WIRE / "props.json").read_text()) | {"total_slots": 4}
    script = Scripted(**{"/props": json.dumps(props)})
    engine = attach(script)
    engine.generate(call())
    assert script.sent[-1]["id_slot"] == 0
    assert engine.info.flags["pinned_slot"] == "0"


def test_the_account_of_the_slot_is_checked_against_the_servers(
    attach: Callable[[Scripted], LlamaServerEngine],
) -> None:
    engine = attach(Scripted())
    engine.generate(call())
    assert engine.held_ids() == (*range(41), 504, 1296, 5574, 338, 359)
    other = json.loads((WIRE / "c1.json").read_text()) | {"tokens_cached": 12}
    odd = attach(Scripted(**{"/completion": json.dumps(other)}))
    odd.generate(call())
    assert odd.held_ids() is None


def test_a_second_layer_is_seen_by_what_it_brings_back(
    attach: Callable[[Scripted], LlamaServerEngine],
) -> None:
    first, again = (WIRE / "c1.json").read_text(), (WIRE / "c2.json").read_text()
    answers = iter([first, first, again])
    seen = attach(Scripted(**{"/completion": lambda: next(answers)}))
    assert seen.info.flags["prompt_cache_seen"] == "on"
    assert not seen.capabilities.reset
    off = attach(Scripted())
    assert off.info.prompt_cache_bytes == 0
    off.reset()
    assert off.held_ids() == (5, 6, 7)
    untold = attach(Scripted(**{"/completion": again}))
    assert untold.info.prompt_cache_bytes is None
    assert untold.held_ids() is None
    busy = (WIRE / "slots.json").read_text().replace('"is_processing":false', '"is_processing":true')
    script = Scripted(**{"/slots": busy})
    assert "prompt_cache_seen" not in attach(script).info.flags
    assert script.sent == []


def test_a_prompt_counted_otherwise_and_other_sampling_are_noted(
    attach: Callable[[Scripted], LlamaServerEngine],
) -> None:
    engine = attach(Scripted())
    odd = engine.generate(GenerateCall(tuple(range(40)), Sampling(max_new_tokens=6, seed=7), top_k=3))
    assert odd.exposure_note is not None
    assert "counts 41 prompt tokens, 40 were sent" in odd.exposure_note
    assert "used seed 42 instead of 7" in odd.exposure_note


def test_other_traffic_makes_the_slot_unknown(attach: Callable[[Scripted], LlamaServerEngine]) -> None:
    script = Scripted()
    engine = attach(script)
    engine.generate(call())
    script.answers["/slots"] = (WIRE / "slots.json").read_text().replace('"id_task":46', '"id_task":47')
    noted = engine.generate(call())
    assert noted.exposure_note is not None
    assert "another client used this server" in noted.exposure_note
    script.answers["/slots"] = (
        501,
        '{"error":{"code":501,"message":"no slots","type":"not_supported_error"}}',
    )
    assert engine.generate(call()).exposure_note is None


def test_a_dead_server_and_a_refused_slot_action_have_a_name(
    attach: Callable[[Scripted], LlamaServerEngine],
) -> None:
    script = Scripted()
    engine = attach(script)
    script.answers["/completion"] = httpx.RemoteProtocolError("Server disconnected")
    with pytest.raises(EngineDied, match="while serving a request of 41 prompt tokens"):
        engine.generate(call())
    assert engine.held_ids() is None
    script.answers["/completion"] = httpx.ConnectError("refused")
    with pytest.raises(EngineDied, match="stopped answering"):
        engine.generate(call())
    refused = attach(
        Scripted(**{"/slots/0": (501, '{"error":{"message":"no","type":"not_supported_error"}}')})
    )
    with pytest.raises(StateRefused, match="cannot save and restore"):
        refused._states._ask("save", "a.bin", "while saving")
    with pytest.raises(StateRefused, match="not saved by this server"):
        refused.restore_state(SavedState((1,), 1, b"foreign"))


def test_an_empty_answer_and_an_error_inside_an_answer(
    attach: Callable[[Scripted], LlamaServerEngine],
) -> None:
    script = Scripted()
    engine = attach(script)
    for body, said in (
        ("", "empty body"),
        ('{"error":{"code":500,"message":"out of memory"}}', "out of memory"),
        ("{}", "without a completion"),
    ):
        script.answers["/completion"] = body
        with pytest.raises(EngineError, match=said):
            engine.generate(call())


def test_42_missing_and_renamed_fields_are_unknown() -> None:
    nothing = describe(ServerFacts())
    assert (nothing.engine, nothing.context_tokens, nothing.slots, nothing.prompt_cache_bytes) == (
        "llama-server",
        None,
        None,
        None,
    )
    odd = ServerFacts(props={"total_slots": "one", "chat_template": 5, "default_generation_settings": []})
    assert describe(odd).slots is None
    assert describe(odd).template_hash is None
    script = Scripted(
        **{"/props": "[]", "/slots": '[{"id":0}]', "/metrics": "broken {", "/v1/models": "no json"}
    )
    facts = read_facts(Endpoint("http://engine:1", transport=httpx.MockTransport(script)))
    assert facts.props == {}
    assert facts.metrics == ()


def test_facts_of_the_captured_server() -> None:
    facts = read_facts(Endpoint("http://engine:1", transport=httpx.MockTransport(Scripted())))
    info = describe(facts)
    assert info.build == "b1-0c1e570"
    assert info.model_name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert info.weight_format == "Q4_1"
    assert (info.context_tokens, info.slots) == (4096, 1)
    assert speculative(facts) is None


def test_the_users_options_win_and_keys_are_hidden(tmp_path: Path) -> None:
    arguments = (
        "-cram",
        "64",
        "--parallel=2",
        "--api-key",
        "secret,other",
        "--port",
        "1",
        "-fa",
        "on",
        "--temp",
        "-1",
    )
    choice = EngineChoice(engine="llama-server", server_args=arguments, ubatch_tokens=32)
    settings = ServerSettings.of(choice, tmp_path / "server", tmp_path / "m.gguf", 2)
    assert (settings.prompt_cache_mib, settings.slots, settings.ubatch_tokens) == (64, 2, 32)
    assert settings.api_key == "secret"
    assert settings.flags() == {"--api-key": "(hidden)", "-fa": "on", "--temp": "-1"}
    line = settings.command(1234, tmp_path, prefix_cache=True, prompt_cache=True)
    assert value_of(line, ("--cache-ram",)) == "64"
    assert value_of(line, ("--port",)) == "1234"
    assert value_of(line, ("-fa", "--flash-attn")) == "on"
    off = settings.command(1234, tmp_path, prefix_cache=False, prompt_cache=False)
    assert value_of(off, ("--cache-ram",)) == "0"
    assert "--no-cache-prompt" in off
    assert without(("--a", "1", "--b=2", "--c"), ("--a", "--b")) == ("--c",)


def test_one_way_to_have_a_server() -> None:
    with pytest.raises(UsageError, match="not both"):
        open_llama_server(EngineChoice(engine="llama-server", url="http://127.0.0.1:1", server_bin="x"))


def test_a_stream_that_breaks_keeps_what_came(attach: Callable[[Scripted], LlamaServerEngine]) -> None:
    events = (WIRE / "c4.sse").read_text().split("\n\n")
    script = Scripted()
    engine = attach(script)
    script.answers["/completion"] = "\n\n".join(events[:4]) + '\n\ndata: {"index"'
    seen: list[tuple[int, int]] = []
    answer = engine.generate(call(600, on_prompt_progress=lambda done, total: seen.append((done, total))))
    assert script.sent[-1]["stream"] is True
    assert answer.path.token_ids.tolist() == [504, 1296]
    assert answer.stop is StopReason.ERROR
    assert answer.error is not None
    assert "cut inside an event" in answer.error.message
    assert engine.held_ids() is None
    assert seen == [(0, 1), (1, 1)]
