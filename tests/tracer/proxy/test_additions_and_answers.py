"""What goes upstream is the client's body plus our fields; what comes back is what it asked for."""

import json

import pytest

from tracer.engines.http.additions import Added, Route, Upstream, edit_request, route_of
from tracer.proxy.answers import event_for_client, for_client

CHAT = {"model": "m", "messages": [{"role": "user", "content": "é"}], "temperature": 0}


def edited(fields, route=Route.CHAT, upstream=Upstream.OPENAI):
    body = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    found = edit_request(body, route, upstream, 20)
    assert found is not None
    return found


def test_the_clients_own_bytes_stay_as_they_are() -> None:
    body = b'{ "messages" : [],\n "temperature": 1e0, "big": 12345678901234567890123  }\n'
    sent = edited(body).body
    assert sent.startswith(b'{ "messages" : [],\n "temperature": 1e0, "big": 12345678901234567890123')
    assert json.loads(sent) == {**json.loads(body), "logprobs": True, "top_logprobs": 20}


def test_an_empty_object_gets_no_comma() -> None:
    assert json.loads(edited(b"{ }").body) == {"logprobs": True, "top_logprobs": 20}


@pytest.mark.parametrize(
    ("asked", "route"),
    [
        ({"logprobs": True, "top_logprobs": 2}, Route.CHAT),
        ({"n_probs": 3}, Route.CHAT),
        ({"logprobs": 0}, Route.COMPLETIONS),
        ({"logprobs": 3}, Route.COMPLETIONS),
    ],
)
@pytest.mark.parametrize("upstream", [Upstream.OPENAI, Upstream.LLAMA_SERVER])
def test_logprobs_that_the_client_asked_for_are_its_own(asked, route, upstream) -> None:
    request = edited({**CHAT, **asked}, route, upstream)
    assert request.added == frozenset()
    assert request.top_k is None
    assert json.loads(request.body) == {**CHAT, **asked}


def test_a_clients_false_is_replaced_not_doubled() -> None:
    sent = edited({**CHAT, "logprobs": False}).body
    assert sent.count(b'"logprobs"') == 1
    assert json.loads(sent)["logprobs"] is True


def test_tools_in_a_stream_get_llamas_native_field() -> None:
    sent = json.loads(edited({**CHAT, "stream": True, "tools": [{}]}, upstream=Upstream.LLAMA_SERVER).body)
    assert sent["n_probs"] == 20
    assert "logprobs" not in sent
    assert "stream_options" not in sent


def test_usage_is_added_to_streams_and_other_options_kept() -> None:
    request = edited({**CHAT, "stream": True, "stream_options": {"x": 1}})
    assert json.loads(request.body)["stream_options"] == {"x": 1, "include_usage": True}
    assert Added.USAGE in request.added
    asked = edited({**CHAT, "stream": True, "stream_options": {"include_usage": True}})
    assert Added.USAGE not in asked.added


def test_vllm_is_asked_for_ids() -> None:
    request = edited(CHAT, upstream=Upstream.VLLM)
    assert json.loads(request.body)["return_token_ids"] is True
    assert Added.TOKEN_IDS in request.added
    own = edited({**CHAT, "return_token_ids": True}, upstream=Upstream.VLLM)
    assert Added.TOKEN_IDS not in own.added


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"\xff", b'"x"', b"[" * 100_000])
def test_what_is_no_object_is_not_edited(body) -> None:
    assert edit_request(body, Route.CHAT, Upstream.OPENAI, 20) is None


def test_routes() -> None:
    assert route_of("/v1/chat/completions") is Route.CHAT
    assert route_of("/chat/completions/") is Route.CHAT
    assert route_of("/v1/completions") is Route.COMPLETIONS
    assert route_of("/v1/embeddings") is None
    assert route_of("/completion") is None


def answer(**choice):
    return json.dumps({"id": "1", "choices": [{"index": 0, "finish_reason": "stop", **choice}]}).encode()


def test_unasked_logprobs_are_taken_out_as_each_server_would() -> None:
    llama = edited(CHAT, upstream=Upstream.LLAMA_SERVER)
    body = answer(message={"role": "assistant", "content": "a"}, logprobs={"content": []})
    seen = json.loads(for_client(body, llama, Route.CHAT, Upstream.LLAMA_SERVER))
    assert "logprobs" not in seen["choices"][0]
    seen = json.loads(for_client(body, edited(CHAT), Route.CHAT, Upstream.OPENAI))
    assert seen["choices"][0]["logprobs"] is None


def test_asked_logprobs_pass_byte_for_byte() -> None:
    asked = edited({**CHAT, "logprobs": True})
    body = b'{"choices": [ {"logprobs": {"content": [1.50]}}]}'
    assert for_client(body, asked, Route.CHAT, Upstream.OPENAI) is body


def test_an_error_answer_passes_as_it_is() -> None:
    body = b'{"error": {"message": "no"}}'
    assert for_client(body, edited(CHAT), Route.CHAT, Upstream.OPENAI) is body
    assert for_client(b"oops", edited(CHAT), Route.CHAT, Upstream.OPENAI) == b"oops"


def test_the_usage_event_is_kept_back_only_when_we_asked_for_it() -> None:
    usage = b'{"choices":[],"usage":{"prompt_tokens":1}}'
    ours = edited({**CHAT, "stream": True})
    assert event_for_client(usage, ours, Route.CHAT, Upstream.OPENAI) is None
    theirs = edited({**CHAT, "stream": True, "stream_options": {"include_usage": True}})
    assert json.loads(event_for_client(usage, theirs, Route.CHAT, Upstream.OPENAI) or b"")["usage"]
    assert event_for_client(b"[DONE]", ours, Route.CHAT, Upstream.OPENAI) == b"[DONE]"


def test_vllm_ids_become_what_they_are_unasked() -> None:
    request = edited(CHAT, upstream=Upstream.VLLM)
    body = json.dumps({"prompt_token_ids": [1], "choices": [{"token_ids": [2], "logprobs": None}]}).encode()
    seen = json.loads(for_client(body, request, Route.CHAT, Upstream.VLLM))
    assert seen == {"prompt_token_ids": None, "choices": [{"token_ids": None, "logprobs": None}]}
    streamed = edited({**CHAT, "stream": True}, upstream=Upstream.VLLM)
    event = event_for_client(body, streamed, Route.CHAT, Upstream.VLLM)
    assert json.loads(event or b"") == {"choices": [{"logprobs": None}]}
