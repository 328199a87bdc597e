"""Under which name a drift stands: the drift of both top-k lists, or that of the chosen token alone.

The second is never larger than the first, often several times smaller, and all there is where the lists
were not read or not recorded. So the two never share a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from replay.verdicts import DriftFrom, RequestVerdict
from stats.tables.table import Column

KINDS = (DriftFrom.TOP_K, DriftFrom.CHOSEN)
"""In the order of the columns."""


def drift_columns(key: str, title: str) -> tuple[Column, ...]:
    """One column for each of ``KINDS``; one in which nothing stands is left out where people read."""
    return tuple(
        Column(
            key=f"{key}_of_chosen_token" if kind is DriftFrom.CHOSEN else key,
            title=f"{title}{kind.of}",
            kind="number",
            unit="nat",
        )
        for kind in KINDS
    )


def under_its_name(drift: float | None, drift_from: DriftFrom | None) -> tuple[float | None, ...]:
    """One drift, one cell for each of ``KINDS``."""
    return tuple(drift if kind is drift_from else None for kind in KINDS)


def stands_under(kind: DriftFrom, among: Iterable[RequestVerdict]) -> Callable[[RequestVerdict], bool]:
    """Whose drift stands in the column of ``kind`` in a row over the requests ``among``.

    No drift over the lists is none of the chosen token either. So beside requests of which only the
    chosen token's is known, identical ones go with these and make no row say "largest drift 0".
    """
    taken = {(request.drift_from, request.max_drift == 0) for request in among}
    only_lists = all(drift_from is not DriftFrom.CHOSEN for drift_from, _ in taken)
    if kind is DriftFrom.TOP_K:
        says_something = only_lists or (DriftFrom.TOP_K, False) in taken
        return lambda request: says_something and request.drift_from is DriftFrom.TOP_K
    return lambda request: (
        not only_lists and (request.drift_from is DriftFrom.CHOSEN or request.max_drift == 0)
    )


def largest_drifts(requests: Iterable[RequestVerdict]) -> tuple[float | None, ...]:
    """The largest drift of a row, one cell for each of ``KINDS``."""
    seen = [request for request in requests if request.max_drift is not None]
    cells = []
    for kind in KINDS:
        stands = stands_under(kind, seen)
        cells.append(max((r.max_drift for r in seen if r.max_drift is not None and stands(r)), default=None))
    return tuple(cells)
