"""What an answer says: the tricky forms, the doubtful ones, and the classes."""

from fractions import Fraction

import pytest

from tracer.workloads.gsm8k_answers import AnswerClass, Found, change, derive, gold_value, judge
from tracer.workloads.gsm8k_numbers import Doubt, Kind, numbers_in, same_value

H, B, C, L, N = Found.HASHES, Found.BOXED, Found.CUE, Found.LAST_LINE, Found.NOWHERE

READ = [
    # the first #### with a number on its line
    ("#### 18", 18, H),
    ("So 9 * 2 = 18.\n#### 18 dollars\nand then 7", 18, H),
    ("#### 3\n#### 4", 3, H),
    ("#### the answer\n#### 9", 9, H),
    ("####18", 18, H),
    ("#### $1,200.50", Fraction("1200.5"), H),
    ("#### **18**", 18, H),
    ("#### 16 - 3 - 4 = 9", 9, H),
    ("\\boxed{3}\n#### 4", 4, H),
    ("#### 12.", 12, H),
    ("#### 5,", 5, H),
    ("#### x\nThe answer is 5.", 5, C),
    ("#### $1{,}200$", 1200, H),
    # else the last boxed
    ("\\boxed{3} no, \\boxed{4}", 4, B),
    ("\\boxed{\\frac{3}{4}}", Fraction(3, 4), B),
    ("\\boxed{\\dfrac{1}{2}}", Fraction(1, 2), B),
    ("\\boxed{1{,}200\\text{ dollars}}", 1200, B),
    ("\\boxed{\\$1,200}", 1200, B),
    ("$\\boxed{\\text{Janet makes } 18}$", 18, B),
    ("\\boxed{25\\%}", 25, B),
    ("\\boxed{x}. The answer is 5.", 5, C),
    # else the last cue
    ("The answer is 5.", 5, C),
    ("The answer is $\\frac{3}{4}$.", Fraction(3, 4), C),
    ("The answer is: $5.50 per person.", Fraction("5.5"), C),
    ("The answer is 5. Then the answer is 6. That took 7 minutes.", 6, C),
    ("The final answer is 3 x 4 = 12 apples. Bye 7", 12, C),
    ("Final Answer: 42", 42, C),
    ("**Final Answer:**\n\n42 apples", 42, C),
    ("**Final answer**\n$42$", 42, C),
    ("final answer:42", 42, C),
    ("It is 9.\nA: 42", 42, C),
    ("A:42", 42, C),
    ("  a: -3", -3, C),
    ("The answer is 3.5 hours. He slept 8.", Fraction("3.5"), C),
    # else the last line with a number
    ("She makes 9*2=$18 every day.", 18, L),
    ("She has 5.\nThen she has 6.\nGood!", 6, L),
    ("5 apples/day", 5, L),
    ("Answer: 5", 5, L),
    ("in total, 3 boxes hold 12", 12, L),
    ("the 2nd of 4", 4, L),
    # numbers
    ("A: -5", -5, C),
    ("A: \u22125", -5, C),
    ("A: -$5", -5, C),
    ("A: $-5", -5, C),
    ("A: +5", 5, C),
    ("A: \u20ac 1,234,567", 1234567, C),
    ("A: .5", Fraction(1, 2), C),
    ("A: 1e3", 1000, C),
    ("A: 1.5E-2", Fraction(3, 200), C),
    ("A: 3/4", Fraction(3, 4), C),
    ("A: 2 1/2 cups", Fraction(5, 2), C),
    ("A: -2 1/2", Fraction(-5, 2), C),
    ("A: $10/5", 2, C),
    ("A: 5kg", 5, C),
    ("A: 5 km", 5, C),
    ("A: 5m", 5, C),
    ("A: 5 millimetres", 5, C),
    ("A: 5 hundredths", 5, C),
    ("A: 3 and 4", 3, C),
    ("A: '3', '4'", 3, C),
    ("A: 3 * 10 = 30", 30, C),
    ("3 dozen eggs = 36 eggs", 36, L),
    ("A: 1,000", 1000, C),
    ("A: 5, 6", 5, C),
    ("A: 0", 0, C),
    ("", None, N),
    ("I do not know.", None, N),
    ("####", None, N),
    ("\\boxed{", None, N),
    ("the answer is unknown", None, N),
    ("p2p and x_1", None, N),
]


@pytest.mark.parametrize(("text", "value", "found"), READ)
def test_the_value_and_how_it_was_found(text: str, value: int | Fraction | None, found: Found) -> None:
    derived = derive(text)
    assert (derived.value, derived.found, derived.doubt) == (value, found, None)


DOUBTFUL = [
    ("#### 1,5", Doubt.COMMA),
    ("A: 12,34,567", Doubt.COMMA),
    ("#### 1,2000", Doubt.COMMA),
    ("#### 5:30", Doubt.COLON),
    ("the ratio is 3:2:1", Doubt.COLON),
    ("#### 1 000 000", Doubt.SPACES),
    ("#### 1\u00a0000", Doubt.SPACES),
    ("#### 1.234.567", Doubt.GROUPS),
    ("#### 1.234,56", Doubt.GROUPS),
    ("#### 1'000", Doubt.GROUPS),
    ("#### 1\u2019000\u2019000", Doubt.GROUPS),
    ("#### 1_000", Doubt.GROUPS),
    ("#### 5'10", Doubt.GROUPS),
    ("A: 12.05.2020", Doubt.GROUPS),
    ("A: 2\u00bd", Doubt.GROUPS),
    ("The answer is 3 thousand.", Doubt.SCALE),
    ("#### 2.5 million", Doubt.SCALE),
    ("#### 3 dozen", Doubt.SCALE),
    ("#### 3 Dozens of eggs", Doubt.SCALE),
    ("#### **3** hundred", Doubt.SCALE),
    ("#### 2-billion", Doubt.SCALE),
    ("#### 1/2 million", Doubt.SCALE),
    ("\\boxed{3\\text{ thousand}}", Doubt.SCALE),
    ("A: -$3 million", Doubt.SCALE),
    ("A: 3 and a half hours", Doubt.SCALE),
    ("A: 5k", Doubt.SCALE),
    ("A: $5K", Doubt.SCALE),
    ("A: $5m", Doubt.SCALE),
    ("A: -$2bn", Doubt.SCALE),
    ("In total it is 3 thousand 500", Doubt.SCALE),
    ("In total it is 3 hundred and 5", Doubt.SCALE),
    ("A: 10^3", Doubt.POWER),
    ("A: 2**3", Doubt.POWER),
    ("It is 2^2^3", Doubt.POWER),
    ("It is 3 x 10^5", Doubt.POWER),
    ("It is $3 \\times 10^{5}$", Doubt.POWER),
    ("The answer is not 5 but 7.", Doubt.NOT_BUT),
    ("#### not $5 but $7", Doubt.NOT_BUT),
    ("The answer is five.", Doubt.WORDS),
    ("#### twenty-five", Doubt.WORDS),
    ("\\boxed{\\text{three}}", Doubt.WORDS),
    ("She has three apples.", Doubt.WORDS),
    ("A: 1/2/2020", Doubt.SLASHES),
    ("A: 10-12", Doubt.RANGE),
    ("A: 10 \u2013 12", Doubt.RANGE),
    ("A: 5/0", Doubt.ZERO),
    ("A: 2 1/0", Doubt.ZERO),
    ("A: 1e999999999", Doubt.TOO_LONG),
    ("A: " + "9" * 5000, Doubt.TOO_LONG),
]


@pytest.mark.parametrize(("text", "doubt"), DOUBTFUL)
def test_a_doubtful_answer_is_flagged_and_not_guessed(text: str, doubt: Doubt) -> None:
    derived = derive(text)
    assert (derived.value, derived.doubt) == (None, doubt)
    assert judge(text, False, Fraction(5)).answer_class is AnswerClass.DOUBTFUL


def test_percent_is_the_bare_number_and_its_kind_is_kept() -> None:
    assert (derive("A: 25%").value, derive("A: 25%").kind) == (25, Kind.PERCENT)
    assert (derive("A: 25 percent").value, derive("A: 25 percent").kind) == (25, Kind.PERCENT)
    assert derive("A: 25").kind is Kind.NUMBER


def test_values_are_compared_as_fractions_within_a_millionth() -> None:
    assert same_value(Fraction(1, 3), Fraction("0.3333333"))
    assert not same_value(Fraction(1, 3), Fraction("0.3333"))
    assert same_value(Fraction(0), Fraction(0))
    assert not same_value(Fraction(0), Fraction(1, 10**9))
    assert not same_value(Fraction(5), Fraction(-5))


def test_the_classes() -> None:
    gold = gold_value("9 * 2 = 18\n#### 18")
    assert judge("#### 18", False, gold).answer_class is AnswerClass.CORRECT
    assert judge("A: 18.0000001", False, gold).answer_class is AnswerClass.CORRECT
    assert judge("#### 19", False, gold).answer_class is AnswerClass.WRONG
    assert judge("I cannot say.", False, gold).answer_class is AnswerClass.NO_ANSWER
    cut = judge("She makes 9 * 2 = 18", True, gold)
    assert cut.answer_class is AnswerClass.CUT
    assert cut.correct is None
    assert cut.value == 18  # what it says is kept


def test_the_four_differences_are_apart() -> None:
    gold = Fraction(18)

    def differences(a: str, b: str, cut: bool = False) -> tuple[bool, ...]:
        found = change(judge(a, False, gold), judge(b, cut, gold))
        return (found.text, found.value, found.correctness, found.finding)

    assert differences("#### 18", "#### 18") == (False, False, False, False)
    assert differences("#### 18", "####  18") == (True, False, False, False)
    assert differences("#### 18", "#### 18.0000001") == (True, False, False, False)
    assert differences("#### 1/3", "#### 2/6") == (True, False, False, False)
    assert differences("#### 18", "A: 18") == (True, False, False, True)
    assert differences("#### 18", "#### 19") == (True, True, True, False)
    assert differences("#### 19", "#### 20") == (True, True, False, False)
    assert differences("#### 18", "no idea") == (True, True, False, True)
    assert differences("A: five", "A: 5") == (True, True, False, False)
    assert differences("A: five", "A: unknown") == (True, True, False, True)
    assert differences("A: five", "A: 1,5") == (True, True, False, False)
    assert differences("#### 18", "#### 18", cut=True) == (False, False, False, False)


def test_a_gold_answer_without_a_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="states no number"):
        gold_value("The answer is 5.")


REPEATED = [
    "1",
    "1,",
    "1/",
    "1 000",
    "answer is ",
    "\\boxed{",
    "#### ",
    "=",
    "5 -",
    "-",
    "$ ",
    " \u00a0",
    "1 1/",
    "1.",
    "1'",
    "1_",
    "1   ",
    "1 thousand ",
    "1 and a ",
    "1^",
    "2**",
    "1 x 10 ",
    "\\frac{",
    "\\frac{1}",
    "\\frac{1} ",
    "\\text{",
]


@pytest.mark.timeout(
    60
)  # the work is inside regular expressions: 0.5 s when measured, hours if one backtracks
@pytest.mark.parametrize("piece", REPEATED)
def test_hostile_text_does_not_hang(piece: str) -> None:
    assert derive(piece * (100_000 // len(piece))).value in (None, 1, -5, 10)


def test_numbers_carry_their_place() -> None:
    text = "from $5 to 7%"
    assert [text[number.start : number.end] for number in numbers_in(text)] == ["$5", "7%"]
