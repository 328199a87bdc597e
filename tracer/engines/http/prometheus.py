"""Reading a metrics page in Prometheus' text format."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of the page."""

    name: str
    labels: dict[str, str]
    value: float


def read_samples(page: str) -> list[Sample]:
    """Every sample that can be read; comments and broken lines are skipped."""
    samples = []
    for line in page.splitlines():
        match = None if line.startswith("#") else _LINE.match(line)
        if match is None:
            continue
        try:
            value = float(match.group(3))
        except ValueError:
            continue
        samples.append(Sample(match.group(1), dict(_LABEL.findall(match.group(2) or "")), value))
    return samples


def total(samples: list[Sample], name: str) -> float | None:
    """Sum of a counter over all its labels; None when the page does not have it."""
    values = [sample.value for sample in samples if sample.name == name]
    return sum(values) if values else None
