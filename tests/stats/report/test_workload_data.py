"""What is disclosed of a workload's data, and that recordings from before the hashes still compare."""

import json
from pathlib import Path

import pytest

from replay.divergence import compare_across
from stats.report.build import against_folder, build_report
from stats.report.collect import CollectOptions, collect
from stats.report.sources import trace_files
from tests.synthetic import ArmSpec, write_trace
from tracer.episode import WorkloadSpec
from tracer.tracefile import TraceReader
from tracer.workloads.chat import ChatFamily

COLD = (ArmSpec(), ArmSpec(repeat=1))


def episodes(folder: Path, count: int) -> list[WorkloadSpec]:
    """The specs of a file of conversations."""
    lines = [
        json.dumps({"id": f"talk{n}", "messages": [{"role": "user", "content": f"hello {n}"}]})
        for n in range(count)
    ]
    path = folder / "talks.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return [episode.spec for episode in ChatFamily().episodes(file=path)]


def without_hashes(spec: WorkloadSpec) -> WorkloadSpec:
    """As recordings from before the hashes have it."""
    params = {name: value for name, value in spec.params.items() if "sha256" not in name}
    return WorkloadSpec(
        name=spec.name, params=params, history=spec.history, agent=spec.agent, version=spec.version
    )


def record(folder: Path, specs: list[WorkloadSpec]) -> Path:
    folder.mkdir()
    for e, spec in enumerate(specs):
        write_trace(folder / f"{e}.msgpack", seed=e, episode_id=f"talk{e}", arms=COLD, workload=spec)
    return folder


def test_a_file_of_conversations_is_disclosed_by_its_hash_and_theirs(tmp_path: Path) -> None:
    specs = episodes(tmp_path, 6)
    built = build_report(collect(trace_files([record(tmp_path / "runs", specs)]), CollectOptions()))
    assert built.report.disclosure is not None
    (said,) = [row[-1] for row in built.report.disclosure.rows if row[1] == "workload data"]
    parts = str(said).split("; ")
    assert parts[0] == json.dumps({"file_sha256": specs[0].params["file_sha256"]})
    each = [json.dumps({"conversation_sha256": spec.params["conversation_sha256"]}) for spec in specs]
    assert parts[1:5] == each[:4]
    assert parts[5:] == ["and 2 more"]


@pytest.mark.parametrize("other", ["with", "without"])
def test_a_recording_from_before_the_hashes_compares_with_one_of_the_same_text(
    tmp_path: Path, other: str
) -> None:
    specs = episodes(tmp_path, 5)
    new, old = specs, [without_hashes(spec) for spec in specs]
    one = record(tmp_path / "one", old)
    two = record(tmp_path / "two", new if other == "with" else old)
    with TraceReader.open(one / "0.msgpack") as a, TraceReader.open(two / "0.msgpack") as b:
        compared = compare_across((a, 0), (b, 0))
        assert compared.mismatches == ()
        assert len(compared.requests) == 4
    options = CollectOptions()
    of_one, of_two = (collect(trace_files([folder]), options) for folder in (one, two))
    report = against_folder(build_report(of_one), of_two, options).report
    table = report.tables[0]
    rows = [dict(zip([c.key for c in table.columns], row, strict=True)) for row in table.rows]
    (across,) = [row for row in rows if row["pair"] == "cold (other folder) vs cold"]
    assert (across["episodes"], across["differ"], across["identical"]) == (5, 0, 20)
    assert len({row["configuration"] for row in rows}) == 1
