"""The isolating experiments: what one setting, the order of passes, of items, and a restored state do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from stats.bootstrap import block_bootstrap
from stats.intervals import Interval, hull
from stats.paired import PairedDifference, paired_difference
from stats.report.configuration import Key
from stats.report.controls import ControlSeries
from stats.report.records import EpisodeRecord
from stats.report.series import Control, Series
from stats.tables.basis import basis, carry_word
from stats.tables.table import Cell, Column, Table
from tracer.clean_text import percent
from tracer.episode import CacheState, Carry

FEWEST_FOR_BLOCKS = 20

Differs = Mapping[str, bool]
"""Episode id → whether it differs."""

Served = tuple[float, str, tuple[int, str | None]]
"""(when, digest of the answers, (position, episode before)) of one arm in one file."""

ItemKey = tuple[Key, str, str, Carry]
"""(configuration, workload, arm, what is kept between episodes)."""


class Contrast(Struct, frozen=True, kw_only=True):
    """Two conditions over the same episodes."""

    experiment: str
    configuration: str
    first: str
    second: str
    pairs: tuple[tuple[bool, bool], ...]
    carry: Carry
    unit: str = "episodes"
    before: str = ""
    """What the sentence says first."""


def isolation_table(
    episodes: Sequence[EpisodeRecord],
    series: Sequence[Series],
    controls: Sequence[ControlSeries],
    names: Mapping[Key, str],
) -> Table | None:
    """One row a contrast that the traces hold; None when they hold none."""
    ordinary = [episode for episode in episodes if episode.experiment is None]
    contrasts = [
        *_second_layer(controls, names),
        *_order_of_passes(controls, names),
        *_order_of_items(ordinary, controls, names),
        *_restored(series, names),
        *_experiments(episodes, names),
    ]
    if not contrasts:
        return None
    return Table(
        name="isolation",
        title="Isolating experiments",
        columns=(
            Column(key="experiment", title="experiment"),
            Column(key="configuration", title="configuration", common=True),
            Column(key="unit", title="unit"),
            Column(key="n", title="n", kind="count"),
            Column(key="first", title="condition a"),
            Column(key="first_differ", title="differ in a", kind="count"),
            Column(key="second", title="condition b"),
            Column(key="second_differ", title="differ in b", kind="count"),
            Column(key="difference", title="b − a", kind="share"),
            Column(key="interval", title="95 %, paired", kind="share_interval"),
            Column(key="sentence", title="in words", kind="sentence"),
        ),
        rows=tuple(_row(contrast) for contrast in contrasts),
        basis=basis((c.carry for c in contrasts), counts="n counts what counts in both conditions"),
        notes=(
            "Intervals of the difference: Newcombe's for pairs; with caches carried over and 20 pairs or "
            "more the hull with circular blocks of the differences in execution order. Items are independent "
            "requests, served one after the other on the same caches.",
            *(why for episode in episodes if episode.experiment for why in episode.experiment.why_not),
        ),
    )


def isolation_sentences(table: Table | None) -> list[str]:
    """The finding of each contrast, for the summary; with its configuration where there are several."""
    if table is None:
        return []
    several = len({row[1] for row in table.rows}) > 1
    return [f"{f'{row[1]}, ' if several else ''}{row[0]}: {row[-1]}" for row in table.rows]


def _row(contrast: Contrast) -> tuple[Cell, ...]:
    pairs = contrast.pairs
    both = sum(a and b for a, b in pairs)
    only_first = sum(a and not b for a, b in pairs)
    only_second = sum(b and not a for a, b in pairs)
    found = paired_difference(both, only_second, only_first, len(pairs) - both - only_first - only_second)
    assert found is not None
    return (
        contrast.experiment,
        contrast.configuration,
        contrast.unit,
        len(pairs),
        contrast.first,
        both + only_first,
        contrast.second,
        both + only_second,
        found.difference,
        _interval(contrast, found),
        _sentence(contrast, both + only_first, both + only_second, found),
    )


def _interval(contrast: Contrast, found: PairedDifference) -> Interval:
    """Newcombe's; with caches carried over, its hull with circular blocks of the paired differences."""
    if contrast.carry is not Carry.CARRIED_OVER or len(contrast.pairs) < FEWEST_FOR_BLOCKS:
        return found.interval
    blocks = block_bootstrap([float(b) - float(a) for a, b in contrast.pairs])
    joined = hull(blocks.interval if blocks else None, found.interval)
    assert joined is not None
    return joined


def _sentence(contrast: Contrast, first: int, second: int, found: PairedDifference) -> str:
    n = len(contrast.pairs)
    interval = _interval(contrast, found)
    points, low, high = (100 * v for v in (found.difference, interval.low, interval.high))
    told = low > 0 or high < 0
    return (
        f"{contrast.before}{contrast.first}: {first} of {n} differ ({percent(first / n)}); "
        f"{contrast.second}: {second} of {n} ({percent(second / n)}); the difference is {points:+.1f} points "
        f"[{low:+.1f}, {high:+.1f}]{'' if told else ', which cannot be told from none'}."
    )


def _second_layer(controls: Sequence[ControlSeries], names: Mapping[Key, str]) -> Iterator[Contrast]:
    """Run to run with the second layer off and on, everything else alike."""
    for on in controls:
        if on.key.state is not CacheState.WARM or on.key.control is not Control.PASSES:
            continue
        for off in controls:
            alike = (
                off.key.state is CacheState.NO_PROMPT_CACHE
                and off.key.control is Control.PASSES
                and off.key.configuration == on.key.configuration
                and off.key.workload == on.key.workload
                and off.key.carry is on.key.carry
                and off.key.recompute_between is on.key.recompute_between
            )
            if alike:
                between = " with a recompute pass between" if on.key.recompute_between else ""
                yield from _contrast(
                    f"second layer, run to run{between}",
                    names[on.key.configuration],
                    ("second layer off", _differs(off)),
                    ("second layer on", _differs(on)),
                    on.key.carry,
                )


def _order_of_passes(controls: Sequence[ControlSeries], names: Mapping[Key, str]) -> Iterator[Contrast]:
    """Cached passes next to each other, and with a recompute pass between them."""
    for apart in controls:
        if not apart.key.recompute_between or apart.key.state is CacheState.COLD:
            continue
        for adjacent in controls:
            same = (
                adjacent.key.recompute_between is False
                and adjacent.key.state is apart.key.state
                and adjacent.key.configuration == apart.key.configuration
                and adjacent.key.workload == apart.key.workload
                and adjacent.key.carry is apart.key.carry
            )
            if same:
                yield from _contrast(
                    f"order of passes, {apart.key.state}",
                    names[apart.key.configuration],
                    ("cached passes adjacent", _differs(adjacent)),
                    ("a recompute pass between", _differs(apart)),
                    apart.key.carry,
                )


def _order_of_items(
    episodes: Sequence[EpisodeRecord], controls: Sequence[ControlSeries], names: Mapping[Key, str]
) -> Iterator[Contrast]:
    """The same episode served in another order of episodes, beside the same arm again in its own order.

    Only where something is kept from one episode to the next, or overwritten: elsewhere the order of
    episodes cannot act.
    """
    runs: dict[ItemKey, dict[str, dict[str, Served]]] = {}
    for episode in episodes:
        for record in episode.arms:
            arm = record.arm
            counts = record.may_count and not arm.repeat and not arm.pass_index
            if not counts or arm.place.carry is Carry.EMPTIED or record.facts.answers_digest is None:
                continue
            key = (record.configuration, episode.episode.workload.name, record.group_label, arm.place.carry)
            answers = runs.setdefault(key, {}).setdefault(episode.episode.episode_id, {})
            place = (arm.place.position, arm.place.predecessor)
            answers.setdefault(episode.path, (arm.started_at, record.facts.answers_digest, place))
    for (configuration, workload, label, carry), by_episode in runs.items():
        for control in controls:
            k = control.key
            if (k.configuration, k.workload, k.arm, k.carry) == (configuration, workload, label, carry):
                yield from _contrast(
                    f"order of items, {carry_word(carry)}",
                    names[configuration],
                    (f"{label} again in the same order", _differs(control)),
                    (f"{label} in another order", _changed(by_episode)),
                    carry,
                )


def _changed(by_episode: Mapping[str, Mapping[str, Served]]) -> dict[str, bool]:
    """Episodes that several runs served at other places: whether any answered differently from the first."""
    changed = {}
    for episode, found in by_episode.items():
        (_, answers, place), *later = sorted(found.values(), key=lambda served: served[0])
        elsewhere = [digest for _, digest, other in later if other != place]
        if elsewhere:
            changed[episode] = any(digest != answers for digest in elsewhere)
    return changed


def _restored(series: Sequence[Series], names: Mapping[Key, str]) -> Iterator[Contrast]:
    """Restored before every request: both paths repeat themselves, and differ from each other."""
    for one in series:
        if one.key.arm_state is not CacheState.SNAPSHOT or one.key.baseline_state is not CacheState.COLD:
            continue
        pairs = one.counted
        cold = sum(bool(p.within_baseline and p.within_baseline.differs) for p in pairs)
        n = len(pairs)
        yield from _contrast(
            "restored state",
            names[one.key.configuration],
            (
                "restored against itself",
                {p.episode_id: bool(p.within_arm and p.within_arm.differs) for p in pairs},
            ),
            ("restored against recompute", {p.episode_id: bool(p.differs) for p in pairs}),
            one.key.carry,
            before=f"The recompute path repeats itself on {n - cold} of {n}; ",
        )


def _experiments(episodes: Sequence[EpisodeRecord], names: Mapping[Key, str]) -> Iterator[Contrast]:
    """What ``cachetrace isolate`` wrote: items on one cache, served one after the other."""
    for episode in episodes:
        for contrast in episode.experiment.contrasts if episode.experiment else ():
            yield Contrast(
                experiment=contrast.experiment,
                configuration=names[episode.arms[0].configuration],
                first=contrast.first,
                second=contrast.second,
                pairs=contrast.pairs,
                carry=Carry.CARRIED_OVER,
                unit="items",
                before=contrast.before,
            )


def _differs(control: ControlSeries) -> dict[str, bool]:
    return {pair.episode_id: bool(pair.differs) for pair in control.counted}


def _contrast(
    experiment: str,
    configuration: str,
    first: tuple[str, Differs],
    second: tuple[str, Differs],
    carry: Carry,
    before: str = "",
) -> Iterator[Contrast]:
    """The contrast over common episodes; nothing when there is none."""
    common = [episode for episode in first[1] if episode in second[1]]
    if common:
        yield Contrast(
            experiment=experiment,
            configuration=configuration,
            first=first[0],
            second=second[0],
            pairs=tuple((first[1][e], second[1][e]) for e in common),
            carry=carry,
            before=before,
        )
