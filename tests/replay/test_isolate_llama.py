"""The isolating experiments on the real engine in process (SmolLM2, CPU)."""

import pytest

from replay.isolate.cells import cell, items_of
from replay.isolate.command_run import items_for
from replay.isolate.experiments import Experiment
from replay.isolate.run import IsolateOptions, run_isolate
from replay.verdicts import Evidence, Verdict
from tracer.engines.choice import EngineChoice
from tracer.engines.registry import open_engine
from tracer.progress import Silent
from tracer.tracefile import TraceReader

pytestmark = [pytest.mark.llama, pytest.mark.slow]

ITEMS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory, smollm2):
    engine = open_engine(EngineChoice(engine="llama", model=str(smollm2)))
    path = tmp_path_factory.mktemp("isolate")
    options = IsolateOptions(experiments=(Experiment.RESTORED, Experiment.SECOND_LAYER), max_new_tokens=12)
    try:
        list(run_isolate(engine, items_for(engine, ITEMS), path, options, Silent()))
    finally:
        engine.close()
    return path


def test_restored_and_recompute_repeat_on_all_items_and_differ_from_each_other(folder):
    with TraceReader.open(folder / "restored.msgpack") as trace:
        _, snapshot, snapshot_again, cold, cold_again = (a.index for a in cell(trace, "restored"))
        for a, b in ((snapshot, snapshot_again), (cold, cold_again)):
            found = {(v.verdict.verdict, v.verdict.evidence) for v in items_of(trace, a, b)}
            assert found == {(Verdict.IDENTICAL, Evidence.ROW)}
        between = [v for v in items_of(trace, cold, snapshot) if v.manipulated]
        assert len(between) == ITEMS - 1
        assert all(v.verdict.verdict is not Verdict.IDENTICAL for v in between)


def test_second_layer_moves_the_second_pass_only_when_it_is_on(folder):
    with TraceReader.open(folder / "second-layer.msgpack") as trace:
        moved = {}
        for name in ("on", "off"):
            first, second = (a.index for a in cell(trace, f"second layer {name}"))
            exposures = [r.exposure for r in trace.requests(second)]
            moved[name] = sum(
                v.verdict.verdict is not Verdict.IDENTICAL for v in items_of(trace, first, second)
            )
            if name == "on":
                assert all(e.cached_tokens == e.prompt_tokens - 1 for e in exposures)
    # The last prompt token alone and at the end of its batch can give equal bits, so not all must move.
    assert moved["on"] >= ITEMS // 2
    assert moved["off"] <= 1  # the first item meets what the first pass left
