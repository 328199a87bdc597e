"""Measuring in turns: a machine is never quiet, so what is compared is measured side by side."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

FEWEST_PAIRS = 6
"""Fewer give no 95 % interval of a median."""


@dataclass(frozen=True)
class Effort:
    """How often everything is measured."""

    pairs: int = 30
    budget_s: float = 60.0
    """Seconds after which a long measurement ends early; never before ``FEWEST_PAIRS``."""
    quick: bool = False
    """Smaller sizes, to see that all of it works."""

    @property
    def fewest(self) -> int:
        return 2 if self.quick else min(FEWEST_PAIRS, self.pairs)


def in_turns(
    effort: Effort, sides: Mapping[str, Callable[[], float]], warm_up: int = 1
) -> dict[str, list[float]]:
    """Side → what it returned in each round; who begins changes from round to round.

    One round is thrown away first. Place i of every list is of round i, so they can be paired.
    """
    names = list(sides)
    for _ in range(warm_up):
        for name in names:
            sides[name]()
    found: dict[str, list[float]] = {name: [] for name in names}
    ends = time.monotonic() + effort.budget_s
    for number in range(effort.pairs):
        if number >= effort.fewest and time.monotonic() > ends:
            break
        first = number % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(sides[name]())
        progress(f"{number + 1} of {effort.pairs} rounds")
    progress("")
    return found


def seconds(body: Callable[[], object]) -> Callable[[], float]:
    """How long a call takes, in wall seconds."""

    def timed() -> float:
        begun = time.perf_counter()
        body()
        return time.perf_counter() - begun

    return timed


def progress(text: str) -> None:
    """One line on stderr that overwrites itself, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
