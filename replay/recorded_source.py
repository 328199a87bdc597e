"""Prompts from a recorded arm: the ways ``fixed`` and ``forced``, and the tokens that lockstep follows."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.episode import Arm, Identity, Outcome, Request, Way
from tracer.errors import UsageError
from tracer.request_source import Answer, AnswerDigest, PlannedRequest
from tracer.tracefile import TraceReader


class RecordedSource:
    """A ``RequestSource`` that asks what a recorded arm asked, whatever is answered now.

    An answer that equals the recorded one gets the recorded tool calls and results, since the agent
    would have done the same; another answer gets none: what the agent would have made of it is not known.
    """

    def __init__(
        self, trace: TraceReader, arm: Arm, *, forced: bool = False, requests: int | None = None
    ) -> None:
        """``requests``: only the first so many.

        Raises ``UsageError`` if a prompt, or with ``forced`` an output, is not there as token ids.
        """
        self._trace = trace
        self._arm = arm
        self._forced = forced
        self._requests = _replayable(trace, arm, forced=forced)[:requests]
        self._next = 0

    @property
    def planned(self) -> int | None:
        """The number of recorded requests."""
        return len(self._requests)

    def next_request(self) -> PlannedRequest | None:
        """The next recorded request."""
        if self._next == len(self._requests):
            return None
        request = self._requests[self._next]
        self._next += 1
        prompt = self._trace.prompt_ids(self._arm, request.index)
        if prompt is None:
            raise UsageError(
                f"request {request.index} of arm {self._arm.label} has no prompt ids, so it cannot be "
                "replayed; `cachetrace validate` says whether they were lost."
            )
        output = tuple(self._trace.path(self._arm, request.index).token_ids.tolist())
        return PlannedRequest(
            prompt_ids=tuple(prompt.tolist()),
            turn=request.turn,
            step=request.step,
            messages_added=request.messages_added,
            max_new_tokens=request.sampling.max_new_tokens,
            forced_ids=output if self._forced else None,
            recorded_output_ids=output,
            retokenized_at=request.retokenized_at,
        )

    def digest(self, answer: Answer) -> AnswerDigest:
        """The recorded tool calls and results when the answer is the recorded one, else nothing."""
        request = self._requests[self._next - 1]
        recorded = tuple(self._trace.path(self._arm, request.index).token_ids.tolist())
        if answer.token_ids != recorded:
            return AnswerDigest()
        return AnswerDigest(request.tool_calls, request.tool_results)

    def outcome(self) -> Outcome | None:
        """Fixed prompts do not lead to an outcome of their own."""
        return None


def source_arm(trace: TraceReader, label: str | int | None = None) -> Arm:
    """The arm whose prompts are followed: the recording, else the first arm. Raises ``UsageError``."""
    from replay.divergence.pairing import resolve_arm

    if label is not None:
        return trace.arms[resolve_arm(trace, label)]
    if not trace.arms:
        raise UsageError("this trace has no arm yet, so there is nothing to replay.")
    return min(trace.arms, key=lambda arm: (arm.way is not Way.RECORDED, arm.index))


def _replayable(trace: TraceReader, arm: Arm, *, forced: bool) -> Sequence[Request]:
    """The recorded requests up to the first that cannot be asked again."""
    requests: list[Request] = []
    for request in trace.requests(arm):
        if request.prompt is None:
            raise UsageError(
                f"request {request.index} of arm {arm.label} was not recorded with the ids of its prompt, "
                "so it cannot be sent again."
            )
        if forced and request.identity is not Identity.TOKEN_ID:
            raise UsageError(
                f"request {request.index} of arm {arm.label} was not recorded with token ids, so its output "
                "cannot be decoded again."
            )
        if forced and request.error is not None:
            break
        requests.append(request)
    if not requests:
        raise UsageError(f"arm {arm.label} has no request that can be replayed.")
    return requests
