"""Whether an arm's cache state was what it claims: held against the exposure of every request."""

from __future__ import annotations

from collections.abc import Sequence

from replay.divergence.readable import ReadableTrace
from replay.verdicts import ArmAssessment, ArmStatus, EvidenceClass
from tracer.episode import Arm, CacheState, Exposure, ExposureSource, Request, StopReason
from tracer.exposure import ExposureVerdict, exposure_verdict, short_by, state_holds
from tracer.tracefile.arm_index import LOST

_COUNTED = (ExposureSource.ENGINE, ExposureSource.USAGE)


def assess_arm(trace: ReadableTrace, arm: int) -> ArmAssessment:
    """Status, evidence class and the verdict of each request's exposure; reads descriptions only."""
    requests = trace.requests(arm)
    described = trace.arms[arm]
    block = described.capabilities.cache_block_tokens
    verdicts = tuple(exposure_verdict(r.exposure, described.state, block) for r in requests)
    status, reason = _status(trace, described, requests, verdicts)
    return ArmAssessment(
        arm=arm, status=status, evidence_class=_evidence_class(requests), exposures=verdicts, reason=reason
    )


def _evidence_class(requests: Sequence[Request]) -> EvidenceClass:
    """The weakest source among the requests that were served."""
    sources = {r.exposure.source for r in requests if r.error is None}
    if not sources or not sources <= {*_COUNTED, ExposureSource.METRICS}:
        return EvidenceClass.DECLARED
    return EvidenceClass.METRICS if ExposureSource.METRICS in sources else EvidenceClass.COUNTED


def _status(
    trace: ReadableTrace, arm: Arm, requests: Sequence[Request], verdicts: Sequence[ExposureVerdict]
) -> tuple[ArmStatus, str]:
    """The first thing that keeps the arm from counting, and its reason."""
    failed = next((r for r in requests if r.error is not None and r.error.kind != LOST), None)
    if failed is not None and failed.error is not None:
        return ArmStatus.FAILED, f"request {failed.index} failed: {failed.error.message}"
    incomplete = _why_incomplete(trace, arm, requests)
    if incomplete:
        return ArmStatus.INCOMPLETE, incomplete
    random = next((r.index for r in requests if not r.sampling.greedy), None)
    if random is not None or not arm.sampling.greedy:
        where = f"request {random}" if random is not None else "the arm"
        return ArmStatus.NOT_GREEDY, f"{where} was not decoded greedily"
    for request, verdict in zip(requests, verdicts, strict=True):
        if verdict is not ExposureVerdict.UNKNOWN and not state_holds(verdict, arm.state):
            return ArmStatus.STATE_NOT_AS_CLAIMED, _broken_claim(request.index, request.exposure, arm.state)
    return _vacuous_or_verified(arm, requests, verdicts)


def _why_incomplete(trace: ReadableTrace, arm: Arm, requests: Sequence[Request]) -> str:
    end = trace.end(arm.index)
    if end is None:
        return "the arm was not finished; run the same replay again to resume it"
    if not end.completed:
        return end.reason or "the arm ended early"
    if len(requests) < end.requests:
        return f"{len(requests)} of {end.requests} requests can be read"
    lost = next((r.index for r in requests if r.error is not None), None)
    if lost is not None:
        return f"request {lost} is lost from the file"
    cut = next((r.index for r in requests if r.stop is StopReason.CUT), None)
    return "" if cut is None else f"request {cut} was cut off"


def _broken_claim(request: int, exposure: Exposure, state: CacheState) -> str:
    cached = exposure.cached_tokens
    if state is CacheState.COLD:
        return f"request {request} had {cached} cached tokens though the arm is cold"
    short = short_by(exposure)
    if short is not None and short > 0:
        return f"request {request} is short by {short}: {cached} cached, {exposure.expected_tokens} expected"
    return f"request {request} had {cached} cached tokens, {exposure.expected_tokens} were expected"


def _vacuous_or_verified(
    arm: Arm, requests: Sequence[Request], verdicts: Sequence[ExposureVerdict]
) -> tuple[ArmStatus, str]:
    if arm.state is CacheState.AS_SERVED:
        return ArmStatus.UNVERIFIED, "a recording as served claims no cache state"
    if not requests:
        return ArmStatus.UNVERIFIED, "the arm has no request"
    unknown = verdicts.count(ExposureVerdict.UNKNOWN)
    if unknown:
        return ArmStatus.UNVERIFIED, f"the exposure of {unknown} of {len(verdicts)} requests is not known"
    parallel = next((r.index for r in requests if not r.serial), None)
    if parallel is not None:
        return ArmStatus.UNVERIFIED, f"other requests were in flight beside request {parallel}"
    exposed = any(r.exposure.expected_tokens or r.exposure.cached_tokens for r in requests)
    if arm.state is not CacheState.COLD and not exposed:
        return ArmStatus.VACUOUS, "no request was expected to be served from a cache"
    return ArmStatus.VERIFIED, ""
