"""The report of a bisect: which setting is to blame, what changing it costs, and everything tried."""

from __future__ import annotations

from pathlib import Path

from replay.bisect.outcome import Agreement, BisectResult, Counts, Found, Speed, Trial
from stats.bisect_findings import indices, is_chosen, moved, summary, ubatch_1
from stats.tables.table import Cell, Column, Report, Table


def bisect_report(result: BisectResult, command: str | None) -> Report:
    """Sentences first, then the costs, every configuration, and what was left out."""
    tables = [result_table(result), cost_table(result), configurations_table(result), not_tried_table(result)]
    return Report(
        title=f"cachetrace bisect: {result.episode_id}",
        command=command,
        summary=tuple(summary(result)),
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
            f"Caches emptied before every arm; n counts requests {indices(result)} of the recording, asked "
            "cold and warm under each configuration."
        ),
        notes=(
            "Cold moved: this configuration's cold arm held against the default's cold arm.",
            "Controls: both arms were run again from a fresh start and gave the same numbers. The default "
            "is run twice, and so is a change before it counts as found; the others once.",
            f"The trace files are in {result.folder}.",
        ),
    )


def cost_table(result: BisectResult) -> Table:
    """Speed of the change that was found beside the default and beside the trivial answers."""
    rows = [
        ("default, warm", *_speeds(result.default.warm_speed, result.default)),
        ("caching off (default, cold)", *_speeds(result.default.cold_speed, result.default)),
    ]
    for trial in result.trials:
        if trial.agreement is Agreement.AGREES or trial is ubatch_1(result):
            kind = "found" if is_chosen(result, trial) else str(trial.agreement)
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
        None if trial.file is None else Path(trial.file).name,
        trial.reason or None,
    )


def _counts(cross: Counts) -> tuple[Cell, ...]:
    return cross.requests, cross.identical, cross.drifted, cross.flipped, cross.max_drift


def _speeds(speed: Speed, default: Trial) -> tuple[Cell, ...]:
    needed = speed.seconds(default.prompt_tokens, default.output_tokens)
    usual = default.warm_speed.seconds(default.prompt_tokens, default.output_tokens)
    times = None if needed is None or not usual else needed / usual
    return speed.prompt_tokens_s, speed.output_tokens_s, needed, times
