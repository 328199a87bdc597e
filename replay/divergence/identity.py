"""Token ids of one request in the terms of another trace.

Where an engine gives strings only, ids are local to their trace and stand for the strings. Two traces
then agree on a token when its bytes agree.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from replay.divergence.readable import ReadableTrace
from tracer.columns import Alternatives, PathColumns
from tracer.episode import Identity


class CommonTerms:
    """Renames ids of trace ``b`` to those of ``a`` for one pair of requests.

    A token that ``a`` did not meet in this request gets a negative id, which equals none of ``a``'s.
    Real token ids, and ids within one trace, are common terms already.
    """

    def __init__(
        self,
        a: ReadableTrace,
        b: ReadableTrace,
        path_a: PathColumns,
        alternatives_a: Alternatives | None,
    ) -> None:
        self._b = b
        ids = path_a.token_ids
        if alternatives_a is not None:
            ids = np.concatenate([ids, alternatives_a.ids.ravel()])
        self._known: dict[bytes, int] = {}
        for token_id in np.unique(ids).tolist():
            piece = a.piece(token_id)
            if piece is not None:
                self._known.setdefault(piece, token_id)

    @staticmethod
    def needed(a: ReadableTrace, b: ReadableTrace, identity: Identity) -> bool:
        """Whether ids of ``b`` mean something else in ``a``."""
        return identity is not Identity.TOKEN_ID and a is not b

    def rename(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Ids of ``b`` as ``a`` writes them; any shape."""
        unique, places = np.unique(ids, return_inverse=True)
        renamed = np.empty(len(unique), np.int32)
        for place, token_id in enumerate(unique.tolist()):
            piece = self._b.piece(token_id)
            stranger = -1 - abs(token_id)
            renamed[place] = stranger if piece is None else self._known.get(piece, stranger)
        return renamed[places].reshape(ids.shape)
