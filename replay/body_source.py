"""Prompts as recorded bodies: the way ``body``, for recordings through the proxy.

The stored request is sent again on its own route with only cache fields changed, so that tool grammar,
response format and sampling stay. The prompt's ids only say what it comes to: they were returned by the
server when it was recorded, or the engine in hand makes them with its own template and tokenizer.
"""

from __future__ import annotations

from tracer.episode import Arm, Outcome, Request
from tracer.errors import StateRefused, UsageError
from tracer.http_body import BodyEngine, HttpBody
from tracer.request_source import Answer, AnswerDigest, PlannedRequest
from tracer.tracefile import TraceReader


def is_body_recording(trace: TraceReader, arm: Arm) -> bool:
    """Whether an arm was recorded through the proxy, body by body."""
    requests = trace.requests(arm)
    return bool(requests) and all(r.http_route is not None for r in requests if r.error is None)


class BodySource:
    """A ``RequestSource`` that sends what a client sent, whatever is answered now."""

    def __init__(self, trace: TraceReader, arm: Arm, engine: object, *, requests: int | None = None) -> None:
        """Raises ``StateRefused`` for an engine without bodies, ``UsageError`` if a body is not there."""
        if not isinstance(engine, BodyEngine):
            raise StateRefused(
                "this trace was recorded through the proxy and replays on the server's own routes; "
                "use --engine llama-server or vllm with --url or --server-bin."
            )
        self._trace = trace
        self._arm = arm
        self._engine = engine
        self._requests = self._sendable()[:requests]
        self._next = 0

    @property
    def planned(self) -> int | None:
        """The number of recorded requests before the first that failed."""
        return len(self._requests)

    def next_request(self) -> PlannedRequest | None:
        """The next recorded request. Raises ``UsageError`` when its prompt ids cannot be known."""
        if self._next == len(self._requests):
            return None
        request = self._requests[self._next]
        self._next += 1
        assert request.http_route is not None
        assert request.http_body is not None
        body = HttpBody(request.http_route, request.http_body)
        return PlannedRequest(
            prompt_ids=self._prompt_ids(request, body),
            turn=request.turn,
            step=request.step,
            messages_added=request.messages_added,
            recorded_output_ids=self._output(request),
            body=body,
            sampling=request.sampling,
        )

    def digest(self, answer: Answer) -> AnswerDigest:
        """The recorded tool calls when the answer is the recorded one, else nothing."""
        request = self._requests[self._next - 1]
        if answer.token_ids != self._output(request):
            return AnswerDigest()
        return AnswerDigest(request.tool_calls, request.tool_results)

    def outcome(self) -> Outcome | None:
        """Sent bodies do not lead to an outcome of their own."""
        return None

    def _output(self, request: Request) -> tuple[int, ...]:
        return tuple(self._trace.path(self._arm, request.index).token_ids.tolist())

    def _prompt_ids(self, request: Request, body: HttpBody) -> tuple[int, ...]:
        stored = self._trace.prompt_ids(self._arm, request.index)
        ids = self._engine.body_prompt_ids(body) if stored is None else tuple(stored.tolist())
        if ids is None:
            raise UsageError(
                f"the prompt ids of request {request.index} are not in the trace and this server cannot "
                "make them from the body, so its exposure could not be held against anything."
            )
        return ids

    def _sendable(self) -> list[Request]:
        # Up to the first that failed: sending a later one at its place would pair the wrong requests.
        answered: list[Request] = []
        for request in self._trace.requests(self._arm):
            if request.error is not None:
                break
            answered.append(request)
            if request.http_body is None:
                raise UsageError(
                    f"the body of request {request.index} was not kept (a redacted recording), "
                    "so it cannot be sent again."
                )
        if not answered:
            raise UsageError(f"arm {self._arm.label} has no request that was answered.")
        return answered
