"""A drift stands under the name of what was read of it: both top-k lists, or the chosen token alone."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from replay.divergence.request_verdict import Detail
from replay.verdicts import Comparison, DriftFrom, Evidence, RequestVerdict, Verdict
from stats.commands.report import MANY_FILES
from stats.report.build import Built, build_report
from stats.report.collect import CollectOptions, collect
from stats.report.controls import ControlKey, ControlPair, ControlSeries
from stats.report.series import Control
from stats.report.sources import trace_files
from stats.tables.drift import largest_drifts
from stats.tables.order import along_run_table
from tests.synthetic import ArmSpec, write_trace
from tracer.episode import CacheState, Carry

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("largest_drift", "largest_drift_of_chosen_token")


def study(folder: Path, episodes: int, **warm: object) -> None:
    """Cold and warm, each twice; request 0 meets an empty cache, so it is identical."""
    for e in range(episodes):
        arms = [ArmSpec(), ArmSpec(repeat=1)]
        arms += [
            ArmSpec(state="warm", drift=1e-2 * (1 + e), repeat=repeat, **warm)  # type: ignore[arg-type]
            for repeat in (0, 1)
        ]
        write_trace(
            folder / f"{e:02}.msgpack",
            requests=3,
            tokens=12,
            seed=e,
            episode_id=f"episode-{e}",
            run_position=e,
            arms=arms,
        )


def built(folder: Path, detail: Detail) -> Built:
    return build_report(collect(trace_files([folder]), CollectOptions(detail=detail)))


def rows(report: Built, name: str) -> list[dict[str, object]]:
    table = next(t for t in report.report.tables if t.name == name)
    return [dict(zip([c.key for c in table.columns], row, strict=True)) for row in table.rows]


def verdict(drift: float | None, kind: DriftFrom | None) -> RequestVerdict:
    return RequestVerdict(
        request=0,
        verdict=Verdict.DRIFTED,
        evidence=Evidence.ROW,
        max_drift=drift,
        median_drift=drift,
        drift_from=kind,
    )


def test_a_smaller_drift_never_takes_the_name_of_the_larger(tmp_path: Path) -> None:
    study(tmp_path, 3)
    lists, path = (rows(built(tmp_path, detail), "verdicts") for detail in (Detail.ALTERNATIVES, Detail.PATH))
    cross = [r for r in lists if r["kind"] == "cross-arm"], [r for r in path if r["kind"] == "cross-arm"]
    for in_full, chosen in zip(*cross, strict=True):
        assert in_full[NAMES[1]] is None
        assert chosen[NAMES[0]] is None
        assert 0 < float(str(chosen[NAMES[1]])) < float(str(in_full[NAMES[0]]))
    # Equal rows have equal lists, read or not.
    within = [r for r in path if r["kind"] == "within-arm"]
    assert {tuple(r[name] for name in NAMES) for r in within} == {(0.0, None)}


def test_the_command_names_it_above_its_number_of_traces(tmp_path: Path) -> None:
    study(tmp_path, MANY_FILES + 1)

    def printed(form: str) -> str:
        command = [sys.executable, str(ROOT / "cachetrace.py"), "report", str(tmp_path), "--no-mechanism"]
        return subprocess.run([*command, "-f", form], capture_output=True, text=True, check=True).stdout

    many = json.loads(printed("json"))["tables"]["verdicts"]["rows"][0]
    heads = [line for line in csv.reader(io.StringIO(printed("csv"))) if NAMES[1] in line]
    assert heads
    assert heads[0].index(NAMES[1]) == heads[0].index(NAMES[0]) + 1
    assert "| largest drift of the chosen token (nat) |" in printed("md")
    (tmp_path / "00.msgpack").unlink()  # that which drifts the least
    few = json.loads(printed("json"))["tables"]["verdicts"]["rows"][0]
    assert (many[NAMES[0]], few[NAMES[1]]) == (None, None)
    assert many[NAMES[1]] < few[NAMES[0]]
    assert "of the chosen token" not in printed("md")


def test_requests_without_lists_say_so_in_a_report_over_one_trace(tmp_path: Path) -> None:
    study(tmp_path, 1, observe="chosen")
    report = built(tmp_path / "00.msgpack", Detail.ALTERNATIVES)
    moved = [r for r in rows(report, "requests") if r["verdict"] == "drifted"]
    assert moved
    assert all(r[NAMES[0]] is None and float(str(r[NAMES[1]])) > 0 for r in moved)


def test_before_a_flip_without_lists_too_and_the_mechanism_leaves_it_out(tmp_path: Path) -> None:
    for observe, named in (("row", "drift_before"), ("chosen", "drift_before_of_chosen_token")):
        folder = tmp_path / observe
        folder.mkdir()
        study(folder, 2, observe=observe, flips={1: 5})
        report = build_report(collect(trace_files([folder]), CollectOptions(mechanism=True)))
        (first, *_) = rows(report, "flips")
        kept = {name for name in ("drift_before", "drift_before_of_chosen_token") if first[name] is not None}
        assert kept == {named}
        (row, *_) = rows(report, "mechanism")
        assert (row["drift_median"] is None) == (observe == "chosen")


@pytest.mark.parametrize("kind", list(DriftFrom))
def test_the_slope_along_a_run_is_named_too(kind: DriftFrom) -> None:
    key = ControlKey(
        configuration=("engine", None, "m", "Q4_K_M"),
        workload="chat",
        arm="warm",
        state=CacheState.WARM,
        carry=Carry.CARRIED_OVER,
        control=Control.PASSES,
        prompt_cache=True,
        recompute_between=False,
    )
    pairs = []
    for episode in range(6):
        requests = verdict(0.0, DriftFrom.TOP_K), verdict(0.2 * episode, kind)
        comparison = Comparison(baseline=0, arm=1, within_arm=True, requests=requests)
        pairs.append(
            ControlPair(
                episode_id=str(episode), position=episode, comparison=comparison, differs=False, why_not=""
            )
        )
    found = along_run_table([], [ControlSeries(key=key, pairs=tuple(pairs))], {key.configuration: "m"})
    assert found is not None
    row = dict(zip([c.key for c in found.columns], found.rows[0], strict=True))
    names = {DriftFrom.TOP_K: "drift_slope", DriftFrom.CHOSEN: "drift_slope_of_chosen_token"}
    # The median of an identical request and one that drifts by 0.2 per episode.
    assert row[names.pop(kind)] == pytest.approx(0.1)
    assert [row[name] for name in names.values()] == [None]


@pytest.mark.parametrize(
    ("seen", "cells"),
    [
        ([], (None, None)),
        ([(None, None)], (None, None)),
        ([(0.5, DriftFrom.TOP_K), (0.0, DriftFrom.TOP_K)], (0.5, None)),
        ([(0.0, DriftFrom.TOP_K)], (0.0, None)),
        ([(0.1, DriftFrom.CHOSEN), (None, None)], (None, 0.1)),
        # Of an identical request both are 0, so it makes no row say that its largest drift is 0.
        ([(0.1, DriftFrom.CHOSEN), (0.0, DriftFrom.TOP_K)], (None, 0.1)),
        ([(0.1, DriftFrom.CHOSEN), (0.5, DriftFrom.TOP_K)], (0.5, 0.1)),
    ],
)
def test_each_column_holds_only_what_was_read_that_way(
    seen: list[tuple[float | None, DriftFrom | None]], cells: tuple[float | None, float | None]
) -> None:
    assert largest_drifts(verdict(*one) for one in seen) == cells
