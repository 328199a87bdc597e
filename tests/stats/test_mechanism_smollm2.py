"""The mechanism on real traces: SmolLM2 in four weight formats, recorded on this CPU by the smoke study.

The pilot on an H200 found margins that barely move with the weight format while the largest change of
a logit grows thirty-fold (median 0.043 in F16, 1.289 in Q4_K_M); the same must be found here.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from stats.report.build import build_report
from stats.report.collect import CollectOptions, collect
from stats.report.sources import trace_files
from stats.tables.table import Table

ROOT = Path(__file__).resolve().parents[2]


def rows(tables: tuple[Table, ...], name: str) -> list[dict[str, object]]:
    table = next(t for t in tables if t.name == name)
    return [dict(zip([c.key for c in table.columns], row, strict=True)) for row in table.rows]


def check_finding(folder: Path) -> None:
    """No format flips against itself; the disturbance grows and the supply of near ties does not."""
    tables = build_report(collect(trace_files([folder]), CollectOptions(mechanism=True))).report.tables
    rates = rows(tables, "rates")
    assert len(rates) == 4
    assert all(r["baseline_against_itself"] == r["arm_against_itself"] == 0 for r in rates)
    whole = [r for r in rows(tables, "mechanism") if r["tokens"] == "all"]
    drift = {str(r["series"]).split(" · ")[-1].split(",")[0]: float(str(r["drift_median"])) for r in whole}
    margin = {str(r["series"]).split(" · ")[-1].split(",")[0]: float(str(r["margin_q50"])) for r in whole}
    assert drift["Q4_K_M"] > 5 * drift["F16"]
    assert 0.5 < margin["Q4_K_M"] / margin["F16"] < 2
    change = next(r for r in rows(tables, "decomposition") if (r["first"], r["second"]) == ("F16", "Q3_K_M"))
    # A hundred tokens a format: whose margins happen to be small among them depends on the processor, so
    # "both" was seen as well; that the disturbance does most of it was not otherwise anywhere.
    assert change["finding"] in ("disturbance", "both", "disturbance, against the margins")
    assert float(str(change["by_disturbance"])) > 2 * float(str(change["by_margins"]))


@pytest.mark.llama
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_disturbance_does_it_on_this_cpu(tmp_path: Path) -> None:
    folder = tmp_path / "smoke"
    options = ["-o", str(folder), "-q", "--no-report"]
    subprocess.run(
        [sys.executable, str(ROOT / "cachetrace.py"), "study", "run", "smoke", *options],
        check=True,
        timeout=850,
    )
    check_finding(folder)
