"""Token ids of one trace in the terms of another.

Where an engine gives strings only, ids are local to their trace and stand for the strings. Two traces
then agree on a token when its bytes agree.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from replay.divergence.readable import ReadableTrace
from tracer.episode import Identity


def ids_in_common_terms(
    a: ReadableTrace, b: ReadableTrace, identity: Identity, ids: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Ids of trace ``b`` as trace ``a`` would write them; a token that ``a`` never saw gets a negative id.

    Real token ids, and ids within one trace, are common terms already.
    """
    if identity is Identity.TOKEN_ID or a is b:
        return ids
    known = _ids_by_piece(a)
    unique, places = np.unique(ids, return_inverse=True)
    renamed = np.empty(len(unique), np.int32)
    for place, token_id in enumerate(unique.tolist()):
        piece = b.piece(token_id)
        renamed[place] = known.get(piece, -1 - token_id) if piece is not None else -1 - token_id
    return renamed[places].reshape(ids.shape)


def _ids_by_piece(trace: ReadableTrace) -> dict[bytes, int]:
    """Piece → local id, over the tokens that the trace used; local ids are dense from 0."""
    known: dict[bytes, int] = {}
    token_id = 0
    while (piece := trace.piece(token_id)) is not None:
        known.setdefault(piece, token_id)
        token_id += 1
    return known
