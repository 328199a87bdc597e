"""A few lines on what a replay found, for the end of the command. Tables and rates are ``report``'s."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from replay.divergence import amount
from replay.divergence.readable import ReadableTrace
from replay.verdicts import ArmStatus, Comparison, EpisodeAnalysis, Verdict
from tracer.clean_text import cells, clean

_ORDER = tuple(Verdict)


def summary_lines(trace: ReadableTrace, analysis: EpisodeAnalysis) -> Iterator[str]:
    """One line an arm, then one line for each first flip; all text is cleaned."""
    labels = [arm.label for arm in trace.arms]
    width = max((cells(label) for label in labels), default=0)
    against = {comparison.arm: comparison for comparison in analysis.comparisons}
    controls = {comparison.arm: comparison for comparison in analysis.controls}
    for assessment in analysis.assessments:
        index = assessment.arm
        parts = []
        if index == analysis.baseline:
            parts.append("baseline")
        if index in against:
            parts.append(f"against {labels[against[index].baseline]}: {_counts(against[index])}")
        if index in controls:
            parts.append(f"repeat of {labels[controls[index].baseline]}: {_counts(controls[index])}")
        if assessment.status is not ArmStatus.VERIFIED:
            parts.append(f"{assessment.status}: {clean(assessment.reason)}")
        yield f"{labels[index]:<{width}}  {'; '.join(parts)}".rstrip()
    for comparison in analysis.comparisons:
        arm = trace.arms[comparison.arm]
        if arm.repeat == 0 and arm.pass_index == 0:
            yield from _first_flip(comparison, labels)


def _counts(comparison: Comparison) -> str:
    if comparison.refused:
        return f"not compared ({clean('; '.join(comparison.mismatches))})"
    counts = Counter(verdict.verdict for verdict in comparison.requests)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _ORDER if counts[verdict])
    drifts = [(v.max_drift, v.drift_from) for v in comparison.requests if v.max_drift and v.drift_from]
    if drifts:
        largest, drift_from = max(drifts, key=lambda pair: pair[0])
        said += f", drift{drift_from.of} up to {amount(largest)}"
    attributable = sum(1 for v in comparison.requests if v.attributable)
    return f"{said}, {attributable} attributable to the cache" if attributable else said


def _first_flip(comparison: Comparison, labels: list[str]) -> Iterator[str]:
    first = comparison.first_flip
    if first is not None and first.flip is not None:
        flip = first.flip
        where = f"{labels[comparison.arm]}, request {first.request}, token {flip.position}"
        yield f"first flip of {where}: {flip.sentence} ({flip.triage})."
