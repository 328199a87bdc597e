"""The verdict of one request in two arms. Reads the path; top-k lists only where they are needed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

import numpy as np
from msgspec import structs

from replay.divergence.evidence import Finding, compare_numbers
from replay.divergence.guards import same_prompt
from replay.divergence.identity import CommonTerms
from replay.divergence.numbers import (
    Floats,
    Numbers,
    chosen_drift,
    first_difference,
    gap_changes,
    listed_drift,
)
from replay.divergence.readable import Side
from replay.verdicts import DriftFrom, Evidence, RequestVerdict, Verdict
from tracer.episode import Identity, Request, StopReason
from tracer.tracefile.arm_index import LOST


class Detail(StrEnum):
    """How much of a trace is read for drift. Verdicts, flips and their triage are the same with both."""

    PATH = "path"
    """Drift of the chosen token only; the top-k lists stay unread except for flips and their triage."""
    ALTERNATIVES = "alternatives"
    """Drift as design defines it: over all ids in both top-k lists."""


@dataclass(frozen=True)
class RequestPair:
    """One request in two arms, with what was read of it so far."""

    a: Side
    b: Side
    request_a: Request
    request_b: Request

    @cached_property
    def numbers_a(self) -> Numbers:
        """The baseline's path, without its alternatives."""
        return Numbers(self.a.trace.path(self.a.index, self.request_a.index), self.request_a.scale)

    @cached_property
    def numbers_b(self) -> Numbers:
        """The other arm's path, without its alternatives; ids in the baseline's terms."""
        path = self.b.trace.path(self.b.index, self.request_b.index)
        if self._terms is not None:
            path = replace(path, token_ids=self._terms.rename(path.token_ids))
        return Numbers(path, self.request_b.scale)

    @cached_property
    def _terms(self) -> CommonTerms | None:
        """Only where the ids of two files stand for strings."""
        a, b = self.a.trace, self.b.trace
        if not CommonTerms.needed(a, b, self.request_b.identity):
            return None
        return CommonTerms(a, b, self.listed_a.path, self.listed_a.alternatives)

    @cached_property
    def listed_a(self) -> Numbers:
        """As ``numbers_a``, with the alternatives read."""
        read = self.a.trace.alternatives(self.a.index, self.request_a.index)
        return self.numbers_a.with_lists(read)

    @cached_property
    def listed_b(self) -> Numbers:
        """As ``numbers_b``, with the alternatives read."""
        read = self.b.trace.alternatives(self.b.index, self.request_b.index)
        if read is not None and self._terms is not None:
            read = replace(read, ids=self._terms.rename(read.ids))
        return self.numbers_b.with_lists(read)

    @cached_property
    def flip_position(self) -> int | None:
        """First position at which the tokens differ, None when they are the same."""
        return first_difference(self.numbers_a.path.token_ids, self.numbers_b.path.token_ids)

    @cached_property
    def compared(self) -> int:
        """Positions at which all tokens before agree and both arms have one."""
        n = min(len(self.numbers_a.path), len(self.numbers_b.path))
        return n if self.flip_position is None else min(self.flip_position + 1, n)

    @cached_property
    def finding(self) -> Finding:
        """What the numbers of the compared positions say."""
        return compare_numbers(
            self.numbers_a,
            self.numbers_b,
            self.compared,
            lambda: self.listed_a.alternatives,
            lambda: self.listed_b.alternatives,
        )

    def drift(self, detail: Detail) -> Floats:
        """float64[compared], NaN where not comparable. Equal rows have drift 0 and are not read."""
        if self.finding.equal and self.finding.evidence is Evidence.ROW:
            return np.zeros(self.compared)
        if detail is Detail.PATH:
            return chosen_drift(self.numbers_a, self.numbers_b, self.compared)
        return listed_drift(self.listed_a, self.listed_b, self.compared)

    def drift_from(self, detail: Detail) -> DriftFrom:
        """What ``drift`` is taken over. Equal rows have equal lists, read or not, which do not drift."""
        if self.finding.equal and self.finding.evidence in (Evidence.ROW, Evidence.TOP_K):
            return DriftFrom.TOP_K
        if detail is Detail.PATH or self.listed_a.alternatives is None or self.listed_b.alternatives is None:
            return DriftFrom.CHOSEN
        return DriftFrom.TOP_K


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict with what a flip (its own, or another request's) needs."""

    verdict: RequestVerdict
    flipped: RequestPair | None = None
    """Only of a flip: a pair holds on to the columns that it read."""
    agreeing: Floats = field(default_factory=lambda: np.empty(0))
    """Drift at the positions whose token is the same in both arms, without the unobserved ones."""


def judge(pair: RequestPair, *, flipped_before: bool, detail: Detail) -> Judged:
    """The verdict of one request; its flip, triage and attribution are added later."""
    verdict, reason = _without_tokens(pair, flipped_before)
    if verdict is None:
        return _settled_by_bytes(pair) or _judge_tokens(pair, detail)
    return Judged(
        RequestVerdict(
            request=pair.request_b.index,
            verdict=verdict,
            exposure_a=pair.request_a.exposure,
            exposure_b=pair.request_b.exposure,
            reason=reason,
        )
    )


def _settled_by_bytes(pair: RequestPair) -> Judged | None:
    """Columns stored as the very same bytes, fingerprints of whole rows among them, are identical.

    None where that does not hold or does not settle it. It says what ``_judge_tokens`` would say.
    """
    a, b = pair.numbers_a.path, pair.numbers_b.path
    if a.stored is None or a.stored != b.stored or a.fingerprints is None or len(a) == 0:
        return None
    if pair.a.arm.engine.engine != pair.b.arm.engine.engine:
        return None
    return Judged(
        RequestVerdict(
            request=pair.request_b.index,
            verdict=Verdict.IDENTICAL,
            evidence=Evidence.ROW,
            compared_positions=len(a),
            max_drift=0.0,
            median_drift=0.0,
            drift_from=DriftFrom.TOP_K,
            exposure_a=pair.request_a.exposure,
            exposure_b=pair.request_b.exposure,
        ),
        agreeing=np.zeros(len(a)),
    )


def _judge_tokens(pair: RequestPair, detail: Detail) -> Judged:
    """Both arms sent one prompt and answered: compare tokens, then numbers."""
    finding = pair.finding
    verdict, reason = _from_tokens(pair, finding)
    everywhere = pair.drift(detail)
    drift = _observed(everywhere)
    gaps = gap_changes(pair.listed_a, pair.listed_b, pair.compared) if _reads_lists(pair, detail) else None
    evidence = finding.evidence if pair.compared else None
    return Judged(
        RequestVerdict(
            request=pair.request_b.index,
            verdict=verdict,
            evidence=evidence or _token_evidence(pair.request_a.identity),
            compared_positions=pair.compared,
            first_drift=finding.first_unequal,
            max_drift=float(drift.max()) if drift.size else None,
            median_drift=_median(drift) if drift.size else None,
            drift_from=pair.drift_from(detail) if drift.size else None,
            max_gap_change=_largest(gaps),
            exposure_a=pair.request_a.exposure,
            exposure_b=pair.request_b.exposure,
            reason=reason,
        ),
        flipped=pair if verdict is Verdict.FLIPPED else None,
        agreeing=_observed(everywhere[: pair.flip_position]),
    )


def with_lists(one: Judged, pair: RequestPair) -> Judged:
    """The drift of ``one`` over both lists in place of the chosen token's alone; its verdict stays."""
    if pair.listed_a.alternatives is None or pair.listed_b.alternatives is None:
        return one
    drift = listed_drift(pair.listed_a, pair.listed_b, pair.compared)
    return replace(
        one,
        verdict=structs.replace(one.verdict, drift_from=DriftFrom.TOP_K),
        agreeing=_observed(drift[: pair.flip_position]),
    )


def _without_tokens(pair: RequestPair, flipped_before: bool) -> tuple[Verdict | None, str]:
    """The verdicts that do not come from comparing tokens; None when tokens are to be compared."""
    for name, side, request in (("baseline", pair.a, pair.request_a), ("arm", pair.b, pair.request_b)):
        if request.error is not None and request.error.kind == LOST:
            return Verdict.INCOMPLETE, f"lost from the file in the {name} {side.arm.label}"
        if request.error is not None:
            return Verdict.FAILED, f"failed in the {name} {side.arm.label}: {request.error.message}"
        if request.stop is StopReason.CUT:
            return Verdict.INCOMPLETE, f"cut off in the {name} {side.arm.label}"
    # A lost path reads as empty; taken for an answer it would look like a flip.
    if len(pair.numbers_a.path) != pair.request_a.output_tokens:
        return Verdict.INCOMPLETE, f"the tokens of {pair.a.arm.label} are lost from the file"
    if len(pair.numbers_b.path) != pair.request_b.output_tokens:
        return Verdict.INCOMPLETE, f"the tokens of {pair.b.arm.label} are lost from the file"
    prompts_equal = same_prompt(pair.a, pair.b, pair.request_a, pair.request_b)
    if prompts_equal is None:
        return Verdict.UNOBSERVED, "whether both arms sent the same prompt was not observed"
    if prompts_equal is False:
        if flipped_before:
            return Verdict.DOWNSTREAM, "its prompt differs, and an earlier request of this arm flipped"
        return Verdict.PROMPT_CHANGED, "its prompt differs though no earlier request flipped"
    return None, ""


def _from_tokens(pair: RequestPair, finding: Finding) -> tuple[Verdict, str]:
    if pair.flip_position is not None:
        return Verdict.FLIPPED, ""
    if finding.first_unequal is not None:
        return Verdict.DRIFTED, ""
    if pair.compared == 0:
        return Verdict.UNOBSERVED, "neither arm produced a token"
    if not finding.equal:
        reason = f"the tokens are equal; {finding.unobserved_positions} of {pair.compared} positions have no"
        return Verdict.UNOBSERVED, f"{reason} numbers that can be compared"
    if pair.a.arm.engine.engine != pair.b.arm.engine.engine:
        return Verdict.UNOBSERVED, "the numbers are equal, but bit identity is never claimed across engines"
    return Verdict.IDENTICAL, ""


def _reads_lists(pair: RequestPair, detail: Detail) -> bool:
    """Gap changes need the lists; equal rows have none and are not worth a read."""
    return detail is Detail.ALTERNATIVES and not (
        pair.finding.equal and pair.finding.evidence is Evidence.ROW
    )


def _observed(drift: Floats) -> Floats:
    return drift[~np.isnan(drift)]


def _median(drift: Floats) -> float:
    """Of numbers without a NaN; ``np.median`` looks for those, which takes most of its time."""
    n = len(drift)
    ordered = np.sort(drift)
    return float((ordered[(n - 1) // 2] + ordered[n // 2]) / 2)


def _largest(changes: Floats | None) -> float | None:
    if changes is None or np.isnan(changes).all():
        return None
    return float(np.nanmax(np.abs(changes)))


def _token_evidence(identity: Identity) -> Evidence:
    return Evidence.TOKENS if identity is Identity.TOKEN_ID else Evidence.STRINGS
