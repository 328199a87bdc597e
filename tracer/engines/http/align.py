"""Which probability entry belongs to which output token.

Servers send fewer entries than ids (a stop word's entries are trimmed), one entry for several
ids, or entries for tokens that are not in the ids. So the two are aligned through ids and bytes,
never by list index alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

NO_ENTRY = -1
PieceOf = Callable[[int], bytes | None]


@dataclass(frozen=True, slots=True)
class Alignment:
    """For each token the index of its entry, or NO_ENTRY."""

    entry_of: tuple[int, ...]
    merged: frozenset[int] = frozenset()
    """Tokens that share one entry with a neighbour, so that they have no numbers of their own."""
    unused_entries: int = 0
    reason: str | None = None
    """Why some tokens have no entry."""


def align_by_ids(
    ids: Sequence[int], entry_ids: Sequence[int], entry_bytes: Sequence[bytes | None], piece: PieceOf
) -> Alignment:
    """Entries name their ids. Order is kept; a gap is closed by bytes where they are known."""
    if list(ids) == list(entry_ids):
        return Alignment(tuple(range(len(ids))))
    if len(entry_ids) < len(ids) and list(ids[: len(entry_ids)]) == list(entry_ids):
        missing = len(ids) - len(entry_ids)
        return Alignment(
            tuple(range(len(entry_ids))) + (NO_ENTRY,) * missing,
            reason=f"the server sent no numbers for the last {missing} of {len(ids)} tokens (trimmed)",
        )
    entry_of = [NO_ENTRY] * len(ids)
    matcher = SequenceMatcher(None, list(ids), list(entry_ids), autojunk=False)
    for block in matcher.get_matching_blocks():
        for step in range(block.size):
            entry_of[block.a + step] = block.b + step
    merged = _merged(ids, entry_of, entry_bytes, piece)
    return _result(ids, entry_of, merged, len(entry_ids))


def align_by_bytes(ids: Sequence[int], entry_bytes: Sequence[bytes | None], piece: PieceOf) -> Alignment:
    """Entries name only strings. Equal counts stand for equal positions unless bytes contradict."""
    if len(ids) == len(entry_bytes):
        wrong = [i for i, token in enumerate(ids) if _contradict(piece(token), entry_bytes[i])]
        if not wrong:
            return Alignment(tuple(range(len(ids))))
        entry_of = [NO_ENTRY if i in set(wrong) else i for i in range(len(ids))]
        return _result(ids, entry_of, frozenset(), len(entry_bytes))
    entry_of, merged, position = [NO_ENTRY] * len(ids), set[int](), 0
    for entry, covered in enumerate(entry_bytes):
        run = _run_of(ids, position, covered, piece)
        if run == 0:
            break
        if run == 1:
            entry_of[position] = entry
        else:
            merged.update(range(position, position + run))
        position += run
    return _result(ids, entry_of, frozenset(merged), len(entry_bytes))


def _result(ids: Sequence[int], entry_of: list[int], merged: frozenset[int], entries: int) -> Alignment:
    used = sum(1 for entry in entry_of if entry != NO_ENTRY)
    without = len(ids) - used - len(merged)
    reasons = []
    if merged:
        reasons.append(f"{len(merged)} of {len(ids)} tokens share one entry with a neighbour")
    if without:
        reasons.append(f"{without} of {len(ids)} tokens have no entry that fits them")
    return Alignment(tuple(entry_of), merged, entries - used, "; ".join(reasons) or None)


def _merged(
    ids: Sequence[int], entry_of: list[int], entry_bytes: Sequence[bytes | None], piece: PieceOf
) -> frozenset[int]:
    """Gaps of several tokens whose bytes together are those of the one entry left between."""
    merged: set[int] = set()
    start = 0
    while start < len(ids):
        if entry_of[start] != NO_ENTRY:
            start += 1
            continue
        end = start
        while end < len(ids) and entry_of[end] == NO_ENTRY:
            end += 1
        before = entry_of[start - 1] if start else -1
        after = entry_of[end] if end < len(ids) else len(entry_bytes)
        if after - before == 2 and _run_of(ids, start, entry_bytes[before + 1], piece) == end - start > 1:
            merged.update(range(start, end))
        start = end
    return frozenset(merged)


def _run_of(ids: Sequence[int], position: int, covered: bytes | None, piece: PieceOf) -> int:
    """How many tokens from here on spell exactly these bytes; 0 = they do not."""
    if covered is None:
        return 0
    spelled = b""
    for run, token in enumerate(ids[position:], start=1):
        known = piece(token)
        if known is None:
            return 0
        spelled += known
        if spelled == covered:
            return run
        if not covered.startswith(spelled):
            return 0
    return 0


def _contradict(known: bytes | None, seen: bytes | None) -> bool:
    # Servers hide incomplete characters behind "" or U+FFFD, so only clear text can contradict.
    if known is None or not seen or "\ufffd".encode() in seen:
        return False
    return known != seen
