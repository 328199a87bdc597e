"""Episodes as the arm loop meets them: closed loop, teacher-forced, and what the outcome says."""

import ast
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tracer.episode import Message, Outcome
from tracer.errors import UsageError
from tracer.request_source import Answer
from tracer.workloads.bfcl.family import BfclEpisode, BfclFamily, episode_spec
from tracer.workloads.bfcl.source import END_OF_TURN, ClosedLoop, TeacherForced
from tracer.workloads.bfcl.worker_process import WorkerProcess

pytestmark = pytest.mark.bfcl


class Characters:
    """A tokenizer whose tokens are characters, and a plain chat template."""

    def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None = None) -> str:
        return "".join(f"<{m.role}>{m.content}</>" for m in messages) + "<assistant>"

    def tokenize(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def piece(self, token_id: int) -> bytes | None:
        return chr(token_id).encode()


def answer_of(text: str) -> Answer:
    return Answer(token_ids=tuple(ord(c) for c in text + "</>"), text=text, stopped_by_length=False)


def drive(source: ClosedLoop | TeacherForced, say: Callable[[int, int], str]) -> tuple[list[str], Outcome]:
    prompts = []
    while (planned := source.next_request()) is not None:
        prompts.append("".join(chr(token) for token in planned.prompt_ids))
        source.digest(answer_of(say(planned.turn, planned.step)))
    outcome = source.outcome()
    assert outcome is not None
    return prompts, outcome


def start(episode_id: str, agent: Any = "model", history: Any = "ids") -> Any:
    return BfclEpisode(episode_spec(episode_id, "paper", agent, history)).start(Characters())


@pytest.fixture(scope="module")
def truth(wheel: Path) -> list[list[str]]:
    with WorkerProcess(wheel, "multi_turn_base_0") as worker:
        transcript: list[list[str]] = worker.opening["transcript"]
        return transcript


@pytest.mark.parametrize("history", ["ids", "messages"])
def test_a_model_that_says_the_ground_truth_solves_the_episode(truth: list[list[str]], history: str) -> None:
    def say(turn: int, step: int) -> str:
        return f"[{truth[turn][step]}]" if step < len(truth[turn]) else "That was all."

    prompts, outcome = drive(start("multi_turn_base_0", history=history), say)
    assert outcome.solved is True
    assert outcome.score == 1.0
    assert outcome.ended == "completed"
    assert outcome.details["steps"] == len(prompts) == sum(len(turn) + 1 for turn in truth)
    assert outcome.details["decoded_steps"] == sum(len(turn) for turn in truth)
    assert outcome.details["blocked_calls"] == 0
    assert outcome.details["error_type"] is None
    assert all(after.startswith(before) for before, after in itertools.pairwise(prompts))
    assert prompts[0].startswith("<system>You are an expert in composing functions.")
    assert "<user>[{'role': 'tool', 'name': " in prompts[1]


def test_a_model_that_only_talks_is_not_solved(truth: list[list[str]]) -> None:
    prompts, outcome = drive(start("multi_turn_base_0"), lambda turn, step: "Hello.")
    assert len(prompts) == len(truth)
    assert outcome.solved is False
    assert outcome.details["decode_rate"] == 0
    assert outcome.details["error_type"] == "multi_turn:empty_turn_model_response"


def test_a_model_that_never_stops_is_force_terminated() -> None:
    prompts, outcome = drive(start("multi_turn_base_0"), lambda turn, step: "[ls()]")
    assert len(prompts) == 21  # the official loop stops when the count exceeds 20
    assert outcome.ended == "force_terminated"
    assert outcome.solved is False
    assert outcome.details["error_type"] == "multi_turn:force_terminated"


def test_a_blocked_call_is_stored_with_its_reason_and_answered(truth: list[list[str]]) -> None:
    source = start("multi_turn_base_0")
    source.next_request()
    digest = source.digest(answer_of("[ls(a=__import__('os').getcwd()), pwd()]"))
    assert [call.blocked is None for call in digest.tool_calls] == [False, True]
    assert [result.is_error for result in digest.tool_results] == [True, False]
    planned = source.next_request()
    told = ast.literal_eval(planned.messages_added[-1].content)
    assert told[0]["content"] == "Error during execution: argument 'a' is not a literal"
    assert source.outcome().details["blocked_calls"] == 1


def test_a_lost_worker_ends_the_episode_and_says_so(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracer.workloads.bfcl import dataset

    math = next(e.episode_id for e in dataset.read_entries(wheel) if "MathAPI" in e.classes)
    source = start(math)
    source._worker._step_limit_s = 1.0
    _, outcome = drive(source, lambda turn, step: "[power(base=7, exponent=1000000000)]")
    assert outcome.ended.startswith("worker lost: ")
    assert outcome.solved is False


def test_teacher_forced_prompts_do_not_depend_on_the_answers(truth: list[list[str]]) -> None:
    silent, outcome = drive(start("multi_turn_base_0", agent="oracle"), lambda turn, step: "")
    talking, other = drive(
        start("multi_turn_base_0", agent="oracle"), lambda turn, step: "[ls(), eval(x='1')]"
    )
    assert silent == talking
    assert len(silent) == sum(len(turn) + 1 for turn in truth)
    assert f"<assistant>[{truth[0][0]}]</>" in silent[1]
    assert f"<assistant>{END_OF_TURN}</>" in silent[-1]
    assert outcome.score is other.score is None
    assert outcome.details["decode_rate"] == 0
    assert other.details["decode_rate"] == 1
    assert other.details["blocked_calls"] == len(talking)


def test_a_lost_decoder_does_not_end_a_teacher_forced_arm(truth: list[list[str]]) -> None:
    source = start("multi_turn_base_0", agent="oracle")
    source._worker.close()
    prompts, outcome = drive(source, lambda turn, step: "[ls()]")
    assert len(prompts) == sum(len(turn) + 1 for turn in truth)
    assert outcome.details["decode_rate"] is None
    assert "decoder_lost" in outcome.details


def test_text_that_no_trace_can_hold_comes_back_escaped() -> None:
    source = start("multi_turn_base_0")
    source.next_request()
    digest = source.digest(answer_of("[echo(content='\\ud800')]"))
    assert digest.tool_results[0].content.encode() == b'{"terminal_output": "\\ud800"}'
    assert source.next_request() is not None


@pytest.mark.parametrize("agent", ["model", "oracle"])
def test_an_episode_cut_to_its_first_turns_is_not_scored(truth: list[list[str]], agent: Any) -> None:
    spec = episode_spec("multi_turn_base_0", "paper", agent, "ids", 1)
    source = BfclFamily().from_spec(spec).start(Characters())
    steps = len(truth[0])
    prompts, outcome = drive(
        source, lambda turn, step: f"[{truth[0][step]}]" if step < steps else "That was all."
    )
    assert len(prompts) == steps + 1
    assert outcome.ended == "completed"
    assert outcome.score is outcome.solved is None


def test_the_subsets() -> None:
    family = BfclFamily()
    paper = list(family.episodes())
    assert [each.episode_id for each in paper] == [f"multi_turn_base_{n}" for n in range(80)]
    assert len(list(family.episodes(subset="all"))) == 200
    cpu8 = list(family.episodes(subset="cpu8"))
    assert {each.spec.agent for each in cpu8} == {"oracle"}
    assert all("not the paper's figure" in each.spec.params["note"] for each in cpu8)
    with pytest.raises(UsageError, match="only agent oracle"):
        list(family.episodes(subset="cpu8", agent="model"))
    with pytest.raises(UsageError, match="no subset"):
        list(family.episodes(subset="some"))
    with pytest.raises(UsageError, match="no option 'file'"):
        list(family.episodes(file="x"))


def test_an_episode_is_rebuilt_from_its_spec_alone() -> None:
    spec = episode_spec("multi_turn_base_3", "paper", "model", "ids")
    assert BfclFamily().from_spec(spec).episode_id == "multi_turn_base_3"


def test_another_wheel_in_the_trace_is_refused() -> None:
    import msgspec

    spec = episode_spec("multi_turn_base_3", "paper", "model", "ids")
    other = msgspec.structs.replace(spec, params={**spec.params, "wheel_sha256": "0" * 64})
    with pytest.raises(UsageError, match="another bfcl-eval"):
        BfclFamily().from_spec(other)
