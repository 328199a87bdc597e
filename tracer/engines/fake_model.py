"""The make-believe model behind ``FakeEngine``: a small vocabulary and rows made by a hash.

A row depends on the tokens before it, and a little on how their keys and values came to be: each
cached token carries the batch (start, length) in which it was computed. So the same history gives
the same bits, another history gives slightly other numbers and now and then another token, as in
real engines. Prefilling one single token equals decoding it, also as there.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import xxhash
from msgspec import Struct
from numpy.typing import NDArray

from tracer.episode import Message, Scale
from tracer.errors import UsageError

VOCABULARY = 512
END = 256
ROLE_IDS = {"system": 257, "user": 258, "assistant": 259, "tool": 260}
_MARKS = {END: "<|end|>", **{token: f"<|{role}|>" for role, token in ROLE_IDS.items()}}
_LETTERS = " etaoinshrdlcumf"
PIECES: tuple[bytes, ...] = (
    *(bytes([value]) for value in range(256)),
    *(mark.encode() for mark in _MARKS.values()),
    *[(a + b).encode() for a in _LETTERS for b in _LETTERS][: VOCABULARY - 256 - len(_MARKS)],
)
"""Bytes of each token: all single bytes, the marks, and pairs of common letters."""

_LONGER = {piece: token for token, piece in enumerate(PIECES) if len(piece) > 1}

Batch = tuple[int, int]
"""Start and length, in tokens, of the batch that computed a token's keys and values."""


class FakeAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to answer when ``after`` is the text that occurs last in the prompt.

    With ``near_ties`` at an output position the runner-up is that many logits behind.
    """

    after: str
    text: str
    near_ties: dict[int, float] = {}


class FakeFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that goes wrong. ``request`` counts from 0 since the engine was opened; None = each.

    kind: ``error`` (EngineError), ``dies`` (EngineDied, and dead from then on), ``nan-row`` (one NaN
    in the row at ``position``), ``all-nan-row``, ``uncounted`` (cached tokens not observed), ``lies``
    (cached tokens reported ``by`` too many), ``leaks`` (reuses the cache although told not to),
    ``slow`` (waits ``seconds`` at each token), ``wobbles`` (other numbers at each call).
    """

    kind: str
    request: int | None = None
    position: int = 0
    by: int = 0
    seconds: float = 0.0


FAULT_KINDS = frozenset(
    {"error", "dies", "nan-row", "all-nan-row", "uncounted", "lies", "leaks", "slow", "wobbles"}
)


class FakeScript(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a fake engine behaves; the JSON file of ``--fake-script`` has these fields."""

    seed: int = 0
    answers: tuple[FakeAnswer, ...] = ()
    faults: tuple[FakeFault, ...] = ()
    answer_tokens: int = 24
    """Typical length of an answer that is not scripted."""
    spread: float = 2.0
    """Standard deviation of the logits of an answer that is not scripted."""
    disturbance: float = 0.02
    """How far, in logits, another history of the cache moves the numbers; 0 = exact engine."""
    block_tokens: int = 1
    batch_tokens: int = 64
    context_tokens: int = 8192
    state_bytes_per_token: int = 1000
    prompt_cache_mib: int = 64
    token_seconds: float = 0.0
    scale: Scale = Scale.LOGIT
    without: tuple[str, ...] = ()
    """Fields of ``Capabilities`` that this engine shall lack."""
    model_name: str = "fake-512"

    def __post_init__(self) -> None:
        unknown = {fault.kind for fault in self.faults} - FAULT_KINDS
        if unknown:
            raise ValueError(
                f"unknown kind of fault {sorted(unknown)[0]!r}; there are {', '.join(sorted(FAULT_KINDS))}"
            )
        if min(self.block_tokens, self.batch_tokens, self.context_tokens, self.answer_tokens) < 1:
            raise ValueError(
                "block_tokens, batch_tokens, context_tokens and answer_tokens must be at least 1"
            )


def read_script(path: str) -> FakeScript:
    """Read a JSON script. Raises ``UsageError`` that says where the mistake is."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # the path may be anything that opens
            return msgspec.json.decode(file.read(), type=FakeScript)
    except OSError as error:
        raise UsageError(f"The fake engine's script {path!r} cannot be read: {error.strerror}.") from None
    except msgspec.MsgspecError as error:
        raise UsageError(f"The fake engine's script {path!r} is not valid: {error}.") from None


def tokenize(text: str) -> list[int]:
    """Longest match first: marks, then pairs of letters, then single bytes."""
    raw = text.encode("utf-8", "surrogateescape")
    ids: list[int] = []
    at = 0
    while at < len(raw):
        mark = next((token for token, name in _MARKS.items() if raw.startswith(name.encode(), at)), None)
        if mark is not None:
            ids.append(mark)
            at += len(PIECES[mark])
            continue
        pair = _LONGER.get(raw[at : at + 2])
        ids.append(raw[at] if pair is None else pair)
        at += 1 if pair is None else 2
    return ids


def text_of(token_ids: Sequence[int]) -> str:
    """Text of tokens without the marks."""
    return b"".join(PIECES[token] for token in token_ids if token not in _MARKS).decode("utf-8", "replace")


def render(messages: Sequence[Message]) -> str:
    """``<|role|>content<|end|>`` for each message, then the assistant's mark."""
    turns = [f"{_MARKS[ROLE_IDS.get(m.role, ROLE_IDS['user'])]}{m.content}{_MARKS[END]}" for m in messages]
    return "".join(turns) + _MARKS[ROLE_IDS["assistant"]]


class FakeModel:
    """Rows of one script."""

    def __init__(self, script: FakeScript) -> None:
        self._script = script
        self._answers = [(a.after.encode(), tuple(tokenize(a.text)), a.near_ties) for a in script.answers]

    def scripted(self, prompt: Sequence[int]) -> tuple[tuple[int, ...], dict[int, float]] | None:
        """The answer whose ``after`` occurs last in the prompt, with its near ties."""
        if not self._answers:
            return None
        text = b"".join(PIECES[token] for token in prompt)
        found = [
            (text.rfind(after), len(after), ids, ties) for after, ids, ties in self._answers if after in text
        ]
        if not found:
            return None
        _, _, ids, ties = max(found, key=lambda each: each[:2])
        return ids, ties

    def row(self, tokens: Sequence[int], batches: Sequence[Batch], prompt_tokens: int) -> NDArray[np.float32]:
        """Logits after ``tokens``, float32[VOCABULARY]; ``batches`` says how each was computed."""
        raw = np.asarray(tokens, np.int32).tobytes()
        key = xxhash.xxh3_64_intdigest(raw, seed=self._script.seed)
        values = np.random.default_rng(key).standard_normal(VOCABULARY) * self._script.spread
        values[END] = -30.0
        for role in ROLE_IDS.values():
            values[role] = -40.0
        self._steer(values, tokens, prompt_tokens)
        if self._script.disturbance:
            how = np.asarray(batches, np.int32).tobytes()
            noise = np.random.default_rng(xxhash.xxh3_64_intdigest(raw + how, seed=self._script.seed))
            values += noise.standard_normal(VOCABULARY) * self._script.disturbance
        return values.astype(np.float32)

    def _steer(self, values: NDArray[np.float64], tokens: Sequence[int], prompt_tokens: int) -> None:
        """Make the next token of a scripted answer, or the end of an answer, the best one."""
        position = len(tokens) - prompt_tokens
        scripted = self.scripted(tokens[:prompt_tokens])
        if scripted is None:
            prompt = np.asarray(tokens[:prompt_tokens], np.int32).tobytes()
            length = self._script.answer_tokens
            span = max(length // 2, 1)
            if position >= length - span // 2 + xxhash.xxh3_64_intdigest(prompt) % span:
                values[END] = values.max() + 4.0
            return
        ids, ties = scripted
        wanted = ids[position] if position < len(ids) else END
        highest = float(np.delete(values, wanted).max())
        values[wanted] = highest + ties.get(position, 4.0)
