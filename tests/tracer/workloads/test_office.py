"""The built-in agent task: its tools, its oracle, its agent."""

import inspect
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracer.engines.fake import FakeEngine
from tracer.episode import WorkloadSpec
from tracer.errors import UsageError
from tracer.request_source import Answer
from tracer.workloads.office import calculator, desk, episode, handbook
from tracer.workloads.office.calculator import calculate
from tracer.workloads.office.desk import TOOLS, Desk
from tracer.workloads.office.episode import OfficeFamily, oracle_hashes
from tracer.workloads.office.transcript import TURNS, call

FINAL = "sha256:819e36a0e79d62dbb5cf7acea6181afb8860141ea3bffcab2a34ba9baf2df2e9"
"""State after the oracle's ten turns: it changes only together with the workload's version."""


def play(agent, answer, history="ids", turns=10, engine=None):
    """Run an episode; ``answer(planned)`` says what the model writes."""
    engine = engine or FakeEngine()
    (workload,) = OfficeFamily().episodes(agent=agent, history=history, turns=turns)
    source, asked, digests = workload.start(engine), [], []
    while (planned := source.next_request()) is not None:
        asked.append(planned)
        text = answer(planned)
        ids = (*engine.tokenize(text), 256)
        digests.append(source.digest(Answer(ids, text, stopped_by_length=False)))
    return asked, digests, source


def as_oracle(planned):
    return TURNS[planned.turn].steps[planned.step]


def test_the_oracle_solves_its_own_task():
    desk_ = Desk()
    for turn in TURNS:
        said = " ".join(turn.steps)
        assert all(value in said for value in turn.required)
        for step in turn.steps[:-1]:
            parsed = json.loads(step)
            desk_.call(parsed["tool"], parsed["args"])
    assert desk_.files["total.txt"] == "total: 2960\ntip: 444\ncall: 16:00\n"
    assert desk_.state_hash() == oracle_hashes()[-1] == FINAL
    assert len(oracle_hashes()) == 10


def test_a_perfect_model_scores_and_a_flipped_digit_does_not():
    _, digests, source = play("model", as_oracle)
    outcome = source.outcome()
    assert outcome.solved is True
    assert outcome.score == 1.0
    assert outcome.state_hash == FINAL
    assert outcome.details["turn_hashes"] == oracle_hashes()
    assert sum(len(d.tool_calls) for d in digests) == 11

    _, _, source = play("model", lambda planned: as_oracle(planned).replace("2960", "2968"))
    outcome = source.outcome()
    assert outcome.solved is False
    assert outcome.score == 0.0
    assert outcome.state_hash != FINAL
    assert outcome.details["values_missing"] == ["turn 2: 2960", "turn 9: 2960"]


def test_the_clash_is_an_error_value_that_the_agent_recovers_from():
    _, digests, _ = play("oracle", lambda planned: "anything")
    results = [r for d in digests for r in d.tool_results]
    errors = [r for r in results if r.is_error]
    assert len(results) == 11
    assert len(errors) == 1
    assert "clashes with design review" in json.loads(errors[0].content)["error"]


def test_with_the_oracle_prompts_do_not_depend_on_the_model():
    first, _, source = play("oracle", lambda planned: "one thing")
    second, _, _ = play("oracle", lambda planned: '{"tool": "calc", "args": {"expression": "1/0"}}')
    assert [p.prompt_ids for p in first] == [p.prompt_ids for p in second]
    assert len(first) == source.planned == 21
    assert source.outcome().score is None
    assert source.outcome().state_hash == FINAL
    assert source.outcome().details["steps_like_oracle"] == 10  # the steps without a call


@pytest.mark.parametrize("history", ["ids", "messages"])
def test_prompts_only_grow(history):
    asked, _, _ = play("model", as_oracle, history)
    for before, after in itertools.pairwise(asked):
        assert after.prompt_ids[: len(before.prompt_ids)] == before.prompt_ids


def test_both_histories_make_the_same_prompts_where_tokenizing_is_stable():
    by_ids, _, _ = play("oracle", as_oracle, "ids")
    by_messages, _, _ = play("oracle", as_oracle, "messages")
    assert [p.prompt_ids for p in by_ids] == [p.prompt_ids for p in by_messages]


def test_turns_shorten_the_episode():
    asked, _, source = play("oracle", as_oracle, turns=3)
    assert len(asked) == 6
    assert source.outcome().state_hash == oracle_hashes(3)[-1]
    with pytest.raises(UsageError, match="1 to 10"):
        list(OfficeFamily().episodes(turns=11))


def test_an_agent_that_never_stops_calling_is_stopped():
    asked, _, _ = play("model", lambda planned: call("list_files"), turns=2)
    assert [(p.turn, p.step) for p in asked] == [(t, s) for t in range(2) for s in range(4)]


@pytest.mark.parametrize(
    "text",
    [
        '{"tool": "calc", "args": ',
        '{"tool": 5, "args": {}}',
        '{"tool": "shell", "args": {"command": "ls"}}',
        '{"tool": "calc", "args": {"expression": 5}}',
        '{"tool": "calc", "args": [1]}',
        '{"tool": "calc"}',
        '{"tool": "_line", "args": {}}',
        '{"tool": "read_file", "args": {"path": "../../etc/passwd"}}',
        '{"tool": "write_file", "args": {"path": "../x", "content": ""}}',
        '{"tool": "write_file", "args": {"path": "a", "content": "' + "x" * 3000 + '"}}',
        '{"tool": "add_event", "args": {"day": "Sunday", "time": "10:00", "title": "x"}}',
        '{"tool": "add_event", "args": {"day": "Monday", "time": "25:00", "title": "x"}}',
        '{"tool": "move_event", "args": {"day": "Monday", "title": "x", "time": "08:00"}}',
        '{"tool": ' + "[" * 100_000,
    ],
)
def test_every_tool_error_is_a_value(text):
    _, digests, source = play("model", lambda planned: text, turns=1)
    assert all(d.tool_results[0].is_error for d in digests)
    assert "error" in json.loads(digests[0].tool_results[0].content)
    assert source.outcome().details["turn_hashes"] == oracle_hashes(1)  # nothing changed


def test_the_state_hash_does_not_depend_on_order_of_insertion():
    one, other = Desk(), Desk()
    one.call("write_file", {"path": "a", "content": "1"})
    one.call("write_file", {"path": "b", "content": "2"})
    other.call("write_file", {"path": "b", "content": "2"})
    other.call("write_file", {"path": "a", "content": "1"})
    assert one.state_hash() == other.state_hash() != Desk().state_hash()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1240 + 865 + 312 + 543", "2960"),
        ("2960*15/100", "444"),
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("-3 - -4", "1"),
        ("1/3", "0.333333"),
        ("-1/8", "-0.125"),
        ("0.1 + 0.2", "0.3"),
        ("7 / 2 / 2", "1.75"),
    ],
)
def test_calc(expression, value):
    assert calculate(expression) == value


@pytest.mark.parametrize(
    "expression",
    ["", "1 +", "1/0", "2 ** 3", "(1", "1)", "__import__('os')", "1e5", "x", "9" * 300, "(" * 100, "1 2"],
)
def test_calc_refuses(expression):
    with pytest.raises(ValueError, match=r"."):
        calculate(expression)


NUMBERS = st.integers(0, 999).map(str)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.builds("({}{}{})".format, inner, st.sampled_from("+-*"), inner),
    max_leaves=8,
)


@settings(max_examples=60)
@given(EXPRESSIONS)
def test_calc_agrees_with_python(expression):
    assert calculate(expression) == str(eval(expression))


def test_nothing_in_the_office_evaluates_or_reaches_out():
    for module in (calculator, desk, episode):
        source = inspect.getsource(module)
        for word in ("eval(", "exec(", "compile(", "subprocess", "socket", "open(", "datetime"):
            assert word not in source.replace("re.compile(", "")


def test_the_handbook_names_every_tool_and_its_arguments():
    for tool, arguments in TOOLS.items():
        assert f"\n{tool}: " in handbook.SYSTEM_PROMPT
        for argument in arguments:
            assert argument in handbook.SYSTEM_PROMPT


def test_a_spec_starts_the_same_episode_again():
    (workload,) = OfficeFamily().episodes(turns=2)
    again = OfficeFamily().from_spec(workload.spec)
    engine = FakeEngine()
    assert again.start(engine).next_request() == workload.start(engine).next_request()
    for spec in (
        WorkloadSpec(name="office", params={"turns": 2}, version="0"),
        WorkloadSpec(name="office", params={"turns": "x"}, version="1"),
    ):
        with pytest.raises(UsageError):
            OfficeFamily().from_spec(spec)


def test_unknown_options_are_refused():
    with pytest.raises(UsageError, match="subset"):
        list(OfficeFamily().episodes(subset="paper"))
