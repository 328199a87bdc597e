"""From collected traces to the report: which tables there are, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from stats.gates import Gate, GateResult, evaluate_gate, gates_table
from stats.mechanism import sentence
from stats.report.across import compare_folders
from stats.report.collect import CollectOptions
from stats.report.configuration import Key, configuration_names
from stats.report.controls import ControlSeries, control_series
from stats.report.disclosure import disclosure_table
from stats.report.findings import findings
from stats.report.formats import format_families
from stats.report.positions import joined_positions
from stats.report.records import Collection
from stats.report.series import Series, series_of
from stats.tables.across import across_table
from stats.tables.episodes import episodes_table
from stats.tables.flips import flips_table
from stats.tables.grid import grid_table
from stats.tables.isolation import isolation_sentences, isolation_table
from stats.tables.layers import layers_table
from stats.tables.mechanism import (
    FormatChange,
    Mechanism,
    decomposition_table,
    distributions_table,
    drift_table,
    flip_rate_table,
    format_changes,
)
from stats.tables.order import along_run_table, between_orders_table
from stats.tables.outcomes import outcomes_table, paired_outcomes
from stats.tables.pooled_items import pooled_items_table
from stats.tables.prefix_stability import prefix_stability_table
from stats.tables.rates import (
    declared_table,
    excluded_arms_table,
    excluded_pairs_table,
    pair_label,
    rates_table,
)
from stats.tables.requests import requests_table
from stats.tables.single_turn import single_turn_table
from stats.tables.table import Report, Table
from stats.tables.trend import gradient_table, trend_table
from stats.tables.verdicts import verdicts_table


class Built(Struct, frozen=True, kw_only=True):
    """A report and the series that its gates are computed from."""

    report: Report
    series: tuple[Series, ...]
    controls: tuple[ControlSeries, ...]
    names: dict[Key, str]
    collection: Collection


def build_report(collection: Collection, *, command: str | None = None) -> Built:
    """Every table that the traces hold something for."""
    everything = collection.episodes
    names = configuration_names(arm.configuration for episode in everything for arm in episode.arms)
    # The traces of `isolate` hold items and not episodes: they have a table of their own.
    episodes = tuple(episode for episode in everything if episode.experiment is None)
    series = series_of(episodes)
    controls = control_series(episodes)
    outcomes = paired_outcomes(series, names)
    families = format_families(series)
    mechanism = mechanism_of(series, names, near_tie_of(collection))
    changes = format_changes(mechanism, families)
    isolation = isolation_table(everything, series, controls, names)
    several = len({episode.episode.episode_id for episode in episodes}) > 1
    # Whoever opens one trace wants its requests and flips; over many episodes the rates lead.
    own = [
        verdicts_table(episodes, names) if episodes else None,
        flips_table(episodes, names),
    ]
    alone = len(episodes) == 1
    tables: list[Table | None] = [
        *([requests_table(episodes[0], names), *reversed(own)] if alone else []),
        rates_table(series, names) if episodes else None,
        grid_table(series, names),
        layers_table(series, controls, names) if several else None,
        isolation,
        single_turn_table(series, names),
        pooled_items_table(series),
        gradient_table(families),
        trend_table(families),
        along_run_table(series, controls, names),
        between_orders_table(series, names),
        episodes_table(episodes, names),
        outcomes_table(outcomes, series),
        *mechanism_tables(mechanism, changes),
        *([] if alone else own),
        prefix_stability_table(episodes, names),
        declared_table(series, names),
        excluded_pairs_table(series, names),
        excluded_arms_table(episodes, collection.unreadable),
    ]
    report = Report(
        title=_title(collection),
        command=command,
        summary=(
            *findings(collection, series, controls, names),
            *isolation_sentences(isolation),
            *_mechanism_findings(changes),
        ),
        tables=tuple(table for table in tables if table is not None),
        disclosure=disclosure_table(everything, names),
    )
    return Built(report=report, series=series, controls=controls, names=names, collection=collection)


def with_table(built: Built, table: Table) -> Built:
    """The report with one more table in front."""
    return replace(built, report=replace(built.report, tables=(table, *built.report.tables)))


def against_folder(built: Built, against: Collection, options: CollectOptions) -> Built:
    """The report with its arms against the cold arms of another folder, whose facts it discloses too."""
    pairs = compare_folders(built.collection.episodes, against.episodes, options)
    names = configuration_names(arm.configuration for episode in against.episodes for arm in episode.arms)
    theirs = disclosure_table(
        against.episodes, {key: f"{name} (other folder)" for key, name in names.items()}
    )
    ours = built.report.disclosure
    both = theirs if ours is None else replace(ours, rows=(*ours.rows, *theirs.rows))
    return with_table(replace(built, report=replace(built.report, disclosure=both)), across_table(pairs))


def with_gates(built: Built, gates: Sequence[Gate]) -> tuple[Built, tuple[GateResult, ...]]:
    """The report with a table of gates in front, and the results; unchanged without gates."""
    if not gates:
        return built, ()
    results = tuple(
        result for gate in gates for result in evaluate_gate(gate, built.series, built.controls, built.names)
    )
    return with_table(built, gates_table(results)), results


def mechanism_of(series: Sequence[Series], names: dict[Key, str], near_tie: float) -> Mechanism:
    """The positions of every series that counts; empty when they were not read."""
    found, labels = {}, {}
    for one in series:
        samples = [(pair.episode_id, pair.positions) for pair in one.counted if pair.positions is not None]
        positions = joined_positions([(name, sample) for name, sample in samples if sample.flags])
        if len(positions):
            found[one.key] = positions
            labels[one.key] = f"{names[one.key.configuration]}, {pair_label(one)}"
    return Mechanism(positions=found, labels=labels, near_tie=near_tie)


def _mechanism_findings(changes: Sequence[FormatChange]) -> list[str]:
    """For each family the widest step; the others stand in the table."""
    widest = {change.family: change for change in changes}
    return [f"{c.family}: {sentence(c.first, c.second, c.found)}" for c in widest.values()]


def mechanism_tables(mechanism: Mechanism, changes: Sequence[FormatChange]) -> list[Table | None]:
    """What the positions say, the finding first."""
    return [
        decomposition_table(changes),
        distributions_table(mechanism),
        flip_rate_table(mechanism),
        drift_table(mechanism),
    ]


def near_tie_of(collection: Collection) -> float:
    """The threshold that the traces were compared with."""
    return collection.episodes[0].analysis.near_tie_threshold if collection.episodes else 0.0


def _title(collection: Collection) -> str:
    ids: Sequence[str] = list(dict.fromkeys(e.episode.episode_id for e in collection.episodes))
    if len(ids) == 1:
        return f"cachetrace report: {ids[0]}"
    return f"cachetrace report: {len(ids)} episodes"
