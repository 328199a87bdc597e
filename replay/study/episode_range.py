"""Positions of episodes as a study file and ``--episodes`` write them: ``0-79`` or ``0-3,7``."""

from __future__ import annotations

RANGE_PATTERN = r"^\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*$"
"""Six digits: every range that passes can be listed."""


def positions(text: str) -> tuple[int, ...]:
    """The numbers of a text that fits ``RANGE_PATTERN``, each once, in the order given.

    Raises ``ValueError`` with a sentence for a range that runs backwards.
    """
    found: dict[int, None] = {}
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) < int(first):
            raise ValueError(f"the range {part} runs backwards; write {last}-{first}")
        found.update(dict.fromkeys(range(int(first), int(last or first) + 1)))
    return tuple(found)
