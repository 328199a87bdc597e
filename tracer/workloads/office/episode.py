"""The agent of ``office``: turns answers into tool calls, and tool results into the next prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from tracer.episode import Message, Outcome, ToolCall, ToolResult, WorkloadSpec
from tracer.errors import UsageError
from tracer.request_source import Answer, AnswerDigest, PlannedRequest, RequestSource
from tracer.workloads.base import Tokenizer, Workload
from tracer.workloads.office.desk import Desk
from tracer.workloads.office.handbook import SYSTEM_PROMPT
from tracer.workloads.office.transcript import TURNS, Turn
from tracer.workloads.options import refuse_options
from tracer.workloads.source import ChatHistory, History

VERSION = "1"
_MOST_STEPS = 4


class OfficeFamily:
    """``--workload office``: one episode, ``office``."""

    name = "office"

    def episodes(
        self,
        *,
        turns: int | None = None,
        agent: Literal["model", "oracle"] | None = None,
        history: History | None = None,
        **options: Any,
    ) -> Iterator[Workload]:
        """The first ``turns`` (1 to 10) user turns; the oracle drives unless the agent is the model."""
        refuse_options(self.name, options)
        self.check_options(turns=turns)
        turns = len(TURNS) if turns is None else turns
        yield Office(turns, agent or "oracle", history or "ids")

    def check_options(self, *, turns: int | None = None, **_: Any) -> None:
        """Raise ``UsageError`` for more turns than there are."""
        if turns is not None and not 1 <= turns <= len(TURNS):
            raise UsageError(f"office has {len(TURNS)} turns, so turns takes 1 to {len(TURNS)}.")

    def from_spec(self, spec: WorkloadSpec) -> Workload:
        """The same episode again, from what the trace holds."""
        if spec.version != VERSION:
            raise UsageError(
                f"this episode was recorded with version {spec.version!r} of office and this is {VERSION!r}; "
                "its prompts can be replayed as they are, without --closed-loop."
            )
        turns = spec.params.get("turns")
        if not isinstance(turns, int) or not 1 <= turns <= len(TURNS):
            raise UsageError("the trace names a number of office turns that does not exist.")
        return Office(turns, spec.agent, spec.history)


class Office:
    """One office episode of the first ``turns`` user turns."""

    def __init__(self, turns: int, agent: Literal["model", "oracle"], history: History) -> None:
        self._turns = TURNS[:turns]
        self.spec = WorkloadSpec(
            name="office", params={"turns": turns}, history=history, agent=agent, version=VERSION
        )

    @property
    def episode_id(self) -> str:
        return "office"

    def start(self, tokenizer: Tokenizer) -> RequestSource:
        """A fresh desk and a fresh history."""
        return OfficeSource(self._turns, self.spec, tokenizer)


class OfficeSource:
    """One execution. With the oracle the model is asked at every step and its answer recorded, but
    the transcript's own answer goes into the history and to the tools.
    """

    def __init__(self, turns: tuple[Turn, ...], spec: WorkloadSpec, tokenizer: Tokenizer) -> None:
        self._turns = turns
        self._oracle = spec.agent == "oracle"
        self._history = ChatHistory(tokenizer, spec.history)
        self._history.add(Message(role="system", content=SYSTEM_PROMPT))
        self._desk = Desk()
        self._turn = 0
        self._step = 0
        self._begins_turn = True
        self._turn_text = ""
        self._hashes: list[str] = []
        self._missing: list[str] = []
        self._agreeing = 0
        self._asked = 0

    @property
    def planned(self) -> int | None:
        """Known only when the transcript drives."""
        return sum(len(turn.steps) for turn in self._turns) if self._oracle else None

    def next_request(self) -> PlannedRequest | None:
        if self._turn >= len(self._turns):
            return None
        if self._begins_turn:
            self._history.add(Message(role="user", content=self._turns[self._turn].user))
            self._begins_turn = False
        prompt = self._history.prompt()
        return PlannedRequest(
            prompt_ids=prompt.ids,
            turn=self._turn,
            step=self._step,
            messages_added=prompt.messages_added,
            retokenized_at=prompt.retokenized_at,
        )

    def digest(self, answer: Answer) -> AnswerDigest:
        turn = self._turns[self._turn]
        self._asked += 1
        expected = turn.steps[self._step] if self._step < len(turn.steps) else None
        self._agreeing += expected is not None and _same_step(answer.text, expected)
        if self._oracle:
            assert expected is not None
            text = expected
            self._history.answer_instead(text)
        else:
            text = answer.text
            self._history.answer(text, answer.token_ids)
        self._turn_text += text + "\n"
        line = _call_line(text)
        if line is None:
            self._end_turn(turn)
            return AnswerDigest()
        call, result = self._execute(line)
        self._step += 1
        if self._step >= _MOST_STEPS:
            self._end_turn(turn)
        else:
            self._history.add(Message(role="user", content=result.content))
        return AnswerDigest((call,), (result,))

    def outcome(self) -> Outcome | None:
        """Solved when the state equals the oracle's and every required value was said.

        With the oracle at work there is no score: the state is the transcript's own doing.
        """
        reached = self._desk.state_hash()
        details: dict[str, Any] = {
            "turn_hashes": self._hashes,
            "steps_like_oracle": self._agreeing,
            "steps": self._asked,
        }
        if self._oracle:
            return Outcome(state_hash=reached, details=details)
        details["values_missing"] = self._missing
        solved = reached == oracle_hashes(len(self._turns))[-1] and not self._missing
        return Outcome(score=float(solved), solved=solved, state_hash=reached, details=details)

    def _execute(self, line: str) -> tuple[ToolCall, ToolResult]:
        parsed = _parse(line)
        if parsed is None:
            content = '{"error": "not a call: write {\\"tool\\": NAME, \\"args\\": {...}} on one line"}'
            return ToolCall(name="", arguments=line), ToolResult(name="", content=content, is_error=True)
        tool, arguments = parsed
        content, is_error = self._desk.call(tool, arguments)
        name = tool if isinstance(tool, str) else ""
        call = ToolCall(name=name, arguments=json.dumps(arguments, ensure_ascii=False))
        return call, ToolResult(name=name, content=content, is_error=is_error)

    def _end_turn(self, turn: Turn) -> None:
        self._hashes.append(self._desk.state_hash())
        self._missing += [
            f"turn {self._turn}: {value}" for value in turn.required if value not in self._turn_text
        ]
        self._turn, self._step, self._turn_text, self._begins_turn = self._turn + 1, 0, "", True


def oracle_hashes(turns: int = len(TURNS)) -> list[str]:
    """State hash after each of the first ``turns`` turns when the transcript is followed."""
    desk, hashes = Desk(), []
    for turn in TURNS[:turns]:
        for step in turn.steps:
            parsed = _parse(step)
            if parsed is not None:
                desk.call(*parsed)
        hashes.append(desk.state_hash())
    return hashes


def _call_line(text: str) -> str | None:
    """The first line that is meant as a call; a turn ends with an answer that has none."""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("{") and '"tool"' in stripped:
            return stripped
    return None


def _parse(line: str) -> tuple[Any, Any] | None:
    """Tool and arguments of a call, as JSON gives them; None if it is not one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or "tool" not in value:
        return None
    return value["tool"], value.get("args", {})


def _same_step(text: str, expected: str) -> bool:
    """Whether the model made the oracle's call, or, where the oracle makes none, made none either."""
    line, wanted = _call_line(text), _call_line(expected)
    if line is None or wanted is None:
        return line is wanted
    return _parse(line) == _parse(wanted)
