"""What a server says when it says no, in the forms of llama.cpp, vLLM, SGLang and FastAPI."""

from __future__ import annotations

from typing import Any

from tracer.engines.http.wire import WireError, decode_wire
from tracer.episode import RequestError
from tracer.errors import EngineError, PromptTooLong

MAX_MESSAGE = 400
"""vLLM repeats the whole prompt in its refusals."""


class HttpRefusal(EngineError):
    """The server answered with an error. ``error`` has its kind and status."""

    def __init__(self, error: RequestError) -> None:
        self.error = error
        super().__init__(f"The server refused the request ({error.kind}): {error.message}")


class HttpPromptTooLong(PromptTooLong):
    """The server says that the prompt does not fit into its context."""

    def __init__(self, error: RequestError) -> None:
        self.error = error
        super().__init__(f"The prompt does not fit into the server's context: {error.message}")


def refusal_of(status: int, body: bytes) -> HttpRefusal | HttpPromptTooLong:
    """The error for an answer whose status is 400 or more."""
    try:
        answers, _ = decode_wire(body)
        said = answers[0].error if answers and answers[0].error is not None else None
        if said is None and answers:
            answer = answers[0]
            said = answer.detail if answer.detail is not None else answer.message
    except WireError:
        said = body[:MAX_MESSAGE].decode("utf-8", "replace").strip() or None
    return refusal(error_object(said, status))


def refusal(error: RequestError) -> HttpRefusal | HttpPromptTooLong:
    """The exception that fits an error object."""
    text = error.message.lower()
    too_long = error.kind == "exceed_context_size_error" or (
        error.http_status in (400, 413, 422) and ("context length" in text or "context size" in text)
    )
    return HttpPromptTooLong(error) if too_long else HttpRefusal(error)


def error_object(said: Any, status: int | None) -> RequestError:
    """An ``error`` or ``detail`` value, whatever its form, as a record."""
    kind, message = "server_error" if status is None or status >= 500 else "invalid_request_error", ""
    if isinstance(said, dict):
        kind = _text(said.get("type")) or kind
        message = _text(said.get("message")) or _text(said.get("detail"))
        code = said.get("code")
        if status in (None, 200) and isinstance(code, int) and 400 <= code < 600:
            status = code
        counts = [
            f"{key} {said[key]}" for key in ("n_prompt_tokens", "n_ctx") if isinstance(said.get(key), int)
        ]
        if counts:
            message = f"{message} ({', '.join(counts)})"
    elif isinstance(said, list):
        message = "; ".join(_text(item.get("msg")) for item in said if isinstance(item, dict))
    else:
        message = _text(said)
    if not message:
        message = f"HTTP status {status} without an explanation" if status else "no explanation"
    return RequestError(kind=kind, message=message[:MAX_MESSAGE], http_status=status)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
