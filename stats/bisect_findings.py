"""What a bisect found, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from replay.bisect.outcome import Agreement, BisectResult, Counts, Found, Speed, Trial
from tracer.clean_text import NOT_OBSERVED, number


def summary(result: BisectResult) -> Iterator[str]:
    """The conclusion first, then what it rests on and what it costs."""
    default = result.default
    assert default.cross is not None, "a default that was not served ends the bisect"
    where = f"{result.engine}, {result.model or 'a model without a name'}"
    if result.found is Found.NO_DIVERGENCE:
        yield (
            f"No divergence under the default configuration ({where}): {default.cross.identical} of "
            f"{default.cross.requests} requests are identical by {default.cross.evidence} cold and warm, "
            "states verified, drift exactly 0."
        )
        yield _coverage(result)
        return
    yield (
        f"Default configuration ({where}): {_differing(default.cross)}; both arms repeat themselves and both "
        "states are verified, so the difference comes from the cache."
    )
    yield _coverage(result)
    if result.chosen is None:
        yield f"None found: {_tried(result)}; none makes cold and warm agree and repeats itself."
    else:
        yield from _chosen(result, result.chosen)
    yield from _others(result)
    yield from _weaker(result)


def _chosen(result: BisectResult, trial: Trial) -> Iterator[str]:
    assert trial.cross is not None, "a change was found by comparing"
    kind = "setting" if len(trial.configuration.changes) == 1 else "pair of settings"
    yield (
        f"The {kind} to blame: {trial.configuration.label} ({result.told}) makes cold and warm identical by "
        f"{trial.cross.evidence} on all {trial.cross.requests} requests. It is the smallest change found: "
        f"{_tried(result)}."
    )
    lengths = trial.exposed_lengths
    wider = (
        "" if trial.wider is None else f", and so they did on {trial.wider.requests} requests of the episode"
    )
    yield (
        f"Verified: a second run from a fresh start repeated both arms and they agreed again{wider}: on "
        f"{len(lengths)} prompt lengths served from a cache ({', '.join(map(str, lengths))} tokens)."
    )
    if trial.cold_moved is not None:
        said = moved(trial.cold_moved)
        yield (
            "It leaves the cold numbers as they are."
            if said == "no"
            else f"It moves the cold numbers too, against the default's cold arm: {said or 'not known'}."
        )
    yield _cost(result, trial)


def _others(result: BisectResult) -> Iterator[str]:
    """What agreed besides: not run again, or run again and different."""
    agreed = [t for t in result.trials if t.agreement is Agreement.AGREES and not is_chosen(result, t)]
    for repeats, said in (
        (None, "Also agreed, without a verifying run"),
        (False, "Agreed once and did not repeat"),
    ):
        labels = [trial.configuration.label for trial in agreed if trial.repeats_itself is repeats]
        if labels:
            yield f"{said}: {', '.join(labels)}."


def _cost(result: BisectResult, trial: Trial) -> str:
    default = result.default
    parts = [
        f"default {_speed(default.warm_speed)}",
        f"caching off {_speed(default.cold_speed)}",
    ]
    trivial = ubatch_1(result)
    if trivial is not None and trivial.configuration != trial.configuration:
        parts.append(f"ubatch=1 {_speed(trivial.warm_speed)}")
    return f"It serves {_speed(trial.warm_speed)}; {'; '.join(parts)}."


def _speed(speed: Speed) -> str:
    return f"{_whole(speed.prompt_tokens_s)} prompt and {_whole(speed.output_tokens_s)} output tokens/s"


def _whole(value: float | None) -> str:
    return NOT_OBSERVED if value is None else number(value)


def _weaker(result: BisectResult) -> Iterator[str]:
    """Configurations that only lower the drift, when the default flips or drifts further."""
    found = [
        (trial.cross.max_drift, trial)
        for trial in result.trials
        if trial.agreement is Agreement.DRIFTS
        and trial.cross is not None
        and trial.cross.max_drift is not None
    ]
    default = result.default.cross
    if not found or default is None:
        return
    drift, trial = min(found, key=lambda pair: pair[0])
    if default.flipped or (default.max_drift is not None and drift < default.max_drift):
        label = trial.configuration.label
        yield f"Weaker: under {label} no request flips, and the drift is at most {number(drift)}."


def _differing(cross: Counts) -> str:
    said = f"{cross.drifted + cross.flipped} of {cross.requests} requests differ between cold and warm"
    drift = "" if cross.max_drift is None else f", drift up to {number(cross.max_drift)}"
    return f"{said} ({cross.flipped} flipped{drift})"


def _tried(result: BisectResult) -> str:
    refused = sum(t.agreement in (Agreement.REFUSED, Agreement.FAILED) for t in result.trials)
    said = f"{result.singles} single {'setting' if result.singles == 1 else 'settings'} tried"
    if result.pairs:
        said += f", and {result.pairs} of {result.pairs_possible} pairs"
    return said + (f", {refused} of them not taken by the engine" if refused else "")


def _coverage(result: BisectResult) -> str:
    return (
        f"Asked: {len(result.requests)} of {result.requests_recorded} recorded requests "
        f"({indices(result)}, counted from 0)."
    )


def moved(counts: Counts | None) -> str | None:
    """How the cold arm stands to the default's, in words; None = not compared."""
    if counts is None or not counts.requests:
        return None
    if counts.all_identical:
        return "no"
    if counts.flipped:
        return f"{counts.flipped} flipped"
    if counts.drifted:
        return f"by up to {number(counts.max_drift)}"
    return None


def is_chosen(result: BisectResult, trial: Trial) -> bool:
    """Whether this is the change that was found."""
    return result.chosen is not None and result.chosen.configuration == trial.configuration


def ubatch_1(result: BisectResult) -> Trial | None:
    """The trivial answer beside caching off, if it was tried."""
    return next((t for t in result.trials if t.configuration.label == "ubatch=1"), None)


def indices(result: BisectResult) -> str:
    """The requests that were asked, as a person writes them."""
    asked = result.requests
    if len(asked) > 1 and asked == tuple(range(asked[0], asked[-1] + 1)):
        return f"{asked[0]} to {asked[-1]}"
    return ", ".join(map(str, asked))
