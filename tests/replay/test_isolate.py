"""The isolating experiments on an engine with exact cache accounting."""

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from replay.isolate.cells import cell, experiment_of, items_of
from replay.isolate.command_run import items_for
from replay.isolate.experiments import Experiment, arms_of
from replay.isolate.items import QUESTIONS, built_in_items, items_of_trace
from replay.isolate.outcomes import outcomes
from replay.isolate.run import IsolateOptions, run_isolate
from replay.verdicts import ArmStatus
from tracer.engines.fake import FakeEngine, FakeFault
from tracer.episode import CacheState
from tracer.errors import EngineError, StateRefused, UsageError
from tracer.progress import Silent
from tracer.tracefile import TraceReader

ITEMS = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tracer.engines.fake import FakeScript

    engine = FakeEngine(FakeScript(disturbance=0.3, answer_tokens=40))
    path = tmp_path_factory.mktemp("isolate")
    options = IsolateOptions(max_new_tokens=12)
    list(run_isolate(engine, items_for(engine, ITEMS), path, options, Silent()))
    return path


def opened(folder, experiment):
    return TraceReader.open(folder / f"{experiment}.msgpack")


def exposures(trace, arm):
    return [r.exposure.cached_tokens for r in trace.requests(arm)]


def test_every_file_names_its_experiment_and_every_arm_its_cell(folder):
    for experiment in Experiment:
        with opened(folder, experiment) as trace:
            assert experiment_of(trace) is experiment
            planned = [(a.note, a.state, a.repeat, a.pass_index) for a in arms_of(experiment)]
            assert [(a.note, a.state, a.repeat, a.pass_index) for a in trace.arms] == planned
            assert all(trace.end(a).completed and len(trace.requests(a)) == ITEMS for a in trace.arms)


def test_second_layer_brings_an_item_back_on_the_second_pass_only_when_on(folder):
    with opened(folder, "second-layer") as trace:
        on, off = cell(trace, "second layer on"), cell(trace, "second layer off")
        prompts = [r.prompt_tokens for r in trace.requests(0)]
        first = exposures(trace, on[0].index)
        assert first == exposures(trace, off[0].index)
        assert first[0] == 0
        assert exposures(trace, on[1].index) == [tokens - 1 for tokens in prompts]
        assert exposures(trace, off[1].index)[1:] == first[1:]
        differ = {
            name: sum(v.differs for v in items_of(trace, arms[0].index, arms[1].index))
            for name, arms in (("on", on), ("off", off))
        }
    assert differ["on"] > differ["off"]


def test_recomputing_passes_leave_the_layers_of_their_cell_alone(folder):
    with opened(folder, "pass-order") as trace:
        prompts = [r.prompt_tokens for r in trace.requests(0)]
        for order in ("CRCR", "CCRR"):
            arms = cell(trace, f"second layer on; {order}")
            for arm, kind in zip(arms, order, strict=True):
                assert (arm.state is CacheState.COLD) == (kind == "R")
                if kind == "R":
                    assert exposures(trace, arm.index) == [0] * ITEMS
            second_cached = [a for a, kind in zip(arms, order, strict=True) if kind == "C"][1]
            assert exposures(trace, second_cached.index) == [tokens - 1 for tokens in prompts]


def test_item_order_pairs_items_by_number(folder):
    with opened(folder, "item-order") as trace:
        for setting in ("second layer on", "second layer off"):
            forward, again = cell(trace, f"{setting}; forward")
            (reverse,) = cell(trace, f"{setting}; reverse")
            assert [r.turn for r in trace.requests(reverse)] == list(reversed(range(ITEMS)))
            control = items_of(trace, forward.index, again.index)
            assert [v.differs for v in control] == [False] * ITEMS
            crossed = items_of(trace, forward.index, reverse.index)
            assert [v.item for v in crossed] == list(range(ITEMS))
            assert all(v.manipulated for v in crossed)
            assert not all(v.verdict.verdict == "identical" for v in crossed)


def test_restored_and_recompute_repeat_and_differ_from_each_other(folder):
    with opened(folder, "restored") as trace:
        arms = cell(trace, "restored")
        warm, snapshot, snapshot_again, cold, cold_again = (a.index for a in arms)
        for a, b in ((snapshot, snapshot_again), (cold, cold_again), (warm, snapshot)):
            assert {v.verdict.verdict for v in items_of(trace, a, b)} == {"identical"}
        found = items_of(trace, cold, snapshot)
        assert [v.manipulated for v in found] == [False] + [True] * (ITEMS - 1)
        assert all(v.verdict.verdict != "identical" for v in found[1:])


def test_a_finished_experiment_is_left_alone_and_a_stopped_one_begun_anew(tmp_path, script):
    engine = FakeEngine(script)
    items = items_for(engine, 2)
    options = IsolateOptions(experiments=(Experiment.RESTORED,), max_new_tokens=4)
    (path,) = run_isolate(engine, items, tmp_path, options, Silent())
    before = path.read_bytes()
    list(run_isolate(engine, items, tmp_path, options, Silent()))
    assert path.read_bytes() == before
    path.write_bytes(before[: len(before) * 2 // 3])
    list(run_isolate(engine, items, tmp_path, options, Silent()))
    with TraceReader.open(path) as trace:
        assert len(trace.arms) == 5
    list(run_isolate(engine, items_for(engine, 3), tmp_path, options, Silent()))
    with TraceReader.open(path) as trace:
        assert len(trace.requests(0)) == 3


def test_what_an_engine_cannot_do_is_left_out_or_refused(tmp_path, script):
    items = items_for(FakeEngine(script), 2)
    no_layer = FakeEngine(replace(script, without=("prompt_cache",)))
    done = list(run_isolate(no_layer, items, tmp_path / "a", IsolateOptions(max_new_tokens=4), Silent()))
    assert [p.stem for p in done] == ["restored"]
    nothing = FakeEngine(replace(script, without=("prompt_cache", "snapshot")))
    with pytest.raises(StateRefused, match="none of these experiments"):
        list(run_isolate(nothing, items, tmp_path / "b", IsolateOptions(), Silent()))
    failing = FakeEngine(replace(script, faults=(FakeFault(kind="error", request=1),)))
    with pytest.raises(EngineError, match="second layer on"):
        list(run_isolate(failing, items, tmp_path / "c", IsolateOptions(max_new_tokens=4), Silent()))


def test_requests_of_a_recording_as_items(recording):
    with TraceReader.open(recording.path) as trace:
        items = items_of_trace(trace, 0)
        assert [len(item.prompt_ids) for item in items] == [r.prompt_tokens for r in trace.requests(0)]
        assert len(items_of_trace(trace, 0, 2)) == 2


def test_items_are_no_more_than_there_are(script):
    with pytest.raises(UsageError, match=f"1 to {len(QUESTIONS)}"):
        built_in_items(FakeEngine(script), len(QUESTIONS) + 1, shared_prefix=True)


def test_command(tmp_path):
    import typer

    from replay.commands import isolate

    app = typer.Typer()
    isolate.register(app)

    def run(*arguments):
        return CliRunner().invoke(app, ["--engine", "fake", "-o", str(tmp_path / "out"), *arguments])

    result = run("--experiment", "restored", "--items", "2", "--max-new-tokens", "4", "-q")
    assert result.exit_code == 0, result.exception
    first, *counts = result.stdout.splitlines()
    assert first == str(tmp_path / "out" / "restored.msgpack")
    assert counts[0].strip().startswith("restored: restored again against restored: 0 of 2 items differ")
    assert len(counts) == 3
    assert isinstance(run("--experiment", "magic").exception, UsageError)


def test_outcomes_count_the_pairs_of_every_experiment(folder):
    found = {}
    for experiment in Experiment:
        with opened(folder, experiment) as trace:
            found[experiment] = outcomes(trace)
    assert [len(pairs) for pairs in found.values()] == [2, 10, 4, 3]
    on, off = found[Experiment.SECOND_LAYER]
    assert (on.setting, len(on.counted), on.moved) == ("second layer on", ITEMS, ITEMS)
    assert off.moved <= 1
    for pair in found[Experiment.PASS_ORDER]:
        if "recomputing" in pair.question:
            assert (pair.within_arm, pair.moved) == (True, 0)
    restored, recomputed, between = found[Experiment.RESTORED]
    assert restored.moved == recomputed.moved == 0
    assert len(between.counted) == between.moved == ITEMS - 1  # the first item met an empty cache
    assert between.differ == sum(bool(v.differs) for v in between.items)


def test_outcomes_of_an_ordinary_trace_say_so(recording):
    with (
        TraceReader.open(recording.path) as trace,
        pytest.raises(UsageError, match="no isolating experiment"),
    ):
        outcomes(trace)


def test_arms_of_a_restored_experiment_are_verified(folder):
    from replay.divergence import assess_arm

    with opened(folder, "restored") as trace:
        assert {assess_arm(trace, a.index).status for a in trace.arms} == {ArmStatus.VERIFIED}
