"""Arms of one folder against the cold arms of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from replay.verdicts import Verdict
from stats.clustered_rate import clustered_rate
from stats.intervals import wilson
from stats.report.across import AcrossPair
from stats.report.configuration import configuration_names
from stats.tables.basis import basis, by_evidence, carry_word
from stats.tables.table import Cell, Column, Table

_COMPARED = (Verdict.IDENTICAL, Verdict.DRIFTED, Verdict.FLIPPED, Verdict.UNOBSERVED)


def across_table(pairs: Sequence[AcrossPair]) -> Table:
    """One row a pair of arms; what does not count is named in the notes."""
    names = configuration_names(r.configuration for pair in pairs for r in (pair.baseline, pair.arm))
    groups: dict[tuple[str, str, str], list[AcrossPair]] = {}
    reasons: Counter[str] = Counter()
    for pair in pairs:
        if pair.why_not or pair.differs is None:
            reasons[pair.why_not or "whether it differs is not known"] += 1
            continue
        configuration = names[pair.arm.configuration]
        if pair.baseline.configuration != pair.arm.configuration:
            configuration = f"{names[pair.baseline.configuration]} vs {configuration}"
        label = f"{pair.baseline.group_label} (other folder) vs {pair.arm.group_label}"
        groups.setdefault((configuration, label, carry_word(pair.arm.arm.place.carry)), []).append(pair)
    guards = Counter(m for members in groups.values() for p in members for m in p.comparison.mismatches)
    return Table(
        name="across",
        title="Against the cold arms of the other folder",
        columns=(
            Column(key="configuration", title="configuration", common=True),
            Column(key="pair", title="arms"),
            Column(key="episodes", title="n", kind="count", unit="episodes"),
            Column(key="differ", title="differ", kind="count", unit="episodes"),
            Column(key="rate", title="rate", kind="share"),
            Column(key="interval", title="95 %", kind="share_interval"),
            Column(key="requests", title="requests", kind="count"),
            Column(key="identical", title="identical", kind="count"),
            Column(key="flipped", title="flipped", kind="count"),
            Column(key="drifted", title="drifted", kind="count"),
            Column(key="request_rate", title="flipped, rate", kind="share"),
            Column(key="request_interval", title="95 % (requests)", kind="share_interval"),
            Column(key="other_prompt", title="other prompt", kind="count", unit="requests"),
            Column(key="evidence", title="evidence"),
            Column(key="kept", title="caches", common=True),
        ),
        rows=tuple(_row(key, members) for key, members in groups.items()),
        basis=basis(pair.arm.arm.place.carry for pair in pairs),
        notes=(
            "Requests are those whose prompt was the same in both; rates over requests resample episodes.",
            *(f"Guard that does not hold in {n} comparisons: {text}." for text, n in guards.most_common(6)),
            *(f"{n} pairs of arms do not count: {text}." for text, n in reasons.most_common(6)),
        ),
    )


def _row(key: tuple[str, str, str], members: Sequence[AcrossPair]) -> tuple[Cell, ...]:
    configuration, label, kept = key
    verdicts = [[r.verdict for r in pair.comparison.requests] for pair in members]
    n, k = len(members), sum(bool(pair.differs) for pair in members)
    rate = clustered_rate(
        [own.count(Verdict.FLIPPED) for own in verdicts],
        [sum(v in _COMPARED for v in own) for own in verdicts],
    )
    return (
        configuration,
        label,
        n,
        k,
        k / n,
        wilson(k, n),
        rate.total if rate else 0,
        sum(own.count(Verdict.IDENTICAL) for own in verdicts),
        rate.events if rate else 0,
        sum(own.count(Verdict.DRIFTED) for own in verdicts),
        rate.rate if rate else None,
        rate.interval if rate else None,
        sum(v in (Verdict.DOWNSTREAM, Verdict.PROMPT_CHANGED) for own in verdicts for v in own),
        by_evidence(request for pair in members for request in pair.comparison.requests),
        kept,
    )
