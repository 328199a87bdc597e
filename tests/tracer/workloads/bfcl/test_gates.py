"""The gates alone: what they let through, and what they name as the reason where they do not."""

import pytest

from tracer.workloads.bfcl import gates

OFFERED = frozenset({"f", "ls", "echo"})


@pytest.mark.parametrize(
    "text",
    [
        "[f(x=1)]",
        "f(x=1)",
        "```\n[f(x=1), ls()]\n```".strip("`"),
        "[f(x=-5, y=-1.5e3, z='a', w=None, v=True)]",
        "[f(x=['a', ['b', 1]], y={'k': 1, 'l': [1, 2]})]",
        "[f('positional')]",
        '[echo(content=\'__import__("os").system("id")\')]',
    ],
)
def test_calls_with_literal_arguments_pass_the_first_gate(text: str) -> None:
    judged = gates.before_decoding(text)
    assert judged is not None
    assert [call.blocked for call in judged] == [None] * len(judged)


NO_CALLS = ["I cannot do that.", "", "[hello]", "[1, 2]", "[f(x=1), hello]", "[f()][0]", "f(x=", "[" * 400]
NO_CALLS += ["-" * 5000, "(" * 300, "\x00", "f(\ud800)", "x" * (gates.LONGEST_TEXT + 1), "{'f': 1}"]
NO_CALLS += ["[f(x=1) for x in y]", "lambda: f()"]


@pytest.mark.parametrize("text", NO_CALLS)
def test_text_that_is_no_list_of_calls_ends_the_turn(text: str) -> None:
    assert not gates.before_decoding(text)


NO_LITERALS = [
    "1+1",
    "name",
    "a.b",
    "f()",
    "f(x=1)",
    "[1][0]",
    "not True",
    "~5",
    "+5",
    "-'a'",
    "- -1",
    "-True",
]
NO_LITERALS += [
    "f'{x}'",
    "lambda: 0",
    "[x for x in y]",
    "{1, 2}",
    "{**{}}",
    "(yield)",
    "b'bytes'",
    "1j",
    "...",
]
NO_LITERALS += ["x := 1", "{f(): 1}", "[*y]", "'a' 'b' + 'c'", "a < b", "a and b", "await x", "1 if 2 else 3"]


@pytest.mark.parametrize("argument", NO_LITERALS)
def test_an_argument_that_is_no_literal_is_blocked_before_decoding(argument: str) -> None:
    judged = gates.before_decoding(f"[ls(), f(x=({argument}))]")
    assert judged is not None
    assert judged[0].blocked is None
    assert judged[1].blocked == "argument 'x' is not a literal"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[f(**{'x': 1})]", "** arguments are not allowed"),
        ("[f(*[1])]", "a positional argument is not a literal"),
        ("[f(open('x'))]", "a positional argument is not a literal"),
        ("[os.system(x='id')]", "the function is not a plain name"),
        ("[f()()]", "the function is not a plain name"),
        ("[(lambda: 0)()]", "the function is not a plain name"),
        ("[f()[0]()]", "the function is not a plain name"),
    ],
)
def test_what_is_called_must_be_a_plain_name(text: str, reason: str) -> None:
    judged = gates.before_decoding(text)
    assert judged is not None
    assert judged[0].blocked == reason


PLAIN = ["f()", "f(x=1)", "f(x=-1, y='a', z=None)", "f(x=['a', [1]], y={'k': 'v'})", "f(x=[{'k': 1}])"]


@pytest.mark.parametrize("call", [*PLAIN, "f(x={'k': [1, 2]})"])
def test_plain_calls_of_offered_functions_may_be_executed(call: str) -> None:
    assert gates.after_decoding(call, OFFERED) is None


@pytest.mark.parametrize(
    "call",
    [
        "g()",
        "f",
        "f()()",
        "a.f()",
        "f('x')",
        "f(**{})",
        "f(x=inf)",
        "f(x=(1, 2))",
        "f(x={'a': {'b': 1}})",
        "f(x={1: 2})",
        "f(x={'a'+__import__('os').system('id')+'b': 1})",
        "f(x=__import__('os').system(a=1))",
        "f(x=[f()])",
        "f(x={'k': [f()]})",
        "f(x={'k': [[1]]})",
        "f(x={**{'a': 1}})",
        "f(); f()",
        "f() or f()",
        "__import__(name='os')",
        "eval(x='1')",
        "f(x=b'')",
        "f(x=1+1)",
        "f(x=f'{1}')",
        "f(",
    ],
)
def test_everything_else_is_blocked_after_decoding(call: str) -> None:
    assert gates.after_decoding(call, OFFERED)
