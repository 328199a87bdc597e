r"""What a GSM8K answer says, derived from its stored text at report time.

A format match is never trusted: the paper's first scorer accepted one form only, could not read 11
to 38 % of right answers, and so made a cache effect of its own. Every answer keeps how it was
found. The order: the first ``####`` with a number on its line; else the last ``\boxed{}``; else
the last cue ("answer is", "final answer", a line ``A:``) with a number in its sentence; else the
last line with a number; else none. Within a line or sentence, a number after its last ``=`` wins.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from msgspec import Struct

from tracer.workloads.gsm8k_numbers import Doubt, Kind, Number, has_number_word, numbers_in, same_value

LONGEST_TEXT = 100_000
"""Characters that are looked at: the last ones of a longer text."""
MOST_PLACES = 100
"""Boxes and cues that are looked at, the last ones: a model that repeats itself writes thousands."""


class Found(StrEnum):
    """How a value was found."""

    HASHES = "####"
    BOXED = "boxed"
    CUE = "cue"
    LAST_LINE = "last line"
    NOWHERE = "nowhere"


class AnswerClass(StrEnum):
    """What one answer counts as. Only the first two may flip correctness."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no answer"
    CUT = "cut by length"
    DOUBTFUL = "doubtful"


@dataclass(frozen=True, slots=True)
class DerivedAnswer:
    """The value that a text states. ``value`` is None when there is none, or it is doubtful."""

    value: Fraction | None
    kind: Kind | None
    found: Found
    doubt: Doubt | None = None


class JudgedAnswer(Struct, frozen=True, kw_only=True):
    """One stored answer: what it says, how that was found, and what it counts as; without its text."""

    answer_class: AnswerClass
    exact: str | None
    """The value as the text of an exact fraction (``5/2``), since messages hold no fractions."""
    kind: Kind | None
    found: Found
    doubt: Doubt | None
    text_digest: str

    @property
    def value(self) -> Fraction | None:
        """What the text states; None when it states nothing, or it is doubtful."""
        return None if self.exact is None else Fraction(self.exact)

    @property
    def correct(self) -> bool | None:
        """True or False; None when the answer is cut, missing or doubtful."""
        if self.answer_class is AnswerClass.CORRECT:
            return True
        return False if self.answer_class is AnswerClass.WRONG else None


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """How two servings of one item differ; the four are counted apart."""

    text: bool
    value: bool
    """Apart by more than 1e-6 of the larger; or one is a value, missing or doubtful and the other not so."""
    correctness: bool
    """One is correct and the other wrong; cut, missing and doubtful answers take no part."""
    finding: bool


_MARKUP = re.compile(r"(?<!\d)\*\*|\*\*(?!\d)|__|`")
"""Marks that only emphasise; ``**`` between digits is a power."""


def derive(text: str) -> DerivedAnswer:
    """The value that the text states, and how it was found."""
    text = _plain_latex(_MARKUP.sub("", text[-LONGEST_TEXT:]))
    for candidate in (_after_hashes, _boxed, _after_cue, _last_line):
        found = candidate(text)
        if found is not None:
            return found
    return DerivedAnswer(None, None, Found.NOWHERE)


def judge(text: str, stopped_by_length: bool, gold: Fraction) -> JudgedAnswer:
    """Derive the answer of a stored text and hold it against the gold value."""
    derived = derive(text)
    if stopped_by_length:
        kind = AnswerClass.CUT
    elif derived.doubt is not None:
        kind = AnswerClass.DOUBTFUL
    elif derived.value is None:
        kind = AnswerClass.NO_ANSWER
    else:
        kind = AnswerClass.CORRECT if same_value(derived.value, gold) else AnswerClass.WRONG
    return JudgedAnswer(
        answer_class=kind,
        exact=None if derived.value is None else str(derived.value),
        kind=derived.kind,
        found=derived.found,
        doubt=derived.doubt,
        text_digest=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16],
    )


def change(a: JudgedAnswer, b: JudgedAnswer) -> AnswerChange:
    """Compare two servings of one item: the only rule by which answers differ."""
    return AnswerChange(
        text=a.text_digest != b.text_digest,
        value=not _same_stated(a, b),
        correctness=a.correct is not None and b.correct is not None and a.correct != b.correct,
        finding=a.found is not b.found,
    )


def gold_value(answer: str) -> Fraction:
    """The value of a gold answer of the data set; raises ValueError when it states none."""
    derived = derive(answer)
    if derived.value is None or derived.found is not Found.HASHES:
        raise ValueError(f"this gold answer states no number after ####: {answer[-60:]!r}")
    return derived.value


def _same_stated(a: JudgedAnswer, b: JudgedAnswer) -> bool:
    first, second = a.value, b.value
    if first is None or second is None:
        return first is second and a.doubt is b.doubt
    return same_value(first, second)


def _as_found(number: Number, found: Found) -> DerivedAnswer:
    return DerivedAnswer(number.value, number.kind, found, number.doubt)


def _in_words(found: Found) -> DerivedAnswer:
    return DerivedAnswer(None, None, found, Doubt.WORDS)


def _choose(part: str, *, last: bool) -> Number | None:
    """The number of a line or sentence: after its last ``=`` that has one, else the first or last."""
    pieces = part.split("=")
    if len(pieces) > 1:
        for piece in reversed(pieces[1:]):
            after = numbers_in(piece)
            if after:
                return after[0]
    found = numbers_in(part)
    if not found:
        return None
    return found[-1] if last else found[0]


# --- the four places -----------------------------------------------------------------------------

_HASHES = re.compile(r"####(?P<rest>[^\n]*)")


def _after_hashes(text: str) -> DerivedAnswer | None:
    in_words = False
    for match in _HASHES.finditer(text):
        number = _choose(match["rest"], last=False)
        if number is not None:
            return _as_found(number, Found.HASHES)
        in_words = in_words or has_number_word(match["rest"])
    return _in_words(Found.HASHES) if in_words else None


_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_LATEX_WORDS = re.compile(r"\\(?:text|mathrm|mathbf|textbf|operatorname)\s*\{([^{}]*)\}")


def _boxed(text: str) -> DerivedAnswer | None:
    starts = [match.end() for match in re.finditer(r"\\boxed\s*\{", text)]
    for start in reversed(starts[-MOST_PLACES:]):
        content = _to_closing_brace(text, start)
        number = _choose(content, last=False)
        if number is not None:
            return _as_found(number, Found.BOXED)
        if has_number_word(content):
            return _in_words(Found.BOXED)
    return None


def _to_closing_brace(text: str, start: int) -> str:
    depth = 1
    for at in range(start, min(len(text), start + 1000)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start:at]
    return text[start : start + 1000]


def _plain_latex(content: str) -> str:
    content = content.replace("{,}", ",").replace("\\,", "").replace("\\!", "").replace("\\%", "%")
    content = _FRACTION.sub(r" \1/\2 ", content.replace("\\$", "$"))
    return _LATEX_WORDS.sub(r" \1 ", content)


_CUE = re.compile(r"answer\s+is\b|final\s+answer\b|^[ \t]*A:", re.IGNORECASE | re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!?](?=\s|$|[\"')\]])|\n")


def _after_cue(text: str) -> DerivedAnswer | None:
    for match in reversed(list(_CUE.finditer(text))[-MOST_PLACES:]):
        sentence = _sentence_from(text, match.end())
        number = _choose(sentence, last=False)
        if number is not None:
            return _as_found(number, Found.CUE)
        if has_number_word(sentence):
            return _in_words(Found.CUE)
    return None


def _sentence_from(text: str, start: int) -> str:
    """From a cue to the end of its sentence; a heading's sentence is the next line with text."""
    rest = text[start : start + 2000]
    heading = re.match(r"[\s:$\\(\[]*\n", rest)
    if heading:
        rest = rest[heading.end() :].lstrip()
    end = _SENTENCE_END.search(rest)
    return rest[: end.start()] if end else rest


def _last_line(text: str) -> DerivedAnswer | None:
    lines = [line for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        number = _choose(line, last=True)
        if number is not None:
            return _as_found(number, Found.LAST_LINE)
    return _in_words(Found.LAST_LINE) if lines and has_number_word(lines[-1]) else None
