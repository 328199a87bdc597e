"""Tables over several configurations, runs and passes, on traces or series whose content is known."""

import csv
from pathlib import Path

import pytest
from msgspec.structs import replace

from stats.report.build import Built, against_folder, build_report
from stats.report.collect import CollectOptions, collect
from stats.report.controls import ControlKey, ControlPair, ControlSeries
from stats.report.series import Control, EpisodePair, Series, SeriesKey
from stats.report.sources import trace_files
from stats.tables.order import along_run_table
from stats.tables.outcomes import PairedOutcomes, verdict_sentence
from stats.tables.pooled_items import pooled_items_table
from stats.tables.table import Table
from tests.stats.test_known_answers import PRODUCTION_ORDERS
from tests.synthetic import ArmSpec, write_trace
from tracer.episode import CacheState, Carry, Way, WorkloadSpec
from tracer.workloads.gsm8k_answers import AnswerClass, Found, JudgedAnswer

COLD = (ArmSpec(), ArmSpec(repeat=1))


def built(folder: Path, **options: object) -> Built:
    return build_report(collect(trace_files([folder]), CollectOptions(**options)))  # type: ignore[arg-type]


def rows(report: Built, name: str) -> list[dict[str, object]]:
    table = next(t for t in report.report.tables if t.name == name)
    return as_rows(table)


def as_rows(table: Table) -> list[dict[str, object]]:
    return [dict(zip([c.key for c in table.columns], row, strict=True)) for row in table.rows]


def warm(**changes: object) -> tuple[ArmSpec, ArmSpec]:
    fields = {"state": "warm", "drift": 1e-3, **changes}
    return ArmSpec(**fields), ArmSpec(**fields, repeat=1)  # type: ignore[arg-type]


def test_formats_are_joined_by_episode(tmp_path: Path) -> None:
    """An episode that one format lacks is in no format's rate."""
    differ = {"F16": {0}, "Q8_0": {0, 1}, "Q4_K_M": {0, 1, 2}, "Q3_K_M": {0, 1, 2, 3}}
    for c, (name, flipped) in enumerate(differ.items()):
        for e in range(6 if name != "Q8_0" else 5):
            write_trace(
                tmp_path / f"{name}-{e}.msgpack",
                seed=e,
                episode_id=f"episode-{e}",
                arms=[*COLD, *warm(flips={1: 4} if e in flipped else {})],
                engine={
                    "weight_format": name,
                    "model_name": f"tiny-{name}.gguf",
                    "model_hash": f"sha256:{c}",
                },
            )
    report = built(tmp_path)
    gradient = rows(report, "gradient")
    assert [(r["format"], r["score"], r["episodes"], r["differ"]) for r in gradient] == [
        ("F16", 0, 5, 1),
        ("Q8_0", 1, 5, 2),
        ("Q4_K_M", 2, 5, 3),
        ("Q3_K_M", 3, 5, 4),
    ]
    tests = {str(r["test"]).split(" ")[0]: r for r in rows(report, "trend")}
    assert tests["exact"]["value"] == 1 * 0 + 2 * 1 + 3 * 2 + 4 * 3
    assert tests["least"]["value"] == pytest.approx(0.2)
    assert [r["configuration"] for r in rows(report, "rates")] == [
        f"fake 1 · tiny · {name}" for name in ("F16", "Q8_0", "Q4_K_M", "Q3_K_M")
    ]


def test_second_layer_on_against_off_run_to_run(tmp_path: Path) -> None:
    """Passes of warm differ on 4 of 6 episodes, passes without the second layer on none."""
    for e in range(6):
        again = {"flips": {2: 6}, "noise": 5} if e < 4 else {}
        write_trace(
            tmp_path / f"{e}.msgpack",
            seed=e,
            episode_id=f"episode-{e}",
            arms=[
                ArmSpec(),
                ArmSpec(pass_index=1),
                ArmSpec(state="warm"),
                ArmSpec(state="warm", pass_index=1, **again),  # type: ignore[arg-type]
                ArmSpec(state="no-prompt-cache"),
                ArmSpec(state="no-prompt-cache", pass_index=1),
            ],
        )
    report = built(tmp_path)
    found = next(r for r in rows(report, "isolation") if str(r["experiment"]).startswith("second layer"))
    assert (found["n"], found["first_differ"], found["second_differ"]) == (6, 0, 4)
    assert found["difference"] == pytest.approx(4 / 6)
    assert "the difference is +66.7 points" in str(found["sentence"])
    layers = {str(r["comparison"]): (r["differ"], r["by"]) for r in rows(report, "layers")}
    assert layers["on against on, as deployed (warm)"] == (4, "passes, adjacent")
    assert layers["on against on, second layer off (no-prompt-cache)"] == (0, "passes, adjacent")


def test_restored_state(tmp_path: Path) -> None:
    for e in range(5):
        flips = {1: 3} if e < 2 else {}
        restored = {"state": "snapshot", "drift": 1e-3, "flips": flips}
        write_trace(
            tmp_path / f"{e}.msgpack",
            seed=e,
            episode_id=f"episode-{e}",
            arms=[*COLD, ArmSpec(**restored), ArmSpec(**restored, repeat=1)],  # type: ignore[arg-type]
        )
    found = next(r for r in rows(built(tmp_path), "isolation") if r["experiment"] == "restored state")
    assert (found["n"], found["first_differ"], found["second_differ"]) == (5, 0, 2)
    assert "recompute path repeats itself on 5 of 5" in str(found["sentence"])


def test_order_of_items_compares_runs(tmp_path: Path) -> None:
    """Two runs in other orders: two warm answers change with the order, no cold one."""
    for run in range(2):
        for e in range(4):
            flips = {2: 4} if run and e < 2 else {}
            write_trace(
                tmp_path / f"{run}-{e}.msgpack",
                seed=e,
                episode_id=f"episode-{e}",
                run_id=f"run-{run}",
                run_position=e if run == 0 else 3 - e,
                predecessor=None if e == 3 * run else f"episode-{e - 1 if run == 0 else e + 1}",
                created_at=1_760_000_000.0 + 1000 * run,
                arms=[*COLD, *warm(flips=flips)],
            )
            carried_over(tmp_path / f"{run}-{e}.msgpack")
    report = built(tmp_path)
    found = next(
        r
        for r in rows(report, "isolation")
        if r["experiment"] == "order of items, carried over" and "warm" in str(r["first"])
    )
    assert (found["n"], found["first_differ"], found["second_differ"]) == (4, 0, 2)
    between = rows(report, "between_orders")[0]
    assert (between["runs"], between["episodes"]) == (2, 4)
    assert between["mean_rate"] == pytest.approx(0.25)


def test_the_production_orders_through_the_table(tmp_path: Path) -> None:
    """Known answers 25 to 29 once more, as `report` prints them for a carried-over run."""
    write_trace(tmp_path / "a.msgpack", arms=[*COLD])
    comparison = collect(trace_files([tmp_path]), CollectOptions()).episodes[0].analysis.controls[0]
    controls = []
    for number, text in enumerate(PRODUCTION_ORDERS):
        key = ControlKey(
            configuration=("engine", None, "m", "Q4_K_M"),
            workload=f"order-{number}",
            arm="warm",
            state=CacheState.WARM,
            carry=Carry.CARRIED_OVER,
            control=Control.PASSES,
            prompt_cache=True,
            recompute_between=False,
        )
        pairs = tuple(
            ControlPair(
                episode_id=str(i), position=i, comparison=comparison, differs=character == "1", why_not=""
            )
            for i, character in enumerate(text)
        )
        controls.append(ControlSeries(key=key, pairs=pairs))
    table = along_run_table([], controls, {controls[0].key.configuration: "Q4_K_M"})
    assert table is not None
    found = as_rows(table)
    assert [r["differ"] for r in found] == [23, 20, 20, 16, 19]
    assert [tuple(r[f"quarter_{i}"] for i in (1, 2, 3, 4)) for r in found][3] == (9, 4, 3, 0)
    assert [r["block"] for r in found] == [5, 5, 7, 5, 7]
    assert found[2]["position_p"] == 9.99950002499875e-05
    limits = [(r["interval"].low, r["interval"].high) for r in found]  # type: ignore[attr-defined]
    assert limits[3] == (pytest.approx(0.1125), pytest.approx(0.3004624381576884))


def carried_over(path: Path) -> None:
    """Rewrite a trace as if its caches had been kept from the episode before."""
    from tracer.tracefile import TraceReader, TraceWriter

    scratch = path.with_suffix(".scratch")
    path.rename(scratch)
    with TraceReader.open(scratch) as trace, TraceWriter.create(path, trace.episode) as writer:
        for arm in trace.arms:
            writer.begin_arm(replace(arm, place=replace(arm.place, carry=Carry.CARRIED_OVER)))
            for request in trace.requests(arm):
                i = request.index
                writer.write_request(
                    arm.index,
                    request,
                    prompt_ids=trace.prompt_ids(arm, i),
                    path=trace.path(arm, i),
                    alternatives=trace.alternatives(arm, i),
                )
            end = trace.end(arm)
            assert end is not None
            writer.end_arm(arm.index, end)
    scratch.unlink()


def gsm8k(path: Path, item: int, cold: str, cached: str, gold: str = "5") -> None:
    """An item whose servings say these texts."""
    from tracer.tracefile import TraceReader, TraceWriter

    scratch = path.with_suffix(".scratch")
    different = {0: 1} if cold != cached else {}
    spec = WorkloadSpec(name="gsm8k", params={"item": item, "gold": gold}, version="1")
    arms = [ArmSpec(), ArmSpec(repeat=1), *warm(priming="self", flips=different, cached=10)]
    write_trace(scratch, requests=1, seed=item, episode_id=f"gsm8k_{item:04d}", workload=spec, arms=arms)
    with TraceReader.open(scratch) as trace, TraceWriter.create(path, trace.episode) as writer:
        for arm in trace.arms:
            writer.begin_arm(arm)
            request = trace.requests(arm)[0]
            text = cached if arm.state is CacheState.WARM else cold
            exposure = replace(request.exposure, expected_tokens=request.exposure.cached_tokens)
            writer.write_request(
                arm.index,
                replace(request, text=text, exposure=exposure),
                prompt_ids=trace.prompt_ids(arm, 0),
                path=trace.path(arm, 0),
                alternatives=trace.alternatives(arm, 0),
            )
            end = trace.end(arm)
            assert end is not None
            writer.end_arm(arm.index, end)
    scratch.unlink()


def test_single_turn_and_both_ways_of_counting(tmp_path: Path) -> None:
    gsm8k(tmp_path / "0.msgpack", 0, "#### 5", "#### 5")
    gsm8k(tmp_path / "1.msgpack", 1, "#### 5", "#### 6")
    gsm8k(tmp_path / "2.msgpack", 2, "#### 4", "so it is \\boxed{5}")
    gsm8k(tmp_path / "3.msgpack", 3, "#### 5", "I do not know")
    report = built(tmp_path)
    (found,) = rows(report, "single_turn")
    assert (found["items"], found["cold_repeats"], found["warm_repeats"], found["differ"]) == (4, 4, 4, 3)
    assert (found["text_differs"], found["value_differs"], found["correctness_differs"]) == (3, 3, 2)
    assert (found["cold_correct"], found["warm_correct"], found["warm_no_answer"]) == (3, 2, 1)
    outcomes = {str(r["counting"]): r for r in rows(report, "outcomes")}
    answered, as_wrong = outcomes["answered in both arms"], outcomes["no answer counts as wrong"]
    assert (answered["episodes"], answered["baseline_only"], answered["arm_only"]) == (3, 1, 1)
    assert (as_wrong["episodes"], as_wrong["baseline_only"], as_wrong["arm_only"]) == (4, 2, 1)


def test_values_differ_in_the_table_by_the_tolerance_and_by_doubt(tmp_path: Path) -> None:
    """(cold, warm) → text, value, way of finding, correctness, doubtful."""
    cases = {
        ("#### 18", "#### 18.0000001"): (1, 0, 0, 0, 0),
        ("#### 18", "#### 18.001"): (1, 1, 0, 1, 0),
        ("#### 36/2", "A: 18"): (1, 0, 1, 0, 0),
        ("The answer is eighteen.", "I do not know."): (1, 1, 1, 0, 1),
        ("The answer is eighteen.", "The answer is unknown."): (1, 1, 1, 0, 1),
        ("#### 1,5", "#### 5:30"): (1, 1, 0, 0, 1),
        ("The answer is 18.", "The answer is 18 thousand."): (1, 1, 0, 0, 1),
        ("I cannot say.", "I do not know."): (1, 0, 0, 0, 0),
    }
    for number, ((cold, cached), wanted) in enumerate(cases.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        gsm8k(folder / "0.msgpack", 0, cold, cached, gold="18")
        (found,) = rows(built(folder), "single_turn")
        names = ("text_differs", "value_differs", "finding_differs", "correctness_differs", "doubtful")
        assert tuple(found[name] for name in names) == wanted, (cold, cached)


def outcome(both: int, baseline_only: int, arm_only: int, neither: int) -> PairedOutcomes:
    return PairedOutcomes(
        series="s", counting="c", both=both, baseline_only=baseline_only, arm_only=arm_only, neither=neither
    )


def test_the_statement_tells_degradation_from_instability() -> None:
    """The paper's pooled GSM8K items: 13 against 7 of 1,300, power 81 % for one point."""
    paper = verdict_sentence(outcome(1180, 7, 13, 100))
    assert "20 of 1300 outcomes flip, 7 one way and 13 the other (p = 0.263)" in paper
    assert "can tell a shift of one point (power 81.3 %)" in paper
    assert "does worse" in verdict_sentence(outcome(50, 20, 2, 8))
    assert "does better" in verdict_sentence(outcome(50, 2, 20, 8))
    assert "say nothing about outcomes" in verdict_sentence(outcome(0, 0, 0, 80))
    assert "neither degradation nor instability" in verdict_sentence(outcome(10, 0, 0, 5))
    assert "cannot tell a shift" in verdict_sentence(outcome(10, 3, 2, 5))


def test_the_mechanism_is_read_from_traces(tmp_path: Path) -> None:
    for name, drift in (("F16", 1e-4), ("Q4_K_M", 0.3)):
        for e in range(6):
            write_trace(
                tmp_path / f"{name}-{e}.msgpack",
                seed=e,
                margin_scale=0.3,
                episode_id=f"episode-{e}",
                arms=[*COLD, *warm(drift=drift)],
                engine={"weight_format": name},
            )
    report = built(tmp_path, mechanism=True)
    (change,) = rows(report, "decomposition")
    assert (change["first"], change["second"]) == ("F16", "Q4_K_M")
    margins = {
        str(r["series"]).split(" · ")[2][:3]: r for r in rows(report, "mechanism") if r["tokens"] == "all"
    }
    # The traces share their margins exactly; the drift that was built in differs by a factor of 3000.
    assert margins["F16"]["margin_q50"] == margins["Q4_"]["margin_q50"]
    assert float(str(margins["Q4_"]["drift_median"])) > 100 * float(str(margins["F16"]["drift_median"]))
    assert margins["F16"]["positions"] == 6 * 3 * 32
    without = built(tmp_path)
    assert not {"mechanism", "decomposition"} & {t.name for t in without.report.tables}


def test_the_released_items_through_the_pooled_table(tmp_path: Path, paper_data: Path) -> None:
    """Known answers 15, 18, 20 to 24 as `report` prints them: every released item as a pair of arms."""
    write_trace(tmp_path / "a.msgpack", arms=[*COLD, *warm()])
    pair = build_report(collect(trace_files([tmp_path]), CollectOptions())).series[0].pairs[0]
    with (paper_data / "bridge_items.csv").open(newline="") as lines:
        released = list(csv.DictReader(lines))
    series = []
    for bridge in dict.fromkeys(row["config"] for row in released):
        pairs = tuple(
            replace(
                pair,
                episode_id=f"gsm8k_{int(row['item_idx']):04d}",
                answers=(released_answer(row, "cold"), released_answer(row, "warm")),
            )
            for row in released
            if row["config"] == bridge
        )
        series.append(item_series(bridge, pairs))
    table = pooled_items_table(series)
    assert table is not None
    as_wrong, answered = as_rows(table)
    assert (as_wrong["items"], as_wrong["problems"]) == (1300, 500)
    assert (as_wrong["warm_only"], as_wrong["cold_only"]) == (13, 7)
    assert as_wrong["mcnemar_p"] == 0.26317596435546875
    assert as_wrong["interval"].low == pytest.approx(-0.0015384615, abs=5e-11)  # type: ignore[attr-defined]
    assert as_wrong["standard_error"] == pytest.approx(0.003394417431326629, abs=1e-16)
    assert as_wrong["power_one_point"] == pytest.approx(0.81256, abs=5e-6)
    # Three of the twenty flips are one-sided failures to find an answer.
    assert (answered["warm_only"], answered["cold_only"]) == (12, 5)
    assert answered["mcnemar_p"] == pytest.approx(0.143, abs=5e-4)


def item_series(model: str, pairs: tuple[EpisodePair, ...]) -> Series:
    key = SeriesKey(
        configuration=("llama-server", None, model, "Q4_K_M"),
        workload="gsm8k",
        baseline="cold",
        arm="warm/self",
        way=Way.FIXED,
        carry=Carry.CARRIED_OVER,
        control=Control.REPEATS,
        baseline_state=CacheState.COLD,
        arm_state=CacheState.WARM,
    )
    return Series(key=key, pairs=pairs)


def test_pooled_items_give_no_flips_where_nothing_was_right(tmp_path: Path) -> None:
    write_trace(tmp_path / "a.msgpack", arms=[*COLD, *warm()])
    pair = build_report(collect(trace_files([tmp_path]), CollectOptions())).series[0].pairs[0]

    def ways_of_counting(*answers: tuple[str, str]) -> list[object] | None:
        pairs = tuple(
            replace(
                pair,
                episode_id=f"gsm8k_{number:04d}",
                answers=tuple(stated(AnswerClass(kind), "1") for kind in kinds),
            )
            for number, kinds in enumerate(answers)
        )
        table = pooled_items_table([item_series(model, pairs) for model in ("one", "two")])
        return None if table is None else [row[0] for row in table.rows]

    assert ways_of_counting(("wrong", "wrong")) is None
    # The right answer has none beside it: of the items that both arms answered nothing was right.
    assert ways_of_counting(("correct", "no answer"), ("wrong", "wrong")) == ["no answer counts as wrong"]
    both = ["no answer counts as wrong", "answered in both arms"]
    assert ways_of_counting(("correct", "wrong"), ("wrong", "wrong")) == both


def released_answer(row: dict[str, str], side: str) -> JudgedAnswer:
    value = row[f"{side}_answer"]
    right = AnswerClass.CORRECT if row[f"{side}_correct"] == "true" else AnswerClass.WRONG
    return stated(right if value else AnswerClass.NO_ANSWER, value or None)


def stated(answer_class: AnswerClass, value: str | None) -> JudgedAnswer:
    return JudgedAnswer(
        answer_class=answer_class, exact=value, kind=None, found=Found.HASHES, doubt=None, text_digest=""
    )


def test_against_another_folder(tmp_path: Path) -> None:
    """Caching switched at launch: cold arms in one folder, warm arms in another."""
    for folder in ("off", "on"):
        (tmp_path / folder).mkdir()
        for e in range(5):
            flips = {1: 3, 2: 5} if e < 2 else {}
            arms = [*COLD] if folder == "off" else [*COLD, *warm(flips=flips)]
            write_trace(tmp_path / folder / f"{e}.msgpack", seed=e, episode_id=f"episode-{e}", arms=arms)
    options = CollectOptions()
    on, off = (collect(trace_files([tmp_path / folder]), options) for folder in ("on", "off"))
    report = against_folder(build_report(on), off, options).report
    found = {str(r["pair"]): r for r in as_rows(report.tables[0])}
    cold = found["cold (other folder) vs cold"]
    assert (cold["episodes"], cold["differ"], cold["flipped"]) == (5, 0, 0)
    assert (cold["identical"], cold["evidence"]) == (20, "row 20")
    other = found["cold (other folder) vs warm"]
    assert (other["episodes"], other["differ"], other["requests"], other["flipped"]) == (5, 2, 20, 4)
    assert other["request_rate"] == pytest.approx(0.2)
    assert report.disclosure is not None
    told = [r for r in as_rows(report.disclosure) if str(r["configuration"]).endswith(" (other folder)")]
    assert "cached tokens, cold" in {r["item"] for r in told}
    assert "cached tokens, warm" not in {r["item"] for r in told}


def test_recompute_against_itself_is_pooled_over_configurations(tmp_path: Path) -> None:
    for name in ("F16", "Q8_0"):
        for e in range(5):
            write_trace(
                tmp_path / f"{name}-{e}.msgpack",
                requests=1,
                tokens=4,
                seed=e,
                episode_id=f"episode-{e}",
                arms=COLD,
                engine={"weight_format": name},
            )
    said = " ".join(built(tmp_path).report.summary)
    assert "Recompute against itself: 0 of 10 episodes differ over 2 configurations, at most 27.75 %" in said
    assert "exact one-sided 25.89 % if episodes are independent" in said


def test_drift_along_a_carried_over_run(tmp_path: Path) -> None:
    """Drift that grows from episode to episode has a slope above 0."""
    for e in range(6):
        path = tmp_path / f"{e}.msgpack"
        arms = [*COLD, *warm(drift=1e-3 * (1 + e))]
        write_trace(path, seed=e, episode_id=f"episode-{e}", run_position=e, arms=arms)
        carried_over(path)
    found = next(r for r in rows(built(tmp_path), "along_run") if "cold vs warm" in str(r["series"]))
    assert found["episodes"] == 6
    assert float(str(found["drift_slope"])) == pytest.approx(5e-4, rel=0.2)
