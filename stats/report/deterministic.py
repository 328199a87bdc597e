"""Does an engine's deterministic mode make the cached and the recomputed path equal? One sentence each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.verdicts import Verdict
from stats.report.configuration import Key, configuration_settings
from stats.report.effective_settings import deterministic_mode
from stats.report.series import Series
from tracer.episode import CacheState


def deterministic_sentences(
    configurations: Sequence[Key], series: Sequence[Series], names: Mapping[Key, str]
) -> tuple[str, ...]:
    """For every configuration with such a mode: what its recompute against cached pairs show."""
    said = []
    for key in dict.fromkeys(configurations):
        mode = deterministic_mode(configuration_settings(key))
        if mode is None:
            continue
        own = [s for s in series if s.key.configuration == key and s.counted and _cached(s)]
        if not own:
            said.append(
                f"{names[key]}: whether {mode} makes the cached and the recomputed path equal is not known, "
                "since no pair of arms counts."
            )
        said += [f"{names[key]}, {s.key.baseline} vs {s.key.arm}: {_sentence(s, mode)}" for s in own]
    return tuple(said)


def _cached(series: Series) -> bool:
    return series.key.baseline_state is CacheState.COLD and series.key.arm_state is not CacheState.COLD


def _sentence(series: Series, mode: str) -> str:
    pairs = series.counted
    n = len(pairs)
    unstable = sum(any(c is not None and c.differs for c in (p.within_baseline, p.within_arm)) for p in pairs)
    verdicts = [r.verdict for p in pairs for r in p.comparison.requests]
    differ, drifted = sum(bool(p.differs) for p in pairs), verdicts.count(Verdict.DRIFTED)
    flipped = verdicts.count(Verdict.FLIPPED)
    repeats = (
        f"both arms repeat their tokens in all {n} episodes"
        if not unstable
        else f"an arm does not repeat its tokens in {unstable} of {n} episodes"
    )
    if differ:
        return (
            f"with {mode} {repeats}, and the cached path still differs from the recomputed one "
            f"in {differ} of {n} episodes ({flipped} of {len(verdicts)} requests flipped): "
            "the mode does not make them equal."
        )
    if drifted:
        return (
            f"with {mode} {repeats}, and cached and recomputed tokens are equal, but the numbers behind them "
            f"differ in {drifted} of {len(verdicts)} requests: the mode does not make the two paths equal."
        )
    if any(v is not Verdict.IDENTICAL for v in verdicts):
        return (
            f"with {mode} {repeats}, and cached and recomputed tokens are equal; "
            "not all numbers were observed."
        )
    return (
        f"with {mode} {repeats}, and the cached path equals the recomputed one in tokens "
        f"and observed numbers in all {len(verdicts)} requests."
    )
