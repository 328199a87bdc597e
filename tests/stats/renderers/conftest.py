"""One small study with something in every table, and hostile text in every place that text comes from."""

import contextlib
from pathlib import Path

import pytest

from stats.report.build import Built, build_report
from stats.report.collect import CollectOptions, collect
from stats.report.sources import trace_files
from tests.synthetic import ArmSpec, write_trace
from tracer.episode import WorkloadSpec

HOSTILE = '\x1b[31m\u202e<script>=cmd|"$\\input{x}#%&_^~`*[a](b)'

DETAILS = {
    "steps": 3,
    "decoded_steps": 2,
    "blocked_calls": 1,
    "refused_by_sandbox": [HOSTILE],
    "isolation": {HOSTILE: HOSTILE},
}


def study(folder: Path) -> None:
    for c, (name, drift) in enumerate((("F16", 1e-3), ("Q4_K_M", 0.05))):
        for e in range(4):
            flips = {1: 3 + e} if e <= 2 * c else {}
            warm = {"state": "warm", "drift": drift, "flips": flips, "details": DETAILS}
            arms = [ArmSpec(score=1.0), ArmSpec(repeat=1, score=1.0), ArmSpec(**warm, score=float(e != 2))]
            arms.append(ArmSpec(**warm, repeat=1, score=float(e != 2)))
            if e == 3:
                arms.append(ArmSpec(state="no-prompt-cache", complete=False))
            write_trace(
                folder / f"{name}-{e}.msgpack",
                requests=3,
                tokens=16,
                seed=e,
                arms=arms,
                episode_id=HOSTILE if e == 3 else f"episode-{e}",
                run_id=f"run-{c}",
                run_position=e,
                engine={
                    "model_name": f"model-{name}",
                    "weight_format": name,
                    "model_hash": f"sha256:{c:064x}",
                },
                workload=WorkloadSpec(name="office", params={"note": f"a subset {HOSTILE}"}),
                hostile_pieces=True,
            )


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The report over the study, with relative paths so that it reads the same everywhere."""
    with contextlib.chdir(tmp_path_factory.mktemp("study")):
        Path("traces").mkdir()
        study(Path("traces"))
        collection = collect(trace_files([Path("traces")]), CollectOptions(mechanism=True))
    return build_report(collection, command="cachetrace report traces")
