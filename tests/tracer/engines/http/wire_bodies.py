"""Bodies for the parser's tests: captured ones by name, small ones made by hand."""

import json
from pathlib import Path
from typing import Any

from tracer.engines.http.answer import Asked, ParsedAnswer, ParsedChoice, StreamedAnswer, parse_body

WIRE = Path(__file__).parents[4] / "fixtures" / "wire"


def captured(name: str) -> bytes:
    """The response body of a captured exchange; vLLM's files also hold the request."""
    body = (WIRE / name).read_bytes()
    if name.startswith("vllm-0.32"):
        parsed = json.loads(body)
        response = parsed.get("response", parsed)
        return response.encode() if isinstance(response, str) else json.dumps(response).encode()
    return body


def parse(body: Any, **asked: Any) -> ParsedAnswer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_body(raw, Asked(**asked))


def only(answer: ParsedAnswer) -> ParsedChoice:
    assert len(answer.choices) == 1
    return answer.choices[0]


def stream(body: bytes, step: int | None = None, broken: str | None = None, **asked: Any) -> ParsedAnswer:
    reader = StreamedAnswer(Asked(**asked))
    for start in range(0, len(body), step or max(len(body), 1)):
        reader.feed(body[start : start + (step or len(body))])
    return reader.finish(broken)


def events(*chunks: Any, done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode()


def entry(token_id: int | None, token: str, value: Any, tops: Any = None, **more: Any) -> dict[str, Any]:
    named: dict[str, Any] = {"token": token, "logprob": value, "bytes": list(token.encode()), **more}
    if token_id is not None:
        named["id"] = token_id
    if tops is not None:
        named["top_logprobs"] = [entry(i, t, v) for i, t, v in tops]
    return named


def chat(*entries: dict[str, Any], text: str = "", **more: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "logprobs": {"content": list(entries)},
    }
    return {"choices": [choice | {"finish_reason": "stop"}], **more}


def native(tokens: list[int], entries: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "index": 0,
        "content": "",
        "tokens": tokens,
        "stop": True,
        "completion_probabilities": entries,
        **more,
    }
