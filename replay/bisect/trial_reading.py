"""What the file of one configuration says: do cold and warm agree, did cold move, how fast was it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from replay.bisect.candidates import Configuration
from replay.bisect.outcome import Agreement, Counts, Speed, Trial
from replay.bisect.trial_run import complete_arm, failure_of
from replay.divergence import assess_arm, compare_across, compare_arms
from replay.verdicts import ArmStatus, Comparison, DriftFrom, Evidence, Verdict
from tracer.episode import Arm, CacheState, Request
from tracer.tracefile import TraceReader

_STRENGTH = tuple(Evidence)


def read_trial(path: Path, configuration: Configuration, default: Path | None = None) -> Trial:
    """The trial in a file; ``default``: the default configuration's file, whose cold arm is compared."""
    with TraceReader.open(path) as trace:
        cold, warm = (complete_arm(trace, state, 0) for state in (CacheState.COLD, CacheState.WARM))
        if cold is None or warm is None:
            reason = failure_of(trace) or "its arms are not complete"
            return Trial(
                configuration=configuration, agreement=Agreement.FAILED, reason=reason, file=str(path)
            )
        served = trace.requests(warm.index)
        trial = Trial(
            configuration=configuration,
            agreement=Agreement.NOT_VERIFIED,
            file=str(path),
            cross=counted(compare_arms(trace, cold.index, warm.index)),
            cold_speed=speed(trace.requests(cold.index)),
            warm_speed=speed(served),
            exposed_lengths=_exposed_lengths(served),
            prompt_tokens=sum(r.prompt_tokens or 0 for r in served),
            cached_tokens=_cached(served),
            output_tokens=sum(r.output_tokens for r in served),
        )
        trial = _with_repeat(trial, trace, cold, warm)
        if default is not None:
            trial = replace(trial, cold_moved=_cold_moved(trace, cold, default))
        agreement, reason = _agreement(trace, cold, warm, trial)
        return replace(trial, agreement=agreement, reason=reason)


def widened(trial: Trial, wide: Trial) -> Trial:
    """A trial that agreed, with what the same configuration shows over more requests."""
    if wide.agreement is Agreement.AGREES:
        return replace(trial, wider=wide.cross, exposed_lengths=wide.exposed_lengths)
    reason = wide.reason
    if wide.cross is not None and wide.cross.identical < wide.cross.requests:
        others = wide.cross.requests - wide.cross.identical
        reason = (
            f"agrees on these requests, but {others} of {wide.cross.requests} differ in the verifying run"
        )
    return replace(trial, wider=wide.cross, agreement=wide.agreement, reason=reason)


def counted(comparison: Comparison) -> Counts:
    """How often each verdict was given. A refused comparison counts no request."""
    verdicts = [v.verdict for v in comparison.requests]
    # The chosen token's alone is another, smaller quantity: configurations are ranked by the drift.
    listed = [v for v in comparison.requests if v.drift_from is DriftFrom.TOP_K]
    drifts = [v.max_drift for v in listed if v.max_drift is not None]
    evidence = [v.evidence for v in comparison.requests if v.evidence is not None]
    identical, drifted, flipped = (
        verdicts.count(kind) for kind in (Verdict.IDENTICAL, Verdict.DRIFTED, Verdict.FLIPPED)
    )
    return Counts(
        requests=len(verdicts),
        identical=identical,
        drifted=drifted,
        flipped=flipped,
        other=len(verdicts) - identical - drifted - flipped,
        max_drift=max(drifts, default=None),
        evidence=max(evidence, key=_STRENGTH.index, default=None),
    )


def speed(requests: Sequence[Request]) -> Speed:
    """Tokens per second over all requests; None where a request's time was not observed."""
    prompt = [(r.prompt_tokens, r.timing.prompt_s) for r in requests]
    output = [(r.output_tokens, r.timing.decode_s) for r in requests]
    return Speed(prompt_tokens_s=_rate(prompt), output_tokens_s=_rate(output))


def _rate(pairs: Sequence[tuple[int | None, float | None]]) -> float | None:
    tokens = [count for count, _ in pairs if count is not None]
    seconds = [time for _, time in pairs if time is not None]
    if len(tokens) < len(pairs) or len(seconds) < len(pairs) or not sum(seconds):
        return None
    return sum(tokens) / sum(seconds)


def _with_repeat(trial: Trial, trace: TraceReader, cold: Arm, warm: Arm) -> Trial:
    again = [complete_arm(trace, state, 1) for state in (CacheState.COLD, CacheState.WARM)]
    cold_again, warm_again = again
    if cold_again is None or warm_again is None:
        return trial
    return replace(
        trial,
        cold_control=counted(compare_arms(trace, cold.index, cold_again.index)),
        warm_control=counted(compare_arms(trace, warm.index, warm_again.index)),
        again=counted(compare_arms(trace, cold_again.index, warm_again.index)),
    )


def _cold_moved(trace: TraceReader, cold: Arm, default: Path) -> Counts | None:
    with TraceReader.open(default) as other:
        baseline = complete_arm(other, CacheState.COLD, 0)
        if baseline is None:
            return None
        # The two differ in a setting on purpose, which is what the guards would refuse.
        return counted(compare_across((other, baseline.index), (trace, cold.index), anyway=True))


def _agreement(trace: TraceReader, cold: Arm, warm: Arm, trial: Trial) -> tuple[Agreement, str]:
    for arm in (cold, warm):
        assessment = assess_arm(trace, arm.index)
        if not assessment.may_count:
            status = assessment.status if assessment.status is not ArmStatus.VERIFIED else "declared only"
            return Agreement.NOT_VERIFIED, f"{arm.label} is {status}: {assessment.reason}"
    cross = trial.cross
    assert cross is not None, "both arms are complete"
    if cross.flipped:
        return Agreement.FLIPS, ""
    if cross.other or not cross.requests:
        return Agreement.NOT_VERIFIED, f"the numbers of {cross.other} requests were not observed"
    return (Agreement.DRIFTS, "") if cross.drifted else (Agreement.AGREES, "")


def _exposed_lengths(requests: Sequence[Request]) -> tuple[int, ...]:
    exposed = (r.prompt_tokens for r in requests if r.exposure.cached_tokens)
    return tuple(sorted({tokens for tokens in exposed if tokens is not None}))


def _cached(requests: Sequence[Request]) -> int | None:
    counts = [r.exposure.cached_tokens for r in requests]
    return None if None in counts else sum(count for count in counts if count is not None)
