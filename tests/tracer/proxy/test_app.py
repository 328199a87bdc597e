"""The proxy on real sockets: what passes, what is recorded, and what happens when something breaks."""

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.tracer.proxy.serving import ScriptedUpstream, proxied, served
from tracer.episode import CacheState, ExposureSource, Identity, StopReason
from tracer.tracefile import TraceReader


def body(text: str, **more: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "seed": 1, **more}


def only_trace(folder: Path) -> TraceReader:
    (path,) = folder.glob("*.msgpack")
    return TraceReader.open(path)


def test_client_sees_what_it_asked_for_and_the_trace_has_the_numbers(tmp_path: Path) -> None:
    upstream = ScriptedUpstream()
    with served(upstream.app) as direct, proxied(tmp_path, direct) as url:
        through = httpx.post(url + "/v1/chat/completions", json=body("a b c")).json()
        plain = httpx.post(direct + "/v1/chat/completions", json=body("a b c")).json()
    assert through == plain
    with only_trace(tmp_path) as trace:
        (arm,) = trace.arms
        (request,) = trace.requests(arm)
        assert arm.state is CacheState.AS_SERVED
        assert trace.end(arm) is not None
        assert request.text == "a b c"
        assert request.identity is Identity.TOKEN_STRING
        assert request.exposure.cached_tokens == 4
        assert request.exposure.source is ExposureSource.USAGE
        assert request.stop is StopReason.STOP
        assert request.serial
        assert json.loads(request.http_body or b"") == body("a b c")
        assert request.timing.proxy_added_s is not None
        alternatives = trace.alternatives(arm, 0)
        assert alternatives is not None
        assert alternatives.counts.tolist() == [2, 2, 2]
        assert trace.piece(int(trace.path(arm, 0).token_ids[1])) == b"b"


def test_what_a_client_did_not_send_is_not_called_greedy(tmp_path: Path) -> None:
    asked = body("a")
    del asked["temperature"]
    with served(ScriptedUpstream().app) as direct, proxied(tmp_path, direct) as url:
        httpx.post(url + "/v1/chat/completions", json=asked)
    with only_trace(tmp_path) as trace:
        assert not trace.arms[0].sampling.greedy
        assert not trace.requests(trace.arms[0])[0].sampling.greedy
        assert trace.arms[0].sampling.described == "temperature –, seed 1, at most – new tokens"


def test_a_stream_arrives_event_by_event_without_our_additions(tmp_path: Path) -> None:
    upstream = ScriptedUpstream()
    with served(upstream.app) as direct, proxied(tmp_path, direct) as url:
        asked = body("a b c", stream=True)
        through = httpx.post(url + "/v1/chat/completions", json=asked).text
        plain = httpx.post(direct + "/v1/chat/completions", json=asked).text
    assert [json.loads(e[6:]) for e in through.split("\n\n") if e.startswith("data: {")] == [
        json.loads(e[6:]) for e in plain.split("\n\n") if e.startswith("data: {")
    ]
    assert through.endswith("data: [DONE]\n\n")
    with only_trace(tmp_path) as trace:
        (request,) = trace.requests(trace.arms[0])
        assert request.output_tokens == 3
        assert request.exposure.cached_tokens == 4


def test_other_routes_pass_untouched_and_unrecorded(tmp_path: Path) -> None:
    with served(ScriptedUpstream().app) as direct, proxied(tmp_path, direct) as url:
        models = httpx.get(url + "/v1/models")
        assert models.json() == {"data": [{"id": "m"}]}
        assert models.headers["x-custom"] == "kept"
        assert httpx.get(url + "/moved").status_code == 302
        assert httpx.get(url + "/nothing").status_code == 404
    assert list(tmp_path.iterdir()) == []


def test_keys_go_upstream_and_never_to_disk(tmp_path: Path) -> None:
    upstream, said = ScriptedUpstream(), list[str]()
    secret = "sk-abcdefghijklmnopqrstuvwxyz0123456789"
    headers = {"authorization": f"Bearer {secret}", "cookie": "session=1", "x-cachetrace-episode": "mine"}
    with served(upstream.app) as direct, proxied(tmp_path, direct, said.append) as url:
        httpx.post(url + "/v1/chat/completions", json=body("hello"), headers=headers)
    assert upstream.headers[0]["authorization"] == f"Bearer {secret}"
    assert "x-cachetrace-episode" not in upstream.headers[0]
    stored = (tmp_path / "mine.msgpack").read_bytes()
    assert secret.encode() not in stored
    assert b"session=1" not in stored


def test_secrets_in_bodies_are_warned_of_or_redacted(tmp_path: Path) -> None:
    said: list[str] = []
    secret = "my key is sk-abcdefghijklmnopqrstuvwxyz0123456789"
    with served(ScriptedUpstream().app) as direct:
        with proxied(tmp_path / "plain", direct, said.append) as url:
            httpx.post(url + "/v1/chat/completions", json=body(secret))
        with proxied(tmp_path / "redacted", direct, redact=True) as url:
            httpx.post(url + "/v1/chat/completions", json=body(secret))
    assert any("secret" in sentence for sentence in said)
    with only_trace(tmp_path / "redacted") as trace:
        (request,) = trace.requests(trace.arms[0])
        assert request.http_body is None
        assert request.text == "[redacted]"
        assert request.messages_added == ()


@pytest.mark.parametrize(("fault", "status"), [("500", 500), ("400", 400), ("redirect", 307)])
def test_upstream_errors_reach_the_client_and_the_trace(tmp_path: Path, fault: str, status: int) -> None:
    upstream = ScriptedUpstream()
    with served(upstream.app) as direct, proxied(tmp_path, direct) as url:
        answer = httpx.post(url + "/v1/chat/completions", json=body("a", fault=fault))
    assert answer.status_code == status
    assert len(upstream.seen) == 1, "nothing is sent twice"
    with only_trace(tmp_path) as trace:
        (request,) = trace.requests(trace.arms[0])
        assert request.error is not None
        assert request.output_tokens == 0


def test_a_broken_stream_keeps_what_came(tmp_path: Path) -> None:
    with served(ScriptedUpstream().app) as direct, proxied(tmp_path, direct) as url:
        asked = body("a b c d", stream=True, fault="break")
        with (
            contextlib.suppress(httpx.HTTPError),
            httpx.stream("POST", url + "/v1/chat/completions", json=asked) as answer,
        ):
            assert b"[DONE]" not in answer.read()
    with only_trace(tmp_path) as trace:
        (request,) = trace.requests(trace.arms[0])
        assert request.error is not None
        assert request.output_tokens == 2


def test_a_client_that_goes_away_is_recorded_as_such(tmp_path: Path) -> None:
    with served(ScriptedUpstream().app) as direct, proxied(tmp_path, direct) as url:
        asked = body("a b c d e f", stream=True, delay=0.1)
        with httpx.stream("POST", url + "/v1/chat/completions", json=asked) as answer:
            next(answer.iter_bytes())
        httpx.post(url + "/v1/chat/completions", json=body("later"), timeout=60)
    requests = []
    for path in tmp_path.glob("*.msgpack"):
        with TraceReader.open(path) as trace:
            requests += trace.requests(trace.arms[0])
    gone = [r for r in requests if r.error is not None]
    assert len(requests) == 2
    assert len(gone) == 1
    assert "client" in gone[0].error.message  # type: ignore[union-attr]


def test_a_client_that_closes_after_the_last_event_had_all_of_it(tmp_path: Path) -> None:
    with served(ScriptedUpstream().app) as direct, proxied(tmp_path, direct) as url:
        asked = body("a b", stream=True)
        with httpx.stream("POST", url + "/v1/chat/completions", json=asked) as answer:
            for line in answer.iter_lines():
                if line == "data: [DONE]":
                    break
    with only_trace(tmp_path) as trace:
        (request,) = trace.requests(trace.arms[0])
        assert request.error is None
        assert request.output_tokens == 2


def test_an_upstream_that_is_not_there_is_named(tmp_path: Path) -> None:
    with proxied(tmp_path, "http://127.0.0.1:9") as url:
        answer = httpx.post(url + "/v1/chat/completions", json=body("a"))
    assert answer.status_code == 502
    assert "127.0.0.1:9" in answer.json()["error"]["message"]
    with only_trace(tmp_path) as trace:
        assert trace.requests(trace.arms[0])[0].error is not None


def test_strangers_are_refused(tmp_path: Path) -> None:
    upstream = ScriptedUpstream()
    with served(upstream.app) as direct, proxied(tmp_path, direct) as url:
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            assert (
                httpx.post(url + "/v1/chat/completions", json=body("a"), headers=headers).status_code == 403
            )
    assert upstream.seen == []


def test_many_clients_at_once_lose_and_mix_nothing(tmp_path: Path) -> None:
    def ask(number: int) -> tuple[str, str]:
        text = f"client {number} says {number * 7}"
        headers = {"x-cachetrace-episode": f"e{number % 8}"}
        asked = body(text, delay=0.001, stream=number % 2 == 0)
        answer = httpx.post(url + "/v1/chat/completions", json=asked, headers=headers, timeout=60)
        if number % 2:
            return text, answer.json()["choices"][0]["message"]["content"]
        events = [json.loads(e[6:]) for e in answer.text.split("\n\n") if e.startswith("data: {")]
        return text, " ".join(e["choices"][0]["delta"].get("content", "") for e in events).strip()

    with (
        served(ScriptedUpstream().app) as direct,
        proxied(tmp_path, direct) as url,
        ThreadPoolExecutor(16) as pool,
    ):
        answers = list(pool.map(ask, range(120)))
    assert all(text == seen for text, seen in answers)
    texts = set()
    for path in tmp_path.glob("*.msgpack"):
        with TraceReader.open(path) as trace:
            assert not trace.losses
            for request in trace.requests(trace.arms[0]):
                texts.add(request.text.replace(" ", ""))
                assert int(
                    str(request.text.replace(" ", "").split("says")[0].removeprefix("client"))
                ) % 8 == int(path.stem[1:])
            assert any(not request.serial for request in trace.requests(trace.arms[0]))
    assert texts == {text.replace(" ", "") for text, _ in answers}
