"""From aligned entries to columns: what was observed at each position, and why the rest was not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import gt

import numpy as np
from numpy.typing import NDArray

from tracer.columns import Alternatives, PathColumns, PositionFlag
from tracer.engines.http.align import NO_ENTRY, Alignment, PieceOf, align_by_bytes, align_by_ids
from tracer.engines.http.entry_names import bytes_of, id_of
from tracer.engines.http.local_ids import LocalIds
from tracer.engines.http.wire import TokenEntry, TopEntry
from tracer.episode import Identity, Scale

LOWEST_LOGPROB = -9998.0
"""At or below it stand the stand-ins for "no number": -9999.0 (vLLM), -3.4e38 (SGLang, llama.cpp)."""
HIGHEST_LOGPROB = 1e-3
"""Above it a "logprob" is a logit: no probability exceeds 1."""
FORCED_GAP = 1e-3
"""A greedy answer whose chosen token lies further below the best one was chosen by something else."""


@dataclass(slots=True)
class ColumnsRequest:
    """Everything that ``build_columns`` reads."""

    text: str
    ids: Sequence[int] | None
    entries: Sequence[TokenEntry] | None
    top_k: int | None
    """Alternatives asked for; None = not known."""
    greedy: bool
    local_ids: LocalIds
    piece: PieceOf
    after_sampling: bool = False


@dataclass(slots=True)
class ObservedColumns:
    """The columns of one choice."""

    path: PathColumns
    alternatives: Alternatives | None
    identity: Identity
    scale: Scale | None
    pieces: dict[int, bytes] = field(default_factory=dict)
    not_observed: dict[str, str] = field(default_factory=dict)


def build_columns(wanted: ColumnsRequest) -> ObservedColumns:
    """Align, convert and flag. Never raises for odd numbers: they become unobserved, with a reason."""
    pieces: dict[int, bytes] = {}
    missing: dict[str, str] = {}
    entries = list(wanted.entries or ())
    ids, identity, alignment = _tokens(wanted, entries, pieces, missing)
    n = len(ids)
    flags = np.zeros(n, np.uint8)
    values = np.full(n, np.nan, np.float32)
    ordered: list[TokenEntry | None] = [entries[i] if i != NO_ENTRY else None for i in alignment.entry_of]
    with np.errstate(over="ignore"):  # a value beyond float32 becomes infinite, which is what it shows
        problems = _chosen_values(ordered, wanted, values, flags)
        alternatives = _alternatives(ordered, ids, wanted, pieces, flags)
    for position in alignment.merged:
        flags[position] |= PositionFlag.MERGED
    scale = _scale(values, flags, alternatives)
    if alignment.reason:
        problems.append(alignment.reason)
    if wanted.after_sampling:
        problems = ["the server sent probabilities after sampling, which are not the model's own numbers"]
    elif not entries and n:
        problems = ["the server sent no logprobs"]
    if problems:
        missing["chosen_values"] = "; ".join(problems)
        missing["margins"] = missing["chosen_values"]
    if alternatives is None and n:
        missing["alternatives"] = missing.get("chosen_values", "the server sent no alternatives")
    elif n and (without := int(np.count_nonzero((flags & PositionFlag.ALTERNATIVES) == 0))):
        missing["alternatives"] = f"{without} of {n} positions came without alternatives"
    _flag_forced(values, flags, alternatives, wanted.greedy)
    observed = scale is not None and bool(np.any(flags & PositionFlag.VALUE))
    path = PathColumns(
        token_ids=np.asarray(ids, np.int32), flags=flags, chosen_values=values if observed else None
    )
    return ObservedColumns(path, alternatives, identity, scale, pieces, missing)


def _tokens(
    wanted: ColumnsRequest, entries: list[TokenEntry], pieces: dict[int, bytes], missing: dict[str, str]
) -> tuple[Sequence[int], Identity, Alignment]:
    """The path's ids, what they are, and where their entries lie."""
    entry_ids = [id_of(entry) for entry in entries]
    named = [token for token in entry_ids if token is not None]
    all_named = len(named) == len(entries)
    for entry, token in zip(entries, entry_ids, strict=True):
        if token is not None and token not in pieces and (spelled := bytes_of(entry)) is not None:
            pieces[token] = spelled

    def known(token: int) -> bytes | None:
        return pieces.get(token) or wanted.piece(token)

    if wanted.ids is not None:
        ids = list(wanted.ids)
        if not entries:
            return ids, Identity.TOKEN_ID, Alignment((NO_ENTRY,) * len(ids))
        spelled_bytes = [bytes_of(entry) for entry in entries]
        if all_named:
            return ids, Identity.TOKEN_ID, align_by_ids(ids, named, spelled_bytes, known)
        alignment = align_by_bytes(ids, spelled_bytes, known)
        for position, entry_index in enumerate(alignment.entry_of):
            if entry_index != NO_ENTRY and (spelled := spelled_bytes[entry_index]):
                pieces.setdefault(ids[position], spelled)
        return ids, Identity.TOKEN_ID, alignment
    if entries and all_named:
        return named, Identity.TOKEN_ID, Alignment(tuple(range(len(named))))
    if entries:
        missing["token_ids"] = "the server names no ids; tokens are compared by their strings"
        strings = [bytes_of(entry) or (entry.token or "").encode() for entry in entries]
        identity = Identity.TOKEN_STRING
    else:
        missing["token_ids"] = "the server sent text only; its words are compared, not its tokens"
        strings = [word.encode() for word in re.findall(r"\s*\S+|\s+\Z", wanted.text)]
        identity = Identity.TEXT
    ids = [wanted.local_ids.id_of(string) for string in strings]
    pieces.update(zip(ids, strings, strict=True))
    entry_of = tuple(range(len(ids))) if entries else (NO_ENTRY,) * len(ids)
    return ids, identity, Alignment(entry_of)


def _is_number(value: float | None) -> bool:
    """False for null and for the stand-ins. NaN and infinities ARE observed: they show corruption."""
    return value is not None and (value == -np.inf or not value <= LOWEST_LOGPROB)


def _is_placeholder(entry: TokenEntry, top_k: int | None) -> bool:
    """Whether a logprob of 0 stands for "not computed": no alternative is left beside it.

    llama.cpp fills certainty in for drafted tokens, others send what truncation left over.
    """
    if entry.top_logprobs is None or top_k == 0:
        return False
    usable = sum(1 for top in entry.top_logprobs if _is_number(top.logprob))
    if top_k is None or top_k == 1:
        return usable == 0 or usable < len(entry.top_logprobs)
    return usable <= 1


def _chosen_values(
    ordered: Sequence[TokenEntry | None],
    wanted: ColumnsRequest,
    values: NDArray[np.float32],
    flags: NDArray[np.uint8],
) -> list[str]:
    """Fill in the chosen tokens' values; says how many were null, stand-ins or placeholders."""
    null = stand_in = placeholder = 0
    observed = int(PositionFlag.VALUE)
    if wanted.after_sampling:
        return []
    for position, entry in enumerate(ordered):
        if entry is None:
            continue
        value = entry.logprob
        if value is None:
            null += 1
        elif not _is_number(value):
            stand_in += 1
        elif value == 0.0 and _is_placeholder(entry, wanted.top_k):
            placeholder += 1
        else:
            values[position] = value
            flags[position] = observed
    n = len(ordered)
    problems = []
    if null:
        problems.append(f"{null} of {n} values were null")
    if stand_in:
        problems.append(f"{stand_in} of {n} values were the server's stand-in for no number")
    if placeholder:
        problems.append(f"{placeholder} of {n} entries were placeholders without numbers")
    return problems


def _alternatives(
    ordered: Sequence[TokenEntry | None],
    ids: Sequence[int],
    wanted: ColumnsRequest,
    pieces: dict[int, bytes],
    flags: NDArray[np.uint8],
) -> Alternatives | None:
    """The table of alternatives; sets the flags that depend on it."""
    rows = [_row(entry, ids[position], wanted, pieces) for position, entry in enumerate(ordered)]
    width = min(max((len(row[0]) for row in rows), default=0), wanted.top_k or 255, 255)
    if width == 0:
        return None
    out_ids = np.zeros((len(rows), width), np.int32)
    out_values = np.full((len(rows), width), np.nan, np.float32)
    counts = np.zeros(len(rows), np.uint8)
    for position, (tokens, values) in enumerate(rows):
        kept = min(len(tokens), width)
        counts[position] = kept
        out_ids[position, :kept] = tokens[:kept]
        out_values[position, :kept] = values[:kept]
    flags[counts > 0] |= np.uint8(PositionFlag.ALTERNATIVES)
    if width > 1:
        flags[(counts > 1) & (out_values[:, 0] == out_values[:, 1])] |= np.uint8(PositionFlag.EXACT_TIE)
    return Alternatives(out_ids, out_values, counts)


def _plain_row(tops: list[TopEntry], pieces: dict[int, bytes]) -> tuple[list[int], list[float]] | None:
    """A row that needs no care (ids, numbers, falling, no id twice); None when it does."""
    tokens = [top.id for top in tops if top.id is not None]
    values = [top.logprob for top in tops if top.logprob is not None]
    if not len(tops) == len(tokens) == len(values) == len(set(tokens)):
        return None
    if not all(map(gt, values, values[1:])) or (values and not values[-1] > LOWEST_LOGPROB):
        return None
    for token, top in zip(tokens, tops, strict=True):
        if token not in pieces and (spelled := bytes_of(top)) is not None:
            pieces[token] = spelled
    return tokens, values


def _row(
    entry: TokenEntry | None, own_id: int, wanted: ColumnsRequest, pieces: dict[int, bytes]
) -> tuple[list[int], list[float]]:
    """One position's alternatives: ids and values, best first, equal values by ascending id."""
    tops = (entry.top_logprobs if entry is not None else None) or []
    plain = _plain_row(tops, pieces)
    if plain is not None or entry is None:
        return plain or ([], [])
    tokens: list[int] = []
    values: list[float] = []
    for top in tops:
        value = top.logprob
        if value is None or not value > LOWEST_LOGPROB:
            continue
        token = top.id
        if token is None:
            token = id_of(top)
        if token is None:
            token = _local(top, entry, own_id, wanted.local_ids, pieces)
        elif token not in pieces and (spelled := bytes_of(top)) is not None:
            pieces[token] = spelled
        tokens.append(token)
        values.append(value)
    best: dict[int, float] = {}  # some servers gave every alternative the same id
    for value, token in sorted(zip(values, tokens, strict=True), key=lambda pair: (-pair[0], pair[1])):
        best.setdefault(token, value)
    return list(best), list(best.values())


def _local(
    top: TopEntry, entry: TokenEntry, own_id: int, local_ids: LocalIds, pieces: dict[int, bytes]
) -> int:
    """The id for an alternative that is named by its string only."""
    if top.token == entry.token and top.bytes == entry.bytes:
        return own_id
    spelled = bytes_of(top) or (top.token or "").encode("utf-8", "replace")
    token = local_ids.id_of(spelled)
    pieces[token] = spelled
    return token


def _scale(
    values: NDArray[np.float32], flags: NDArray[np.uint8], alternatives: Alternatives | None
) -> Scale | None:
    observed = values[(flags & PositionFlag.VALUE) != 0]
    if observed.size == 0 and alternatives is None:
        return None
    highest = max(
        float(np.max(observed, initial=-np.inf, where=~np.isnan(observed))),
        float(np.max(alternatives.values, initial=-np.inf, where=~np.isnan(alternatives.values)))
        if alternatives is not None
        else -np.inf,
    )
    return Scale.LOGIT if HIGHEST_LOGPROB < highest < np.inf else Scale.LOGPROB


def _flag_forced(
    values: NDArray[np.float32],
    flags: NDArray[np.uint8],
    alternatives: Alternatives | None,
    greedy: bool,
) -> None:
    if not greedy or alternatives is None:
        return
    with np.errstate(invalid="ignore"):
        below = alternatives.values[:, 0] - values > FORCED_GAP
    flags[below & ((flags & PositionFlag.VALUE) != 0)] |= np.uint8(PositionFlag.FORCED)
