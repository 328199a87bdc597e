"""What `report` makes of the traces of `cachetrace isolate`, on an engine with exact cache accounting."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from replay.isolate.cells import cell, items_of
from replay.isolate.command_run import items_for
from replay.isolate.run import IsolateOptions, run_isolate
from stats.report.build import build_report
from stats.report.collect import CollectOptions, collect
from stats.report.sources import trace_files
from stats.tables.isolation import isolation_sentences
from tracer.engines.fake import FakeEngine, FakeScript
from tracer.progress import Silent
from tracer.tracefile import TraceReader

ITEMS = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    engine = FakeEngine(FakeScript(disturbance=0.3, answer_tokens=40))
    path = tmp_path_factory.mktemp("isolate")
    list(run_isolate(engine, items_for(engine, ITEMS), path, IsolateOptions(max_new_tokens=12), Silent()))
    return path


def test_every_experiment_has_its_contrast_with_a_sentence(folder: Path) -> None:
    report = build_report(collect(trace_files([folder]), CollectOptions())).report
    table = next(t for t in report.tables if t.name == "isolation")
    rows = [dict(zip([c.key for c in table.columns], row, strict=True)) for row in table.rows]
    assert [r["experiment"] for r in rows if "passes" not in str(r["experiment"])] == [
        "order of items, second layer off",
        "order of items, second layer on",
        "last cached pass of one order against that of the other",
        "restored state",
        "second layer, run to run",
    ]
    assert {r["unit"] for r in rows} == {"items"}
    restored = next(r for r in rows if r["experiment"] == "restored state")
    assert restored["first_differ"] == 0
    assert "recompute path repeats itself on" in str(restored["sentence"])
    assert sum("points" in sentence for sentence in report.summary) == len(rows)


def test_sentences_name_their_configuration_where_there_are_several(folder: Path) -> None:
    report = build_report(collect(trace_files([folder]), CollectOptions())).report
    table = next(t for t in report.tables if t.name == "isolation")
    assert {sentence.split(":")[0] for sentence in isolation_sentences(table)} == {r[0] for r in table.rows}
    first, *others = table.rows
    two = replace(table, rows=((first[0], "fake 2", *first[2:]), *others))
    assert isolation_sentences(two)[0].startswith(f"fake 2, {first[0]}: ")
    assert isolation_sentences(two)[1].startswith(f"{others[0][1]}, {others[0][0]}: ")


def test_counts_are_those_of_the_items(folder: Path) -> None:
    report = build_report(collect(trace_files([folder]), CollectOptions())).report
    table = next(t for t in report.tables if t.name == "isolation")
    rows = [dict(zip([c.key for c in table.columns], row, strict=True)) for row in table.rows]
    second = next(r for r in rows if r["experiment"] == "second layer, run to run")
    with TraceReader.open(folder / "second-layer.msgpack") as trace:
        counted = [
            sum(
                bool(v.differs)
                for v in items_of(trace, *(a.index for a in cell(trace, f"second layer {on}")))
            )
            for on in ("off", "on")
        ]
    assert [second["first_differ"], second["second_differ"]] == counted
    assert second["n"] == ITEMS


def test_no_item_leaks_into_a_rate_of_episodes(folder: Path) -> None:
    built = build_report(collect(trace_files([folder]), CollectOptions()))
    assert {t.name for t in built.report.tables} == {"isolation"}
    assert built.report.disclosure is not None
    assert built.series == ()
