"""The findings of a report, one plain sentence each. Only from what may count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.verdicts import Verdict
from stats.intervals import wilson, zero_event_upper
from stats.report.configuration import Key
from stats.report.controls import ControlSeries
from stats.report.deterministic import deterministic_sentences
from stats.report.records import Collection
from stats.report.series import Series
from stats.tables.basis import carry_word
from stats.tables.rates import episode_rate_interval, pair_label
from tracer.clean_text import percent
from tracer.episode import CacheState

FEWEST_TO_POOL = 2


def findings(
    collection: Collection,
    series: Sequence[Series],
    controls: Sequence[ControlSeries],
    names: Mapping[Key, str],
) -> tuple[str, ...]:
    """Coverage first, then one sentence a series that counts."""
    arms = [arm for episode in collection.episodes for arm in episode.arms]
    counting = sum(arm.may_count for arm in arms)
    read = f"{_plural(len(collection.episodes), 'trace')}, {_plural(len(arms), 'arm')}"
    said = [f"{read}, of which {counting} may count."]
    if collection.unreadable:
        said.append(f"{_plural(len(collection.unreadable), 'file')} could not be read and is left out.")
    said += _workload_notes(collection)
    said += _cold_against_itself(controls)
    said += [_sentence(one, names) for one in series if one.counted]
    ordinary = [episode for episode in collection.episodes if episode.experiment is None]
    configurations = [arm.configuration for episode in ordinary for arm in episode.arms]
    said += deterministic_sentences(configurations, series, names)
    if ordinary and not any(one.counted for one in series):
        said.append("No rate can be given: no pair of arms has both states verified and both arms repeated.")
    return tuple(said)


def _workload_notes(collection: Collection) -> list[str]:
    """What the tasks themselves say that their figures are not: each note once."""
    workloads = [episode.episode.workload for episode in collection.episodes]
    return list(dict.fromkeys(f"{w.name}: {w.note.rstrip('.')}." for w in workloads if w.note is not None))


def _cold_against_itself(controls: Sequence[ControlSeries]) -> list[str]:
    """The validity control over all configurations: what else than the cache makes answers differ."""
    cold = [c for c in controls if c.key.state is CacheState.COLD and c.counted]
    differs = [bool(pair.differs) for control in cold for pair in control.counted]
    k, n = sum(differs), len(differs)
    found = wilson(k, n)
    if found is None or n < FEWEST_TO_POOL:
        return []
    configurations = len({control.key.configuration for control in cold})
    said = (
        f"Recompute against itself: {k} of {_plural(n, 'episode')} differ over "
        f"{_plural(configurations, 'configuration')}, at most {percent(found.high, 2)} (Wilson)"
    )
    exact = zero_event_upper(n) if k == 0 else None
    return [
        f"{said}; exact one-sided {percent(exact, 2)} if episodes are independent." if exact else f"{said}."
    ]


def _sentence(one: Series, names: Mapping[Key, str]) -> str:
    pairs = one.counted
    differs = [bool(pair.differs) for pair in pairs]
    k, n = sum(differs), len(differs)
    found = episode_rate_interval(differs, one.key.carry)
    within = sum(bool(p.within_baseline and p.within_baseline.differs) for p in pairs)
    within_arm = sum(bool(p.within_arm and p.within_arm.differs) for p in pairs)
    interval = f" [{percent(found.low)}, {percent(found.high)}]" if found else ""
    flipped = sum(r.verdict is Verdict.FLIPPED for p in pairs for r in p.comparison.requests)
    drifted = sum(r.verdict is Verdict.DRIFTED for p in pairs for r in p.comparison.requests)
    who = f"{names[one.key.configuration]}, {pair_label(one)}, {carry_word(one.key.carry)}"
    verb = "differs" if n == 1 else "differ"
    return (
        f"{who}: {k} of {_plural(n, 'episode')} {verb} ({percent(k / n)}{interval}); "
        f"{_plural(flipped, 'request')} flipped and {drifted} drifted; against themselves "
        f"{within} ({one.key.baseline}) and {within_arm} ({one.key.arm}) of {n} differ."
    )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
