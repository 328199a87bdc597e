"""Presets on the real engine. What is claimed of a study is claimed of these."""

import subprocess
import sys
from pathlib import Path

import pytest

from replay.divergence import analyse
from replay.study.cell_record import CellStatus
from replay.study.cells import cells_of
from replay.study.study_file import load_study
from replay.study.study_run import StudyRun
from tracer.episode import CacheState
from tracer.progress import Silent
from tracer.tracefile import TraceReader

ROOT = Path(__file__).resolve().parents[3]


def run_preset(name: str, out: Path, episodes: str) -> list[Path]:
    study = load_study(name, (), episodes)
    whole = StudyRun(study, cells_of(study), out, Silent())
    whole.run(cells_of(study), quiet=True)
    assert {state.status for state in whole.states()} == {CellStatus.DONE}
    return sorted(out.rglob("*.msgpack"))


def check_repeats(traces: list[Path]) -> None:
    """Two cold and two warm arms each, every arm verified, every repeat identical to its first."""
    for file in traces:
        with TraceReader.open(file) as trace:
            states = [arm.state for arm in trace.arms]
            assert states == [CacheState.COLD, CacheState.COLD, CacheState.WARM, CacheState.WARM]
            found = analyse(trace)
            assert all(assessment.may_count for assessment in found.assessments)
            assert len(found.controls) == 2
            assert [control.differs for control in found.controls] == [False, False], file.name


@pytest.mark.llama
@pytest.mark.slow
def test_smoke_on_two_conversations_ends_in_a_report_over_four_formats(smollm2: Path, tmp_path: Path) -> None:
    traces = run_preset("smoke", tmp_path / "smoke", "0-1")
    assert len(traces) == 8
    check_repeats(traces)
    done = subprocess.run(
        [sys.executable, str(ROOT / "cachetrace.py"), "report", str(tmp_path / "smoke")],
        capture_output=True,
        text=True,
        check=True,
    )
    for words in ("Rates over weight formats", "Trend over weight formats", "Grid:", "Disclosure"):
        assert words in done.stdout
