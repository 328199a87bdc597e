"""Rates over episodes with both within-arm controls beside them; what does not count, with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from replay.verdicts import Verdict
from stats.bootstrap import rate_interval
from stats.intervals import Interval, wilson
from stats.report.configuration import Key
from stats.report.records import EpisodeRecord, Unreadable
from stats.report.series import EpisodePair, Series
from stats.tables.basis import basis, carry_word
from stats.tables.table import Cell, Column, Table
from tracer.episode import Carry

RATE_COLUMNS = (
    Column(key="configuration", title="configuration", common=True),
    Column(key="workload", title="workload", common=True),
    Column(key="pair", title="arms"),
    Column(key="episodes", title="n", kind="count", unit="episodes"),
    Column(key="differ", title="differ", kind="count", unit="episodes"),
    Column(key="rate", title="rate", kind="share"),
    Column(key="interval", title="95 %", kind="share_interval"),
    Column(key="baseline_against_itself", title="baseline vs itself", kind="count", unit="episodes"),
    Column(key="arm_against_itself", title="arm vs itself", kind="count", unit="episodes"),
    Column(key="attributable", title="attributable", kind="count", unit="episodes"),
    Column(key="kept", title="caches", common=True),
    Column(key="control", title="control", common=True),
    Column(key="evidence", title="evidence", common=True),
)


def episode_rate_interval(differs: Sequence[bool], carry: Carry) -> Interval | None:
    """Wilson over episodes; with carried-over caches the hull with circular blocks, in execution order."""
    if carry is Carry.CARRIED_OVER:
        return rate_interval([float(d) for d in differs])
    return wilson(sum(differs), len(differs))


def rates_table(series: Sequence[Series], names: Mapping[Key, str]) -> Table:
    """One row a series that has at least one episode that counts."""
    rows = [_row(one, one.counted, names) for one in series if one.counted]
    shown = [one for one in series if one.counted]
    return Table(
        name="rates",
        title="Episodes that differ",
        columns=RATE_COLUMNS,
        rows=tuple(rows),
        basis=basis((s.key.carry for s in shown), (s.key.control for s in shown)),
        notes=_rate_notes(shown),
    )


def declared_table(series: Sequence[Series], names: Mapping[Key, str]) -> Table | None:
    """Rates that stand on the engine's settings alone; None when there are none."""
    found = [(one, [p for p in one.pairs if p.declared]) for one in series]
    found = [(one, pairs) for one, pairs in found if pairs]
    if not found:
        return None
    return Table(
        name="declared",
        title="Declared only: whether a cache was used was not observed",
        columns=RATE_COLUMNS,
        rows=tuple(_row(one, pairs, names) for one, pairs in found),
        basis=basis((s.key.carry for s, _ in found), (s.key.control for s, _ in found)),
        notes=(
            "These arms say by their settings which cache was on; no count confirms it. They never gate.",
        ),
    )


def excluded_arms_table(episodes: Sequence[EpisodeRecord], unreadable: Sequence[Unreadable]) -> Table | None:
    """Every arm that does not count, with its reason; None when all count."""
    rows: list[tuple[Cell, ...]] = []
    for episode in episodes:
        rows += [
            (episode.episode.episode_id, record.arm.label, record.arm.index, record.why_not, episode.path)
            for record in episode.arms
            if not record.may_count
        ]
    rows += [(None, None, None, f"unreadable: {file.reason}", file.path) for file in unreadable]
    if not rows:
        return None
    return Table(
        name="not_counted",
        title="Arms that do not count",
        columns=(
            Column(key="episode", title="episode", common=True),
            Column(key="arm", title="arm"),
            Column(key="arm_index", title="index", kind="count"),
            Column(key="reason", title="reason"),
            Column(key="file", title="file"),
        ),
        rows=tuple(rows),
        basis="One row an arm or file; nothing is computed from them.",
        shown_rows=30,
    )


def excluded_pairs_table(series: Sequence[Series], names: Mapping[Key, str]) -> Table | None:
    """Pairs of arms without a rate, by reason; None when every episode of every series counts."""
    rows: list[tuple[Cell, ...]] = []
    for one in series:
        reasons = Counter(pair.why_not for pair in one.pairs if not pair.counts)
        for reason, episodes in reasons.most_common():
            name = names[one.key.configuration]
            rows.append((name, one.key.workload, pair_label(one), episodes, reason))
    if not rows:
        return None
    return Table(
        name="pairs_not_counted",
        title="Pairs of arms without a rate",
        columns=(
            Column(key="configuration", title="configuration", common=True),
            Column(key="workload", title="workload", common=True),
            Column(key="pair", title="arms"),
            Column(key="episodes", title="n", kind="count", unit="episodes"),
            Column(key="reason", title="reason"),
        ),
        rows=tuple(rows),
        basis="n counts episodes; none of them is in a rate.",
        shown_rows=30,
    )


def pair_label(one: Series) -> str:
    """For instance ``cold vs warm``, with the number of the run when there are several."""
    run = f" (run {one.key.run})" if one.key.run else ""
    return f"{one.key.baseline} vs {one.key.arm}{run}"


def _row(one: Series, pairs: Sequence[EpisodePair], names: Mapping[Key, str]) -> tuple[Cell, ...]:
    differs = [bool(pair.differs) for pair in pairs]
    k, n = sum(differs), len(differs)
    return (
        names[one.key.configuration],
        one.key.workload,
        pair_label(one),
        n,
        k,
        k / n,
        episode_rate_interval(differs, one.key.carry),
        sum(bool(p.within_baseline and p.within_baseline.differs) for p in pairs),
        sum(bool(p.within_arm and p.within_arm.differs) for p in pairs),
        sum(_attributable(p) for p in pairs) if all(p.attribution_known for p in pairs) else None,
        carry_word(one.key.carry),
        str(one.key.control),
        ", ".join(sorted({str(pair.evidence_class) for pair in pairs})),
    )


def _attributable(pair: EpisodePair) -> bool:
    return any(r.verdict is Verdict.FLIPPED and r.attributable for r in pair.comparison.requests)


def _rate_notes(shown: Sequence[Series]) -> tuple[str, ...]:
    if not shown:
        return ("No pair of arms may count: see the arms and pairs that are listed with their reasons.",)
    notes = ["An episode differs when a request flipped, or its prompt changed."]
    if any(s.key.carry is Carry.CARRIED_OVER for s in shown):
        notes.append(
            "Carried-over caches couple neighbouring episodes: intervals are the hull of Wilson's and of a "
            "circular block bootstrap in execution order (10000 resamples, seed 20261007)."
        )
    if any(s.key.carry is not Carry.CARRIED_OVER for s in shown):
        notes.append("Intervals of emptied and sentinel episodes are Wilson's.")
    return tuple(notes)
