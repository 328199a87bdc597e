"""Hostile wire inputs about transport: events, breaks, errors in the middle, several choices."""

import gzip
import json
from collections.abc import Iterator

import httpx
import pytest

from tests.tracer.engines.http.wire_bodies import captured, chat, entry, events, native, only, parse, stream
from tracer.engines.http.answer import Asked, parse_body
from tracer.engines.http.endpoint import Endpoint, clean_url
from tracer.engines.http.refusals import HttpPromptTooLong, HttpRefusal, refusal_of
from tracer.engines.http.sse import SseReader
from tracer.engines.http.wire import WireError
from tracer.episode import StopReason
from tracer.errors import EngineDied, EngineError, EngineMissing, PromptTooLong, UsageError


def delta(text: str | None, index: int = 0, **more: object) -> dict[str, object]:
    return {"choices": [{"index": index, "delta": {"content": text}, **more}]}


def test_native_stream_with_progress_pieces_that_are_no_tokens() -> None:
    seen: list[tuple[int, int]] = []
    from tracer.engines.http.answer import StreamedAnswer

    reader = StreamedAnswer(Asked(top_k=2), lambda done, total: seen.append((done, total)))
    reader.feed(captured("llama-server-0c1e570/c4.sse"))
    answer = reader.finish()
    assert list(only(answer).path.token_ids) == [504, 1296, 5574]
    assert seen == [(0, 1), (1, 1)]
    assert answer.count.cached_tokens == 40
    assert answer.first_token_s is not None


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, 100_000])
@pytest.mark.parametrize(
    "name", ["c4.sse", "chat.sse", "more_tools_nprobs_stream.txt", "more_compl_stream_usage.txt"]
)
def test_13_any_split_gives_the_same_answer(name: str, step: int) -> None:
    body = captured(f"llama-server-0c1e570/{name}")
    whole, split = stream(body, top_k=2), stream(body, step, top_k=2)
    assert list(only(whole).path.token_ids) == list(only(split).path.token_ids)
    assert only(whole).text == only(split).text
    assert whole.count == split.count


@pytest.mark.parametrize("step", [1, 2, 5, 1000])
def test_13_comments_line_ends_and_split_characters(step: int) -> None:
    body = json.dumps(delta("é🙂"), ensure_ascii=False).encode()
    for end in (b"\n", b"\r\n", b"\r"):
        raw = b": ping" + end + b"event: x" + end + b"data:" + body + end + end + b": ping" + end + end
        raw += b"data: " + body + end + end + b"data: [DONE]" + end + end
        answer = stream(raw, step)
        assert only(answer).text == "é🙂é🙂"
        assert answer.error is None


def test_13_several_data_lines_are_one_event() -> None:
    assert list(SseReader().feed(b"data: {\ndata: }\n\n")) == [b"{\n}"]


def test_11_and_12_null_content_and_a_last_chunk_without_logprobs() -> None:
    answer = stream(captured("llama-server-0c1e570/chat.sse"), top_k=2)
    assert only(answer).text == "1. Ban"
    assert only(answer).stop is StopReason.LENGTH
    assert len(only(answer).path) == 3


def test_14_a_stream_of_zero_bytes() -> None:
    answer = stream(b"")
    assert answer.choices == ()
    assert answer.error is not None
    assert "empty stream" in answer.error.message


def test_15_an_error_after_some_tokens_keeps_them() -> None:
    good = {
        "choices": [{"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [entry(5, "a", -0.5)]}}]
    }
    answer = stream(
        events(good, {"error": {"code": 500, "message": "out of memory", "type": "server_error"}})
    )
    assert list(only(answer).path.token_ids) == [5]
    assert only(answer).stop is StopReason.ERROR
    assert answer.error is not None
    assert (answer.error.kind, answer.error.http_status) == ("server_error", 500)
    assert answer.error.message == "out of memory"


def test_16_a_stream_cut_inside_an_event() -> None:
    body = events(delta("one"), delta("two"), delta("three"), done=False)
    answer = stream(body[:-20])
    assert only(answer).text == "onetwo"
    assert answer.error is not None
    assert "cut inside an event" in answer.error.message
    complete = stream(body[:-2])
    assert only(complete).text == "onetwothree"
    assert complete.error is None


def test_17_18_19_refusals() -> None:
    long = refusal_of(400, captured("llama-server-0c1e570/err3.txt").splitlines()[0])
    assert isinstance(long, HttpPromptTooLong)
    assert isinstance(long, PromptTooLong)
    assert "6001" in str(long)
    assert long.error.http_status == 400
    vllm = refusal_of(400, captured("vllm-0.32.0-cpu/err_ctx.json"))
    assert isinstance(vllm, HttpPromptTooLong)
    assert len(str(vllm)) < 600
    no_slots = (
        b'{"error":{"code":501,"message":"This server does not support slots","type":"not_supported_error"}}'
    )
    refused = refusal_of(501, no_slots)
    assert isinstance(refused, HttpRefusal)
    assert (refused.error.kind, refused.error.http_status) == ("not_supported_error", 501)
    broken = refusal_of(500, captured("llama-server-0c1e570/err2.txt").splitlines()[0])
    assert broken.error.kind == "server_error"
    assert refusal_of(404, b'{"detail":"Not Found"}').error.message == "Not Found"
    assert refusal_of(422, b'{"detail":[{"msg":"field required"}]}').error.message == "field required"
    assert refusal_of(502, b"<html>Bad Gateway</html>").error.message == "<html>Bad Gateway</html>"
    assert "503" in refusal_of(503, b"").error.message


def test_17_plain_json_although_a_stream_was_asked() -> None:
    answer = stream(captured("llama-server-0c1e570/chat.json"), top_k=3)
    assert len(only(answer).path) == 5


def test_17_a_large_plain_answer_although_a_stream_was_asked() -> None:
    large = json.dumps(native([1], [entry(1, "a", -1.0)], prompt="x" * 3_000_000)).encode()
    assert list(only(stream(large, 65_536, top_k=0)).path.token_ids) == [1]


def test_31_tokens_and_chunks_are_not_one_to_one() -> None:
    two = {
        "choices": [
            {"index": 0, "text": "ab", "logprobs": {"content": [entry(1, "a", -1), entry(2, "b", -2)]}}
        ]
    }
    none = {"choices": [{"index": 0, "text": "", "logprobs": {"content": [entry(3, "", -3)]}}]}
    text_only = {"choices": [{"index": 0, "text": "c", "logprobs": None}]}
    choice = only(stream(events(two, none, text_only)))
    assert list(choice.path.token_ids) == [1, 2, 3]
    assert choice.text == "abc"


def test_36_interleaved_choices_do_not_mix() -> None:
    chunks = [delta(text, index) for text, index in (("a", 0), ("x", 1), ("b", 0), ("y", 1))]
    first, second = stream(events(*chunks)).choices
    assert (first.text, second.text) == ("ab", "xy")
    whole = parse(captured("vllm-0.32.0-cpu/cmpl_n2.json"))
    assert [choice.index for choice in whole.choices] == [0, 1]


def test_37_missing_and_odd_names() -> None:
    answer = parse(chat(entry(1, "a", -1.0), model="other", system_fingerprint=None, id="same"))
    assert (answer.model, answer.fingerprint) == ("other", None)


def test_32_tool_calls_arrive_in_parts() -> None:
    def part(**function: str) -> dict[str, object]:
        return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": function}]}}]}

    choice = only(
        stream(events(part(name="get", arguments=""), part(arguments='{"a"'), part(arguments=":1}")))
    )
    assert choice.tool_calls == ({"name": "get", "arguments": '{"a":1}'},)


@pytest.mark.parametrize(
    "body", [b"", b"   ", b"nonsense", b'"text"', b"[" * 100_000, b'{"choices":[{"index":"x"}]}']
)
def test_16_what_is_no_answer_is_refused_in_one_sentence(body: bytes) -> None:
    with pytest.raises(WireError):
        parse_body(body, Asked())


def test_unknown_logprobs_cost_the_numbers_only() -> None:
    answer = parse(
        {"choices": [{"index": 0, "message": {"content": "hi"}, "logprobs": {"content": [{"id": "x"}]}}]}
    )
    assert only(answer).text == "hi"
    assert "form that is not known" in answer.notes[0]


def test_broken_utf8_and_lone_surrogates_are_read() -> None:
    assert only(parse(b'{"content":"a\xff","stop":true}')).text == "a\ufffd"
    assert only(parse(b'{"content":"a\\ud83e","stop":true}')).text == "a\ufffd"


class Dripping(httpx.SyncByteStream):
    """A chunked body that breaks after some parts."""

    def __init__(self, parts: list[bytes], broken: bool = False) -> None:
        self.parts, self.broken = parts, broken

    def __iter__(self) -> Iterator[bytes]:
        yield from self.parts
        if self.broken:
            raise httpx.RemoteProtocolError("peer closed connection")


def endpoint(answer: object) -> Endpoint:
    return Endpoint("http://engine:1", transport=httpx.MockTransport(answer))  # type: ignore[arg-type]


def test_43_gzip_chunks_large_prompts_and_deep_objects() -> None:
    body = gzip.compress(json.dumps(native([1], [entry(1, "a", -1.0)], prompt="x" * 1_000_000)).encode())
    parts = [body[i : i + 1000] for i in range(0, len(body), 1000)]
    server = endpoint(
        lambda _: httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Dripping(parts))
    )
    assert list(only(parse_body(server.post("/completion", {}).body, Asked())).path.token_ids) == [1]
    deep = b'{"content":"a","stop":true,"__verbose":' + b'{"a":' * 500 + b"1" + b"}" * 501
    assert only(parse(deep)).text == "a"
    server.close()


def test_40_a_connection_that_breaks_is_a_death_and_is_not_tried_again() -> None:
    calls: list[str] = []

    def dies(request: httpx.Request) -> httpx.Response:
        calls.append(request.url.path)
        raise httpx.RemoteProtocolError("Server disconnected without sending a response.")

    server = endpoint(dies)
    with pytest.raises(EngineDied, match="broke while the request was running"):
        server.post("/completion", {})
    assert calls == ["/completion"]

    def absent(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(EngineMissing, match="--url"):
        endpoint(absent).post("/completion", {})

    def slow(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow")

    with pytest.raises(EngineError, match="in time"):
        endpoint(slow).get("/props")


def test_16_a_broken_stream_tells_how_much_came() -> None:
    parts = [events(delta("one"), done=False)]
    server = endpoint(lambda _: httpx.Response(200, stream=Dripping(parts, broken=True)))
    received = bytearray()
    end = server.stream("/v1/completions", {}, received.extend)
    assert end.broken is not None
    assert only(stream(bytes(received), broken=end.broken)).text == "one"
    assert stream(bytes(received), broken=end.broken).error is not None


def test_redirects_are_not_followed() -> None:
    server = endpoint(lambda _: httpx.Response(302, headers={"location": "http://elsewhere/"}))
    assert server.get("/props").status == 302


def test_addresses_lose_their_secrets() -> None:
    assert clean_url("http://me:secret@host:8080/base/?key=1#x") == "http://host:8080/base"
    assert clean_url("127.0.0.1:8080") == "http://127.0.0.1:8080"
    assert clean_url("http://[::1]:80") == "http://[::1]:80"
    for wrong in ("ftp://host", "http://", "http://user:pw@host:nope"):
        with pytest.raises(UsageError) as caught:
            clean_url(wrong)
        assert "pw" not in str(caught.value)
