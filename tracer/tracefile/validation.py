"""Everything that can be checked about a trace file without an engine."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from tracer.columns import Alternatives, PathColumns, PositionFlag
from tracer.episode import Arm, Request
from tracer.tracefile.arm_index import LOST
from tracer.tracefile.reader import TraceReader
from tracer.tracefile.secrets_in_trace import find_likely_secrets


class Level(StrEnum):
    """How much a finding matters."""

    BROKEN = "broken"
    """Something is damaged or contradicts itself; it cannot be relied on."""
    WARNING = "warning"
    """It can be read, but somebody should know."""


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that validation found."""

    level: Level
    sentence: str
    arm: int | None = None
    request: int | None = None


class Validation(Struct, frozen=True, kw_only=True):
    """What ``cachetrace validate`` says about one file."""

    path: str
    size_bytes: int
    format: int
    writer: str
    arms: int
    requests: int
    output_tokens: int
    findings: tuple[Finding, ...]

    @property
    def broken(self) -> bool:
        """Whether anything is damaged or contradicts itself."""
        return any(finding.level is Level.BROKEN for finding in self.findings)


def validate(path: Path | str) -> Validation:
    """Read and check the whole file; ``TraceFormatError`` when there is nothing to check."""
    with TraceReader.open(path) as trace:
        findings: list[Finding] = []
        requests = output_tokens = 0
        for arm in trace.arms:
            findings += _check_arm(trace, arm)
            for request in trace.requests(arm):
                if request.error is not None and request.error.kind == LOST:
                    continue
                requests += 1
                output_tokens += request.output_tokens
                findings += _check_request(trace, arm, request)
        findings += _labels(trace.arms)
        findings += [
            Finding(level=Level.WARNING, sentence=found.sentence, arm=found.arm, request=found.request)
            for found in find_likely_secrets(trace)
        ]
        losses = [
            Finding(
                level=Level.WARNING if loss.at_end else Level.BROKEN,
                sentence=loss.sentence,
                arm=loss.arm,
                request=loss.request,
            )
            for loss in trace.check()
        ]
        return Validation(
            path=str(path),
            size_bytes=Path(path).stat().st_size,
            format=trace.format_version,
            writer=trace.writer,
            arms=len(trace.arms),
            requests=requests,
            output_tokens=output_tokens,
            findings=(*losses, *findings),
        )


def _check_arm(trace: TraceReader, arm: Arm) -> Iterator[Finding]:
    requests, end = trace.requests(arm), trace.end(arm)

    def found(level: Level, sentence: str) -> Finding:
        return Finding(level=level, sentence=f"arm {arm.index}: {sentence}", arm=arm.index)

    if end is None:
        yield found(Level.WARNING, f"it is incomplete; {len(requests)} requests are committed.")
    elif end.requests != len(requests):
        yield found(Level.BROKEN, f"its end names {end.requests} requests, {len(requests)} are there.")
    elif not end.completed:
        yield found(Level.WARNING, f"it ended early ({end.reason or 'no reason is given'}).")
    for name, other in (("source", arm.source_arm), ("reference", arm.reference_arm)):
        if other is not None and not 0 <= other < arm.index:
            yield found(Level.BROKEN, f"its {name} arm {other} is not an earlier arm of this file.")
    order = [trace.commit_order(arm, r.index) for r in requests if r.error is None or r.error.kind != LOST]
    if order != sorted(order):
        yield found(Level.BROKEN, "its requests were not committed in order.")


def _labels(arms: tuple[Arm, ...]) -> Iterator[Finding]:
    by_label: dict[str, list[int]] = {}
    for arm in arms:
        by_label.setdefault(arm.label, []).append(arm.index)
    for label, indices in by_label.items():
        if len(indices) > 1:
            sentence = f"arms {', '.join(map(str, indices))} share the label {label}; name them by index."
            yield Finding(level=Level.WARNING, sentence=sentence)


def _check_request(trace: TraceReader, arm: Arm, request: Request) -> Iterator[Finding]:
    def found(level: Level, what: str) -> Finding:
        sentence = f"arm {arm.index}, request {request.index}: {what}"
        return Finding(level=level, sentence=sentence, arm=arm.index, request=request.index)

    yield from (found(level, what) for level, what in _exposure_findings(request))
    if request.output_tokens and not trace.has_path(arm, request.index):
        yield found(Level.BROKEN, f"{request.output_tokens} output tokens are described, no path is there.")
    path = trace.path(arm, request.index)
    table = trace.alternatives(arm, request.index)
    values_observed = path.chosen_values is not None or table is not None
    if values_observed and request.scale is None:
        yield found(Level.BROKEN, "values are there and nothing says on which scale they are.")
    if table is not None:
        yield from (found(Level.WARNING, what) for what in _table_findings(path, table))
    ids = trace.prompt_ids(arm, request.index)
    if ids is not None and request.prompt_tokens != len(ids):
        yield found(
            Level.BROKEN, f"{request.prompt_tokens} prompt tokens are described, {len(ids)} are there."
        )


def _exposure_findings(request: Request) -> Iterator[tuple[Level, str]]:
    exposure = request.exposure
    for name in (
        "prompt_tokens",
        "cached_tokens",
        "expected_tokens",
        "prompt_cache_tokens",
        "restored_tokens",
    ):
        value = getattr(exposure, name)
        if value is not None and value < 0:
            yield Level.BROKEN, f"its exposure has {value} {name.replace('_', ' ')}."
    prompt = exposure.prompt_tokens if exposure.prompt_tokens is not None else request.prompt_tokens
    if exposure.cached_tokens is not None and prompt is not None and exposure.cached_tokens > prompt:
        yield (
            Level.WARNING,
            f"the engine says {exposure.cached_tokens} of {prompt} prompt tokens came from a cache.",
        )


def _table_findings(path: PathColumns, table: Alternatives) -> Iterator[str]:
    """Order, repeated ids and agreement with the path; each named with its first position."""
    n, k = table.ids.shape
    if n == 0 or k == 0:
        return
    observed = np.arange(k) < table.counts[:, None]
    pairs = observed[:, 1:]
    values = table.values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        rising = (values[:, 1:] > values[:, :-1]) & pairs
        unordered = (values[:, 1:] == values[:, :-1]) & (table.ids[:, 1:] < table.ids[:, :-1]) & pairs
    yield from _named(rising.any(axis=1), "alternatives are not best first")
    yield from _named(unordered.any(axis=1), "equal alternatives are not by ascending id")
    yield from _named((~np.isfinite(values) & observed).any(axis=1), "alternatives are not finite")
    if k > 1:
        # Ids that were not observed get values of their own, so that they never look repeated.
        apart = np.where(observed, table.ids.astype(np.int64), -(2**40) - np.arange(k))
        apart.sort(axis=1)
        yield from _named((apart[:, 1:] == apart[:, :-1]).any(axis=1), "an id is listed twice")
    if path.chosen_values is not None and len(path) == n:
        chosen = (table.ids == path.token_ids[:, None]) & observed
        shown = (path.flags & PositionFlag.VALUE) != 0
        differs = (chosen & (table.values != path.chosen_values[:, None])).any(axis=1) & shown
        yield from _named(differs, "the chosen token has another value among the alternatives")


def _named(where: Any, what: str) -> Iterator[str]:
    positions = np.asarray(where, np.bool_)
    count = int(positions.sum())
    if count:
        first = int(positions.argmax())
        yield f"{what} at {count} of {len(positions)} positions, first at {first}."
