"""The four servings of a GSM8K item as a study makes them, on invented items."""

import hashlib
import json
from pathlib import Path

import pytest

from replay.divergence import analyse
from replay.study.cell_run import run_cell
from replay.study.cells import cells_of
from replay.study.study_file import load_study
from replay.verdicts import ArmStatus, Evidence, Verdict
from tracer.episode import CacheState, Priming, Way
from tracer.progress import Silent
from tracer.tracefile import TraceReader
from tracer.workloads import gsm8k

ITEMS = [
    {
        "question": "A shelf holds 3 rows of 8 jars. 5 jars are sold. How many jars are left?",
        "answer": "3*8=<<3*8=24>>24 jars\n24-5=<<24-5=19>>19\n#### 19",
    },
    {
        "question": "Mia saves $600 in each of 2 years. How many dollars does she save?",
        "answer": "600*2=<<600*2=1200>>1200\n#### 1,200",
    },
]
H200 = Path(__file__).resolve().parents[3] / "docs" / "h200" / "gsm8k.toml"
ARMS = H200.read_text(encoding="utf-8").split("[[arms]]")[1].split("[sampling]")[0]
"""The arms of the study that was run on the H200."""


@pytest.fixture
def items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data file of invented items, which stands for the pinned one."""
    data = "".join(json.dumps(item) + "\n" for item in ITEMS).encode()
    monkeypatch.setattr(gsm8k, "DATA_SHA256", hashlib.sha256(data).hexdigest())
    file = tmp_path / "items.jsonl"
    file.write_bytes(data)
    return file


def serve(items: Path, engine: str) -> list[Path]:
    """Run a study of the invented items with the arms of docs/h200/gsm8k.toml, in this process."""
    path = items.with_name("items.toml")
    path.write_text(
        f"""name = "items"
[workload]
name = "gsm8k"
file = "{items.name}"
{engine}
[[arms]]{ARMS}[sampling]
max_new_tokens = 12
"""
    )
    (cell,) = cells_of(load_study(str(path)))
    out = items.with_name("out")
    outcome = run_cell(cell, out, Silent())
    assert (outcome.episodes, outcome.failed) == (len(ITEMS), [])
    return sorted(out.rglob("*.msgpack"))


def check_servings(files: list[Path]) -> None:
    """Cold, cold, warm, warm: counted arms of one prompt, of which warm ones reuse all but the last token."""
    assert [file.stem for file in files] == ["gsm8k_0000", "gsm8k_0001"]
    for file in files:
        with TraceReader.open(file) as trace:
            assert [(arm.state, arm.priming, arm.repeat) for arm in trace.arms[1:]] == [
                (CacheState.COLD, Priming.NONE, 0),
                (CacheState.WARM, Priming.SELF, 0),
                (CacheState.WARM, Priming.SELF, 1),
            ]
            recording = trace.arms[0]  # the first cold serving
            assert (recording.state, recording.way) == (CacheState.COLD, Way.RECORDED)
            served = [trace.requests(arm.index) for arm in trace.arms]
            assert [len(requests) for requests in served] == [1, 1, 1, 1]
            prompts = [tuple(trace.prompt_ids(arm, 0)) for arm in trace.arms]
            assert len(set(prompts)) == 1
            cached = [requests[0].exposure.cached_tokens for requests in served]
            assert cached == [0, 0, len(prompts[0]) - 1, len(prompts[0]) - 1]
            found = analyse(trace)
            assert {assessment.status for assessment in found.assessments} == {ArmStatus.VERIFIED}
            assert len(found.controls) == 2
            for control in found.controls:
                verdicts = [(each.verdict, each.evidence) for each in control.requests]
                assert verdicts == [(Verdict.IDENTICAL, Evidence.ROW)]


def test_an_item_is_served_twice_cold_and_then_twice_warm(items: Path) -> None:
    check_servings(serve(items, '[[engine]]\nengine = "fake"'))


@pytest.mark.llama
@pytest.mark.slow
@pytest.mark.usefixtures("smollm2")
def test_each_path_repeats_itself_on_the_real_engine(items: Path) -> None:
    model = '[[model]]\npath = "smollm2"\n[[engine]]\nengine = "llama"\ncontext_tokens = 512'
    check_servings(serve(items, model))
