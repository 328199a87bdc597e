"""What tests of real engines mean by: the arms of a study repeat themselves."""

from pathlib import Path

from replay.divergence import analyse
from replay.verdicts import Evidence, Verdict
from tracer.episode import CacheState
from tracer.tracefile import TraceReader


def check_repeats(file: Path) -> None:
    """Two cold and two warm arms, every arm verified, every request of a repeat identical by row.

    By row: all logits of each step have the fingerprint that they had the first time. Equal tokens are not
    enough, numbers may drift below them.
    """
    with TraceReader.open(file) as trace:
        states = [arm.state for arm in trace.arms]
        assert states == [CacheState.COLD, CacheState.COLD, CacheState.WARM, CacheState.WARM], file.name
        found = analyse(trace)
    assert all(assessment.may_count for assessment in found.assessments), file.name
    assert len(found.controls) == 2, file.name
    for control in found.controls:
        kinds = {(request.verdict, request.evidence) for request in control.requests}
        assert kinds == {(Verdict.IDENTICAL, Evidence.ROW)}, (file.name, control.arm, kinds)
