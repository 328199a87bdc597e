"""Presets on the real engine. What is claimed of a study is claimed of these."""

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from replay.study.cell_record import CellStatus
from replay.study.cells import cells_of
from replay.study.study_file import load_study
from replay.study.study_run import StudyRun
from tests.replay.repeats import check_repeats
from tracer.progress import Silent
from tracer.tracefile import TraceReader

ROOT = Path(__file__).resolve().parents[3]


def run_preset(name: str, out: Path, episodes: str, turns: int | None = None) -> list[Path]:
    study = load_study(name, (), episodes)
    study = replace(study, workload=replace(study.workload, turns=turns))
    whole = StudyRun(study, cells_of(study), out, Silent())
    whole.run(cells_of(study), quiet=True)
    assert {state.status for state in whole.states()} == {CellStatus.DONE}
    return sorted(out.rglob("*.msgpack"))


@pytest.mark.llama
@pytest.mark.slow
def test_smoke_on_two_conversations_ends_in_a_report_over_four_formats(smollm2: Path, tmp_path: Path) -> None:
    traces = run_preset("smoke", tmp_path / "smoke", "0-1")
    assert len(traces) == 8
    for file in traces:
        check_repeats(file)
    done = subprocess.run(
        [sys.executable, str(ROOT / "cachetrace.py"), "report", str(tmp_path / "smoke")],
        capture_output=True,
        text=True,
        check=True,
    )
    for words in ("Rates over weight formats", "Trend over weight formats", "Grid:", "Disclosure"):
        assert words in done.stdout


@pytest.mark.llama
@pytest.mark.bfcl
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("smollm2", "wheel")
def test_the_first_two_cpu8_episodes_repeat_themselves_in_both_formats(tmp_path: Path) -> None:
    """Their first turns, two requests each: a cold one of 4,500 tokens takes 12 to 25 s on two cores."""
    traces = run_preset("bfcl-cpu8", tmp_path / "cpu8", "0-1", turns=1)
    names = [(file.parent.name, file.stem) for file in traces]
    assert names == [(f"smollm2.{f}", f"multi_turn_base_{n}") for f in ("F16", "Q8_0") for n in (1, 3)]
    for file in traces:
        check_repeats(file)
        with TraceReader.open(file) as trace:
            assert trace.episode.workload.note.endswith("a subset, not the paper's figure")
            assert all(4096 < (request.prompt_tokens or 0) < 6144 - 64 for request in trace.requests(0))
            end = trace.end(0)
            assert end is not None
            assert end.outcome is not None
            assert end.outcome.score is None
            assert end.outcome.details["protocol"] == "teacher-forced from the ground truth"
