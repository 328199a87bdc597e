"""The report of a bisect: which setting is to blame, what changing it costs, and everything tried."""

from __future__ import annotations

from collections.abc import Iterator

from replay.bisect.outcome import Agreement, BisectResult, Counts, Found, Speed, Trial
from stats.tables.table import Cell, Column, Report, Table
from tracer.clean_text import NOT_OBSERVED, number


def bisect_report(result: BisectResult, command: str | None) -> Report:
    """Sentences first, then the costs, every configuration, and what was left out."""
    tables = [result_table(result), cost_table(result), configurations_table(result), not_tried_table(result)]
    return Report(
        title=f"cachetrace bisect: {result.episode_id}",
        command=command,
        summary=tuple(_summary(result)),
        tables=tuple(table for table in tables if table is not None),
    )


def result_table(result: BisectResult) -> Table:
    """The conclusion in one row, for scripts; its sentences stand in the summary."""
    trial = result.chosen
    verified = result.default.repeats_itself if trial is None else trial.verified
    if result.found is Found.NONE:
        verified = None
    shown = trial or result.default
    return Table(
        name="result",
        title="Result",
        columns=(
            Column(key="found", title="result"),
            Column(key="setting", title="setting"),
            Column(key="options", title="options"),
            Column(key="verified", title="verified", kind="flag"),
            Column(key="prompt_lengths", title="prompt lengths", kind="count"),
            Column(key="requests", title="n", kind="count", unit="requests"),
            Column(key="singles", title="singles tried", kind="count"),
            Column(key="pairs", title="pairs tried", kind="count"),
        ),
        rows=(
            (
                str(result.found),
                None if trial is None else trial.configuration.label,
                result.told or None,
                verified,
                len(shown.exposed_lengths),
                len(result.requests),
                result.singles,
                result.pairs,
            ),
        ),
        basis="Verified: a second, fresh run gave the same; prompt lengths: of requests with reuse.",
    )


def configurations_table(result: BisectResult) -> Table:
    """One row a configuration, the default first, in the order in which they were tried."""
    rows = [_row(result.default), *(_row(trial) for trial in result.trials)]
    return Table(
        name="configurations",
        title="Cold against warm, under each configuration",
        columns=(
            Column(key="configuration", title="configuration"),
            Column(key="result", title="cold vs warm"),
            Column(key="requests", title="n", kind="count", unit="requests"),
            Column(key="identical", title="identical", kind="count"),
            Column(key="drifted", title="drifted", kind="count"),
            Column(key="flipped", title="flipped", kind="count"),
            Column(key="max_drift", title="drift up to", kind="number", unit="nat"),
            Column(key="evidence", title="by", common=True),
            Column(key="cached", title="cached", kind="share"),
            Column(key="cold_moved", title="cold moved"),
            Column(key="controls", title="controls"),
            Column(key="file", title="file", common=True),
            Column(key="reason", title="reason", kind="sentence"),
        ),
        rows=tuple(rows),
        basis=(
            f"Caches emptied before every arm; n counts requests {_indices(result)} of the recording, asked "
            "cold and warm under each configuration."
        ),
        notes=(
            "Cold moved: this configuration's cold arm held against the default's cold arm.",
            "Controls: both arms were run again from a fresh start and gave the same numbers. The default "
            "is run twice, and so is a change before it counts as found; the others once.",
        ),
    )


def cost_table(result: BisectResult) -> Table:
    """Speed of the change that was found beside the default and beside the trivial answers."""
    rows = [
        ("default, warm", *_speeds(result.default.warm_speed, result.default)),
        ("caching off (default, cold)", *_speeds(result.default.cold_speed, result.default)),
    ]
    for trial in result.trials:
        if trial.agreement is Agreement.AGREES or trial is _ubatch_1(result):
            kind = "found" if _is_chosen(result, trial) else str(trial.agreement)
            speeds = _speeds(trial.warm_speed, result.default)
            rows.append((f"{trial.configuration.label} ({kind}), warm", *speeds))
    return Table(
        name="cost",
        title="What it costs",
        columns=(
            Column(key="configuration", title="configuration"),
            Column(key="prompt_tokens_s", title="prompt", kind="number", unit="tokens/s"),
            Column(key="output_tokens_s", title="output", kind="number", unit="tokens/s"),
            Column(key="seconds", title="these requests", kind="number", unit="s"),
            Column(key="times", title="times the default", kind="number"),
        ),
        rows=tuple(rows),
        basis=(
            f"{result.default.prompt_tokens} prompt tokens and {result.default.output_tokens} output tokens; "
            "prompt tokens count whether they were cached or computed."
        ),
        notes=("Measured once, on this machine, while whatever else ran on it ran.",),
    )


def not_tried_table(result: BisectResult) -> Table | None:
    """Candidates that were left out, with the reason; None when there are none."""
    if not result.not_tried:
        return None
    return Table(
        name="not_tried",
        title="Not tried",
        columns=(Column(key="setting", title="setting"), Column(key="reason", title="reason")),
        rows=tuple((left.change.label, left.reason) for left in result.not_tried),
        basis="One row a candidate.",
    )


def _row(trial: Trial) -> tuple[Cell, ...]:
    cross = trial.cross
    cached = None
    if trial.cached_tokens is not None and trial.prompt_tokens:
        cached = trial.cached_tokens / trial.prompt_tokens
    return (
        trial.configuration.label,
        str(trial.agreement),
        *((None,) * 5 if cross is None else _counts(cross)),
        None if cross is None or cross.evidence is None else str(cross.evidence),
        cached,
        moved(trial.cold_moved),
        {None: "not repeated", True: "repeats", False: "does not repeat"}[trial.repeats_itself],
        trial.file,
        trial.reason or None,
    )


def _counts(cross: Counts) -> tuple[Cell, ...]:
    return cross.requests, cross.identical, cross.drifted, cross.flipped, cross.max_drift


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


def _speeds(speed: Speed, default: Trial) -> tuple[Cell, ...]:
    needed = speed.seconds(default.prompt_tokens, default.output_tokens)
    usual = default.warm_speed.seconds(default.prompt_tokens, default.output_tokens)
    times = None if needed is None or not usual else needed / usual
    return speed.prompt_tokens_s, speed.output_tokens_s, needed, times


def _is_chosen(result: BisectResult, trial: Trial) -> bool:
    return result.chosen is not None and result.chosen.configuration == trial.configuration


def _ubatch_1(result: BisectResult) -> Trial | None:
    return next((t for t in result.trials if t.configuration.label == "ubatch=1"), None)


# ---- sentences


def _summary(result: BisectResult) -> Iterator[str]:
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
    yield (
        "Verified: a second run from a fresh start repeated both arms and they agreed again, on "
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
    others = [
        other.configuration.label
        for other in result.trials
        if other.agreement is Agreement.AGREES and not _is_chosen(result, other)
    ]
    if others:
        yield f"Also agreed, without a verifying run: {', '.join(others)}."


def _cost(result: BisectResult, trial: Trial) -> str:
    default = result.default
    parts = [
        f"default {_speed(default.warm_speed)}",
        f"caching off {_speed(default.cold_speed)}",
    ]
    trivial = _ubatch_1(result)
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
        f"({_indices(result)}, counted from 0)."
    )


def _indices(result: BisectResult) -> str:
    asked = result.requests
    if len(asked) > 1 and asked == tuple(range(asked[0], asked[-1] + 1)):
        return f"{asked[0]} to {asked[-1]}"
    return ", ".join(map(str, asked))
