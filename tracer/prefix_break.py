"""Where a prompt departs from the previous prompt plus its generated ids, and why, from evidence.

A prefix cache serves a prompt up to its first token that differs from what is held. An agent that
only appends breaks nothing; a clock in a system prompt, a nonce, re-ordered JSON keys or a
re-tokenized answer each cost the reuse of everything after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracer.episode import PrefixBreak
from tracer.exposure import common_prefix

Piece = Callable[[int], bytes | None]

_CONTEXT_TOKENS = 16
_REALIGN_CHARACTERS = 48
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_CLOCK = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?)?|\d{1,2}:\d{2}(?::\d{2})?(?:\.\d+)?"
    rf"|\d{{1,2}}\.? {_MONTH}(?: \d{{4}})?|{_MONTH} \d{{1,2}}(?:,? \d{{4}})?"
    r"|1[5-9]\d{8}(?:\d{3})?(?:\.\d+)?"
)
_RANDOM_ID = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}|[0-9a-fA-F]{8,}|[0-9A-Za-z_-]{12,}"
)
_CONTROL = re.compile(r"<\|[^|]*\|>|\[/?INST\]|</?s>|<(?:start|end)_of_turn>")
_REASONING = ("<think>", "<thinking>", "<reasoning>")


@dataclass(frozen=True, slots=True)
class PreviousRequest:
    """What the request before left behind."""

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both texts around the break: ``shared`` before it, ``was`` and ``now`` after it, whole."""

    shared: str
    was: str
    now: str
    in_answer: bool
    answer: str


def find_prefix_break(
    previous: PreviousRequest | None, prompt_ids: Sequence[int], piece: Piece
) -> PrefixBreak | None:
    """The break of this prompt against the request before; None when the prompt only appends.

    ``reuse_lost_tokens`` counts the tokens of previous prompt plus output that lie after the break.
    """
    if previous is None:
        return None
    held = previous.prompt_ids + previous.output_ids
    position = common_prefix(held, prompt_ids)
    if position == len(held):
        return None
    sides = _Sides(
        shared=_text(held[:position], piece),
        was=_text(held[position:], piece),
        now=_text(prompt_ids[position:], piece),
        in_answer=position >= len(previous.prompt_ids),
        answer=_text(previous.output_ids, piece),
    )
    window = slice(position, position + _CONTEXT_TOKENS)
    return PrefixBreak(
        position=position,
        reuse_lost_tokens=len(held) - position,
        cause=_cause(sides, same_text_at(held, prompt_ids, position, piece)),
        context_before=_text(held[max(position - _CONTEXT_TOKENS, 0) : position], piece),
        was=_text(held[window], piece),
        now=_text(prompt_ids[window], piece),
    )


def _cause(sides: _Sides, same_bytes: bool) -> str | None:
    """The first rule whose evidence is there; None when none is."""
    if same_bytes:
        return "re-tokenized: the same text as other ids"
    if sides.in_answer and any(m in sides.answer and m not in sides.now for m in _REASONING):
        return "stripped reasoning"
    # A clock or an id can have begun before the first token that differs, so it is looked for across it.
    if _differ_across(_CLOCK, sides):
        return "clock or date"
    if _json_equal(sides):
        return "key order or spacing of equal JSON"
    if _differ_across(_RANDOM_ID, sides, usable=_looks_random):
        return "random id"
    if not sides.now:
        return "shorter prompt"
    if sides.in_answer:
        return "the answer in the history is not the generated one"
    if _CONTROL.match(sides.was) or _CONTROL.match(sides.now):
        return "template change" if _realigns(sides) else "conversation switched"
    return "earlier text changed" if _realigns(sides) else "conversation switched"


def _differ_across(
    pattern: re.Pattern[str], sides: _Sides, usable: Callable[[str], bool] = lambda _: True
) -> bool:
    """Whether both texts have a match of ``pattern`` that covers the break, and the two differ."""
    found = []
    for text in (sides.shared + sides.was, sides.shared + sides.now):
        at = len(sides.shared)
        start = max(at - 80, 0)
        match = next((m for m in pattern.finditer(text, start, at + 80) if m.start() <= at < m.end()), None)
        if match is None or not usable(match.group()):
            return False
        found.append(match.group())
    return found[0] != found[1]


def _looks_random(word: str) -> bool:
    """Digits and letters mixed, as in a nonce; a plain word or a plain number is not one."""
    return any(c.isdigit() for c in word) and any(c.isalpha() for c in word)


def _json_equal(sides: _Sides) -> bool:
    """Whether the break lies inside a JSON object that is equal as a value in both texts."""
    decoder = json.JSONDecoder()
    opening = sides.shared.rfind("{")
    for _ in range(8):
        if opening < 0:
            return False
        try:
            was, was_end = decoder.raw_decode(sides.shared + sides.was, opening)
            now, now_end = decoder.raw_decode(sides.shared + sides.now, opening)
        except (ValueError, RecursionError):
            was, now, was_end, now_end = None, 0, 0, 0
        if was == now and min(was_end, now_end) > len(sides.shared):
            return True
        opening = sides.shared.rfind("{", 0, opening)
    return False


def _realigns(sides: _Sides) -> bool:
    """Whether text from after the break comes again in the new prompt: the same conversation, edited."""
    length = min(_REALIGN_CHARACTERS, len(sides.was) // 2)
    if length < 12:
        return False
    return any(
        sides.was[at : at + length] in sides.now for at in range(length, len(sides.was) - length + 1, length)
    )


def same_text_at(held: Sequence[int], prompt: Sequence[int], position: int, piece: Piece) -> bool:
    """Whether both sides go on with the same text for as long as both known first tokens last."""
    if position >= min(len(held), len(prompt)):
        return False
    first, second = piece(held[position]), piece(prompt[position])
    if not first or not second:
        return False
    was, now = _bytes(held[position:], piece), _bytes(prompt[position:], piece)
    needed = min(max(len(first), len(second)), len(was), len(now))
    return was[:needed] == now[:needed]


def _bytes(ids: Sequence[int], piece: Piece) -> bytes:
    return b"".join(piece(i) or b"" for i in ids)


def _text(ids: Sequence[int], piece: Piece) -> str:
    return _bytes(ids, piece).decode("utf-8", errors="replace")
