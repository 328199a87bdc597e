"""The requests of one episode: closed loop with the model's own calls, or teacher-forced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tracer.episode import Message, Outcome, ToolCall, ToolResult, WorkloadSpec
from tracer.request_source import Answer, AnswerDigest, PlannedRequest
from tracer.workloads.base import Tokenizer
from tracer.workloads.bfcl.setup import PACKAGE, VERSION, WHEEL_SHA256
from tracer.workloads.bfcl.worker_process import WorkerLost, WorkerProcess
from tracer.workloads.source import ChatHistory

END_OF_TURN = "Done"
"""What the transcript says when a turn is over; the official decoder finds no call in it."""


class _Episode:
    """What both ways share: the worker, the history, and the counts that the outcome reports."""

    def __init__(self, wheel: Path, spec: WorkloadSpec, tokenizer: Tokenizer) -> None:
        self._wheel = wheel
        self._episode_id = str(spec.params["episode"])
        self._worker = WorkerProcess(wheel, self._episode_id)
        opening = self._worker.opening
        self._turns: list[list[dict[str, str]]] = opening["turns"][: spec.params.get("turns")]
        self._cut_short = len(self._turns) < len(opening["turns"])
        self._step_limit: int = opening["step_limit"]
        self._history = ChatHistory(tokenizer, spec.history)
        self._turn = 0
        self._step = 0
        self._requests = 0
        self._decoded = 0
        self._blocked = 0
        self._ended: str | None = None
        self._open_turn()

    @property
    def planned(self) -> int | None:
        return None

    def next_request(self) -> PlannedRequest | None:
        if self._ended is not None:
            return None
        self._requests += 1
        prompt = self._history.prompt()
        return PlannedRequest(
            prompt_ids=prompt.ids,
            turn=self._turn,
            step=self._step,
            messages_added=prompt.messages_added,
            retokenized_at=prompt.retokenized_at,
        )

    def _open_turn(self) -> None:
        for message in self._turns[self._turn]:
            self._history.add(Message(role=message["role"], content=message["content"]))

    def _close_turn(self) -> None:
        self._turn += 1
        self._step = 0
        if self._turn == len(self._turns):
            self._ended = "completed"
        else:
            self._open_turn()

    def _count(self, answer: dict[str, Any]) -> None:
        self._decoded += answer["kind"] == "calls"
        self._blocked += sum(1 for call in answer["calls"] if call["blocked"])

    def _details(self) -> dict[str, Any]:
        return {
            "turns": self._turn,
            "turns_planned": len(self._turns),
            "steps": self._requests,
            "decoded_steps": self._decoded,
            "decode_rate": self._decoded / self._requests if self._requests else None,
            "blocked_calls": self._blocked,
            "refused_by_sandbox": list(self._worker.refused),
            "isolation": dict(self._worker.opening["isolation"]),
            "package": f"{PACKAGE} {VERSION}",
            "wheel_sha256": WHEEL_SHA256,
        }


class ClosedLoop(_Episode):
    """The model's own calls are executed and their results go back, as in the benchmark.

    A turn ends when nothing can be decoded; more than the benchmark's limit of steps in one turn
    ends the episode. A worker that is lost (an endless call, a limit) ends it too.
    """

    def __init__(self, wheel: Path, spec: WorkloadSpec, tokenizer: Tokenizer) -> None:
        super().__init__(wheel, spec, tokenizer)
        self._executed: list[list[list[str]]] = [[]]

    def digest(self, answer: Answer) -> AnswerDigest:
        self._history.answer(answer.text, answer.token_ids)
        try:
            said = self._worker.step(answer.text)
        except WorkerLost as lost:
            self._ended = f"worker lost: {lost}"
            return AnswerDigest()
        self._count(said)
        if said["kind"] != "calls":
            self._next_turn()
            return AnswerDigest()
        self._executed[-1].append(said["executed"])
        self._history.add(Message(role="user", content=said["message"]))
        self._step += 1
        if self._step > self._step_limit:
            self._ended = "force_terminated"
        return _digest(said["calls"])

    def outcome(self) -> Outcome | None:
        self._worker.close()
        details = self._details()
        ended = self._ended or "unfinished"
        if self._cut_short:
            details |= {"protocol": "closed loop", "not_scored": "only the first turns were asked"}
            return Outcome(ended=ended, details=details)
        verdict: dict[str, Any] = {"valid": False, "error_type": "multi_turn:force_terminated"}
        if ended in ("completed", "force_terminated"):
            # A fresh process: the calls above have left settings of number libraries behind.
            try:
                with WorkerProcess(self._wheel, self._episode_id) as scorer:
                    verdict = scorer.score(self._executed)
            except WorkerLost as lost:
                verdict = {"valid": False, "error_type": f"checker:{lost}"}
        details |= {"protocol": "closed loop", "error_type": verdict["error_type"]}
        return Outcome(score=float(verdict["valid"]), solved=verdict["valid"], ended=ended, details=details)

    def _next_turn(self) -> None:
        self._close_turn()
        if self._ended is None:
            self._executed.append([])


class TeacherForced(_Episode):
    """The prompts of the ground-truth transcript, one call a step, whatever the model answers.

    For models that cannot call these tools. The answers are only decoded, for the decode rate;
    there is no score, since the transcript's own would be meaningless.
    """

    def __init__(self, wheel: Path, spec: WorkloadSpec, tokenizer: Tokenizer) -> None:
        super().__init__(wheel, spec, tokenizer)
        self._transcript: list[list[str]] = self._worker.opening["transcript"]
        self._results = [
            [self._worker.step(f"[{call}]")["message"] for call in turn] for turn in self._transcript
        ]
        """Run before any answer is seen: nothing that a model writes can reach the transcript's tools."""
        self._decoder_lost: str | None = None

    @property
    def planned(self) -> int | None:
        return sum(len(turn) + 1 for turn in self._transcript[: len(self._turns)])

    def digest(self, answer: Answer) -> AnswerDigest:
        digest = self._decode(answer.text)
        calls = self._transcript[self._turn]
        if self._step == len(calls):
            self._history.answer_instead(END_OF_TURN)
            self._close_turn()
        else:
            self._history.answer_instead(f"[{calls[self._step]}]")
            self._history.add(Message(role="user", content=self._results[self._turn][self._step]))
            self._step += 1
        return digest

    def outcome(self) -> Outcome | None:
        self._worker.close()
        details = self._details() | {"protocol": "teacher-forced from the ground truth"}
        if self._decoder_lost is not None:
            details |= {"decode_rate": None, "decoder_lost": self._decoder_lost}
        return Outcome(ended=self._ended or "unfinished", details=details)

    def _decode(self, text: str) -> AnswerDigest:
        """Count what the model's text decodes to; hostile text may end the worker, not the arm."""
        if self._decoder_lost is not None:
            return AnswerDigest()
        try:
            said = self._worker.decode(text)
        except WorkerLost as lost:
            self._decoder_lost = str(lost)
            return AnswerDigest()
        self._count(said)
        return _digest(said["calls"])


def _digest(calls: list[dict[str, Any]]) -> AnswerDigest:
    asked = tuple(
        ToolCall(name=call["name"], arguments=call["source"], blocked=call["blocked"]) for call in calls
    )
    results = tuple(
        ToolResult(name=call["name"], content=call["result"], is_error=_is_error(call["result"]))
        for call in calls
        if "result" in call
    )
    return AnswerDigest(tool_calls=asked, tool_results=results)


def _is_error(result: str) -> bool:
    """The simulated tools answer with a dict that has ``error``; the executor with a sentence."""
    if result.startswith("Error during execution"):
        return True
    try:
        content = json.loads(result)
    except ValueError:
        return False
    return isinstance(content, dict) and "error" in content
