"""The adapter for anything of OpenAI's shape, against scripted answers."""

import json
from typing import Any

import httpx
import pytest

from tests.tracer.engines.http.wire_bodies import captured, chat, entry
from tracer.engines.base import GenerateCall
from tracer.engines.choice import EngineChoice
from tracer.engines.http.endpoint import Endpoint
from tracer.engines.http.local_ids import FIRST_LOCAL_ID
from tracer.engines.openai import open_openai
from tracer.engines.openai.engine import OpenAIEngine
from tracer.engines.openai.text_ids import TextIds
from tracer.episode import CacheState, EngineInfo, ExposureSource, Identity, Message, Sampling
from tracer.errors import EngineDied, EngineError, EngineMissing, StateRefused, UsageError

MESSAGES = [Message(role="system", content="Be brief."), Message(role="user", content="é🙂?")]


class Server:
    def __init__(self, *answers: Any) -> None:
        self.answers, self.sent = list(answers), []  # type: ignore[var-annotated]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(json.loads(request.content))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        return httpx.Response(status, content=body if isinstance(body, bytes) else json.dumps(body).encode())


def engine(server: Server) -> OpenAIEngine:
    endpoint = Endpoint("http://engine:1", transport=httpx.MockTransport(server))
    return OpenAIEngine(endpoint, EngineInfo(engine="openai"), "m")


def call(opened: OpenAIEngine, **more: Any) -> GenerateCall:
    ids = opened.tokenize(opened.render(MESSAGES, [{"name": "get", "parameters": {}}]))
    return GenerateCall(tuple(ids), Sampling(max_new_tokens=4), **more)


def test_messages_go_out_as_they_came_in() -> None:
    server = Server(captured("llama-server-0c1e570/chat.json"))
    opened = engine(server)
    answer = opened.generate(call(opened))
    sent = server.sent[0]
    assert sent["messages"] == [{"role": m.role, "content": m.content} for m in MESSAGES]
    assert sent["tools"] == [{"type": "function", "function": {"name": "get", "parameters": {}}}]
    assert (sent["logprobs"], sent["top_logprobs"], sent["temperature"]) == (True, 20, 0.0)
    assert answer.identity is Identity.TOKEN_ID
    assert (answer.prompt_tokens, answer.cached_tokens) == (34, 7)
    assert "prompt_ids" in answer.not_observed


def test_what_is_not_there_is_said() -> None:
    bare = {"choices": [{"index": 0, "message": {"content": "two words"}, "finish_reason": "stop"}]}
    opened = engine(Server(bare))
    answer = opened.generate(call(opened))
    assert answer.identity is Identity.TEXT
    assert (answer.prompt_tokens, answer.cached_tokens) == (None, None)
    assert answer.exposure_source is ExposureSource.NOT_OBSERVED
    assert answer.alternatives is None
    assert "margins" in answer.not_observed


def test_a_server_that_refuses_logprobs_is_asked_for_less_once() -> None:
    refused = (400, {"error": {"message": "logprobs are not supported", "type": "invalid_request_error"}})
    bare = chat(text="x")
    server = Server(refused, bare, bare)
    opened = engine(server)
    answer = opened.generate(call(opened))
    assert "refuses logprobs" in answer.not_observed["margins"]
    opened.generate(call(opened))
    assert ["logprobs" in body for body in server.sent] == [True, False, False]
    assert opened.capabilities.top_k == 0


def test_reasoning_and_tool_calls_are_kept_apart() -> None:
    body = chat(entry(None, "hm", -0.5), entry(None, "x", -1.0), text="x")
    body["choices"][0]["message"] |= {
        "reasoning": "hm",
        "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
    }
    opened = engine(Server(body))
    answer = opened.generate(call(opened))
    assert answer.text == "x"
    assert answer.extra == {"reasoning": "hm", "tool_calls": [{"name": "f", "arguments": "{}"}]}
    assert opened.piece(int(answer.path.token_ids[0])) == b"hm"


def test_prompts_as_ids_are_exact_and_the_same_in_any_process() -> None:
    one, other = TextIds(), TextIds()
    ids = one.ids("é🙂 x")
    assert other.text(ids) == "é🙂 x"
    assert min(ids) >= FIRST_LOCAL_ID
    assert other.text([*ids, 5]) is None


def test_what_it_cannot_do_is_refused() -> None:
    opened = engine(Server())
    assert opened.capabilities.states == (CacheState.AS_SERVED,)
    with pytest.raises(UsageError, match="--history messages"):
        opened.generate(GenerateCall((1, 2, 3), Sampling()))
    with pytest.raises(UsageError, match="--history messages"):
        opened.generate(GenerateCall(tuple(opened.tokenize("plain text")), Sampling()))
    for refused in (
        opened.reset,
        opened.save_state,
        lambda: opened.cut(1),
        lambda: opened.decode_into_cache([1]),
    ):
        with pytest.raises(StateRefused, match="as-served"):
            refused()
    with pytest.raises(StateRefused):
        opened.generate(call(opened, use_cache=False))


def test_errors_have_names() -> None:
    gone = engine(Server(httpx.ConnectError("refused")))
    with pytest.raises(EngineDied):
        gone.generate(call(gone))
    wrong = engine(Server((401, {"error": {"message": "no key", "type": "auth"}})))
    with pytest.raises(EngineError, match="no key"):
        wrong.generate(call(wrong))
    with pytest.raises(UsageError, match="--url"):
        open_openai(EngineChoice(engine="openai"))
    with pytest.raises(EngineMissing, match="No server answers"):
        open_openai(EngineChoice(engine="openai", url="http://127.0.0.1:9"))
