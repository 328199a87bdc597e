"""The released logs as traces: what they count, and what is refused because it would be a guess."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replay.artifact_import.importing import import_logs
from replay.divergence.analyse import analyse
from replay.verdicts import ArmStatus, Evidence, EvidenceClass, Verdict
from tracer.columns import PositionFlag
from tracer.episode import CacheState, Carry, ExposureSource, Identity, Scale
from tracer.errors import UsageError
from tracer.tracefile import TraceReader


def opened(path: Path) -> TraceReader:
    return TraceReader.open(path)


def test_a_grid_folder_becomes_a_trace_an_episode(artifact, tmp_path: Path) -> None:
    found = import_logs(artifact.grid(), tmp_path / "out")
    assert found.written == {"lcpp-qwen7b-q4km": 2}
    assert found.passed_over == ()
    with opened(tmp_path / "out/lcpp-qwen7b-q4km/multi_turn_base_1.msgpack") as trace:
        assert [(a.state, a.pass_index, a.place.position) for a in trace.arms] == [
            (CacheState.WARM, 0, 1),
            (CacheState.COLD, 0, 1),
            (CacheState.WARM, 1, 1),
            (CacheState.COLD, 1, 1),
        ]
        arm = trace.arms[0]
        assert (arm.engine.engine, arm.engine.version, arm.engine.weight_format) == (
            "llama-server",
            "b10434",
            "Q4_K_M",
        )
        assert arm.engine.prompt_cache_bytes == 8192 * 1024 * 1024
        assert arm.place.carry is Carry.CARRIED_OVER
        assert arm.place.predecessor == "multi_turn_base_0"
        request = trace.requests(0)[1]
        assert trace.prompt_ids(0, 1) is None
        assert request.prompt_hash is not None
        assert request.prompt_hash.startswith("sha256:")
        assert (request.exposure.cached_tokens, request.exposure.source) == (80, ExposureSource.USAGE)
        assert request.exposure.expected_tokens is None
        assert (request.scale, request.identity) == (Scale.LOGPROB, Identity.TOKEN_ID)
        assert trace.path(0, 1).token_ids.tolist() == [11, 20, 31, 40]
        assert trace.piece(31) == b" t31"
        assert trace.losses == ()
        end = trace.end(0)
        assert end is not None
        assert end.outcome is not None
        assert end.outcome.solved is False


def test_its_verdicts_are_the_authors_divergence(artifact, tmp_path: Path) -> None:
    import_logs(artifact.grid(), tmp_path / "out")
    with opened(tmp_path / "out/lcpp-qwen7b-q4km/multi_turn_base_1.msgpack") as trace:
        analysis = analyse(trace)
    (cross,) = [c for c in analysis.comparisons if c.arm == 0]
    assert cross.baseline == 1
    first = cross.first_flip
    assert first is not None
    assert first.flip is not None
    assert (first.request, first.flip.position) == (1, 2)
    assert all(control.differs is False for control in analysis.controls)
    assert analysis.assessments[1].status is ArmStatus.VERIFIED


def test_vllm_is_compared_by_strings_and_declared(artifact, tmp_path: Path) -> None:
    import_logs(artifact.grid("vllm-qwen7b-fp16", "vllm"), tmp_path / "out")
    with opened(tmp_path / "out/vllm-qwen7b-fp16/multi_turn_base_1.msgpack") as trace:
        assert {r.identity for r in trace.requests(0)} == {Identity.TOKEN_STRING}
        exposure = trace.requests(0)[1].exposure
        assert (exposure.cached_tokens, exposure.source) == (None, ExposureSource.DECLARED)
        assert trace.arms[0].engine.weight_format == "BF16"
        analysis = analyse(trace, baseline=1)
    assert all(a.evidence_class is EvidenceClass.DECLARED for a in analysis.assessments)
    (cross,) = [c for c in analysis.comparisons if c.arm == 0]
    assert cross.first_flip is not None
    assert cross.first_flip.evidence in (Evidence.CHOSEN, Evidence.TOP_K, Evidence.STRINGS)


def test_the_report_counts_them_and_says_how(artifact, tmp_path: Path) -> None:
    from stats.report.build import build_report
    from stats.report.collect import CollectOptions, collect
    from stats.report.sources import trace_files

    import_logs(artifact.grid(), tmp_path / "out")
    import_logs(artifact.grid("vllm-qwen7b-fp16", "vllm").parent / "vllm-qwen7b-fp16", tmp_path / "out")
    report = build_report(collect(trace_files([tmp_path / "out"]), CollectOptions())).report
    tables = {t.name: t for t in report.tables}
    (row,) = tables["grid"].rows
    cells = dict(zip([c.key for c in tables["grid"].columns], row, strict=True))
    assert (cells["episodes"], cells["cross"], cells["on"], cells["off"]) == (2, 1, 0, 0)
    assert (cells["median_request"], cells["median_token"]) == (1, 2)
    assert (cells["kept"], cells["control"]) == ("carried over", "passes")
    rate = dict(zip([c.key for c in tables["rates"].columns], tables["rates"].rows[0], strict=True))
    assert rate["attributable"] is None
    assert len(tables["declared"].rows) == 1
    assert report.disclosure is not None
    said = " ".join(str(cell) for row in report.disclosure.rows for cell in row)
    assert "do not replay" in said
    assert "token-string" in said


def test_a_bridge_becomes_four_servings_of_each_item(artifact, tmp_path: Path) -> None:
    from stats.report.build import build_report
    from stats.report.collect import CollectOptions, collect
    from stats.report.sources import trace_files

    assert import_logs(artifact.bridge(), tmp_path / "out").written == {"bridge-qwen7b-q80": 3}
    report = build_report(collect(trace_files([tmp_path / "out"]), CollectOptions())).report
    table = next(t for t in report.tables if t.name == "single_turn")
    cells = dict(zip([c.key for c in table.columns], table.rows[0], strict=True))
    assert (cells["items"], cells["cold_repeats"], cells["warm_repeats"], cells["differ"]) == (3, 3, 3, 1)
    assert (cells["cold_correct"], cells["warm_correct"], cells["correctness_differs"]) == (3, 2, 1)


def test_of_a_restarted_bridge_the_last_line_counts(artifact, tmp_path: Path) -> None:
    folder = artifact.bridge(items=2)
    log = folder / "raw_requests.jsonl.gz"

    def restart(lines: list[dict[str, Any]]) -> None:
        stale = json.loads(json.dumps(lines[0]))
        stale["response"]["choices"][0]["text"] = "so #### 99"
        lines.insert(0, stale)

    artifact.change(log, restart)
    import_logs(folder.parent, tmp_path / "out")
    with opened(tmp_path / "out/bridge-qwen7b-q80/gsm8k_0000.msgpack") as trace:
        assert trace.requests(0)[0].text == "so #### 5"


def test_the_reset_control_is_read(artifact, tmp_path: Path) -> None:
    artifact.reset()
    assert import_logs(artifact.root, tmp_path / "out").written == {"reset-lcpp": 2}
    with opened(tmp_path / "out/reset-lcpp/gsm8k_0001.msgpack") as trace:
        states = [(a.state, a.repeat) for a in trace.arms]
        analysis = analyse(trace)
    assert states == [
        (CacheState.COLD, 0),
        (CacheState.NO_PROMPT_CACHE, 0),
        (CacheState.COLD, 1),
        (CacheState.NO_PROMPT_CACHE, 1),
    ]
    assert analysis.comparisons[0].requests[0].verdict is Verdict.FLIPPED


def test_repair_and_revision_folders_are_told_apart(artifact, tmp_path: Path) -> None:
    from tests.replay.artifact_import.conftest import write_log

    repair = artifact.root / "results-repair" / "cacheram"
    for name in ("cacheram-zero", "cacheram-default"):
        for p, passed in enumerate(("main", "repeat")):
            write_log(repair / name / passed / "arm_on", artifact.lines(True, 1_780_000_000 + 100 * p))
    revision = artifact.root / "results-revision"
    for order in (0, 1):
        write_log(
            revision / "B2" / f"q4km_order{order}" / "arm_off",
            artifact.lines(False, 1_790_000_000, alternatives=5),
        )
    write_log(revision / "B1" / "q4km_order0" / "arm_on", artifact.lines(True, 1_790_001_000, alternatives=5))
    write_log(
        revision / "B1R" / "q4km_order0_rep" / "arm_on", artifact.lines(True, 1_790_002_000, alternatives=5)
    )
    write_log(revision / "B3" / "q4km_order0" / "arm_on", artifact.lines(True, 1_790_003_000, alternatives=5))
    write_log(revision / "B5" / "s1_recompute" / "arm_off", artifact.lines(False, 1_790_004_000))
    found = import_logs(artifact.root, tmp_path / "out")
    assert sorted(found.written) == [
        "B1-q4km_order0",
        "B1R-q4km_order0_rep",
        "B2-q4km_order0",
        "B2-q4km_order1",
        "B3-q4km_order0",
        "cacheram",
    ]
    assert len(found.passed_over) == 1
    with opened(tmp_path / "out/cacheram/multi_turn_base_0.msgpack") as trace:
        assert sorted((str(a.state), a.pass_index) for a in trace.arms) == [
            ("no-prompt-cache", 0), ("no-prompt-cache", 1), ("warm", 0), ("warm", 1),
        ]  # fmt: skip
    with opened(tmp_path / "out/B1-q4km_order0/multi_turn_base_1.msgpack") as trace:
        assert sorted((str(a.state), a.repeat) for a in trace.arms) == [
            ("cold", 0), ("cold", 1), ("no-prompt-cache", 0), ("no-prompt-cache", 1),
        ]  # fmt: skip
        assert trace.alternatives(0, 0).k == 5
    with opened(tmp_path / "out/B3-q4km_order0/multi_turn_base_1.msgpack") as trace:
        assert {a.place.carry for a in trace.arms} == {Carry.SENTINEL}


def test_a_merged_entry_leaves_no_margin_and_says_so(artifact, tmp_path: Path) -> None:
    folder = artifact.grid()
    artifact.change(
        folder / "main/arm_on/raw_requests.jsonl",
        lambda lines: lines[0]["response"]["usage"].update(completion_tokens=5),
    )
    import_logs(folder, tmp_path / "out")
    with opened(tmp_path / "out/lcpp-qwen7b-q4km/multi_turn_base_0.msgpack") as trace:
        assert (trace.path(0, 0).flags & PositionFlag.MERGED).all()
        assert not (trace.path(1, 0).flags & PositionFlag.MERGED).any()


def test_an_answer_without_logprobs_is_compared_as_one_text(artifact, tmp_path: Path) -> None:
    folder = artifact.grid()
    for name in ("main/arm_on/raw_requests.jsonl", "main/arm_off/raw_requests.jsonl"):
        artifact.change(folder / name, lambda lines: lines[0]["response"]["choices"][0].update(logprobs=None))
    import_logs(folder, tmp_path / "out")
    with opened(tmp_path / "out/lcpp-qwen7b-q4km/multi_turn_base_0.msgpack") as trace:
        assert trace.requests(0)[0].identity is Identity.TEXT
        assert len(trace.path(0, 0)) == 1


UNSORTED = [{"id": 1, "token": "a", "logprob": -2.0}, {"id": 2, "token": "b", "logprob": -1.0}]


def response(lines: list[dict[str, Any]], line: int = 1) -> dict[str, Any]:
    return lines[line]["response"]


def content(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return response(lines)["choices"][0]["logprobs"]["content"]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda ls: ls[1].update(arm="C-"), "arm C- in a folder of cache on"),
        (lambda ls: ls[1].update(backend="vllm"), "backend vllm in this folder"),
        (lambda ls: ls[1].update(backend="sglang"), "backend sglang"),
        (lambda ls: ls[1].update(request_idx=5), "where 1 is next"),
        (lambda ls: ls[1].update(request_idx=0), "where 1 is next"),
        (lambda ls: ls[1].update(prompt_sha256="xyz"), "no hexadecimal SHA-256"),
        (lambda ls: ls.append(ls[0] | {"request_idx": 2}), "created goes backwards"),
        (lambda ls: ls.append(ls[0] | {"request_idx": 2, "response": ls[3]["response"]}), "comes back"),
        (lambda ls: response(ls).update(created=1), "created goes backwards"),
        (lambda ls: response(ls)["choices"].append({"text": "x"}), "2 choices"),
        (lambda ls: response(ls)["choices"][0].update(finish_reason="abort"), "finish_reason"),
        (lambda ls: response(ls)["timings"].update(cache_n=3), "usage says 80 cached tokens and timings"),
        (lambda ls: response(ls)["usage"].update(prompt_tokens=10), "80 cached tokens of 10"),
        (lambda ls: response(ls)["usage"].update(completion_tokens=2), "4 token entries for 2"),
        (lambda ls: content(ls)[0].update(bytes=[300]), "are not bytes"),
        (lambda ls: content(ls)[0].update(bytes="x"), "bytes"),
        (lambda ls: content(ls)[0].update(id="x"), "id"),
        (lambda ls: content(ls)[0].update(top_logprobs=UNSORTED), "not sorted"),
        (lambda ls: content(ls)[0].update(top_logprobs={"a": 1}), "top_logprobs"),
        (lambda ls: ls[1].pop("prompt_sha256"), "prompt_sha256"),
        (lambda ls: ls.clear(), "holds no request"),
    ],
)  # fmt: skip
def test_a_doubtful_point_that_does_not_hold_is_refused(
    artifact, tmp_path: Path, edit: Callable[[list[dict[str, Any]]], object], why: str
) -> None:
    folder = artifact.grid()
    artifact.change(folder / "main/arm_on/raw_requests.jsonl", edit)
    with pytest.raises(UsageError) as caught:
        import_logs(folder, tmp_path / "out")
    assert why in str(caught.value)
    assert "raw_requests.jsonl" in str(caught.value)


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda r: r["choices"][0]["logprobs"].update(token_logprobs=[-0.1]), "not as long as tokens"),
        (lambda r: r["choices"][0]["logprobs"].update(text_offset=[9, 1, 2, 3]), "text_offset"),
        (lambda r: r["choices"][0]["logprobs"].update(top_logprobs=[{"a": -1.0}]), "not as long as tokens"),
        (lambda r: r["choices"][0]["logprobs"].update(content=UNSORTED), "llama.cpp's"),
    ],
)  # fmt: skip
def test_doubtful_points_of_vllm(
    artifact, tmp_path: Path, edit: Callable[[dict[str, Any]], object], why: str
) -> None:
    folder = artifact.grid("vllm-qwen7b-fp16", "vllm")
    artifact.change(folder / "main/arm_on/raw_requests.jsonl", lambda lines: edit(response(lines)))
    with pytest.raises(UsageError, match=why):
        import_logs(folder, tmp_path / "out")


def test_an_order_that_is_not_the_logs_is_refused(artifact, tmp_path: Path) -> None:
    folder = artifact.grid()
    (folder / "main/arm_on/run_meta.json").write_text(json.dumps({"order": list(artifact.EPISODES)[::-1]}))
    with pytest.raises(UsageError, match="not the order of the log"):
        import_logs(folder, tmp_path / "out")


def test_a_missing_episode_is_refused_or_left_out(artifact, tmp_path: Path) -> None:
    folder = artifact.grid()
    artifact.change(
        folder / "repeat/arm_off/raw_requests.jsonl.gz", lambda lines: lines.__delitem__(slice(2, None))
    )
    with pytest.raises(UsageError, match="--anyway leaves them out"):
        import_logs(folder, tmp_path / "out")
    assert import_logs(folder, tmp_path / "anyway", anyway=True).written == {"lcpp-qwen7b-q4km": 1}


def test_an_episode_that_raised_is_incomplete(artifact, tmp_path: Path) -> None:
    folder = artifact.grid()
    meta = {e: {"error": "TimeoutError()" if e.endswith("1") else None} for e in artifact.EPISODES}
    (folder / "main/arm_on/episode_meta.json").write_text(json.dumps(meta))
    import_logs(folder, tmp_path / "out")
    with opened(tmp_path / "out/lcpp-qwen7b-q4km/multi_turn_base_1.msgpack") as trace:
        assert analyse(trace).assessments[0].status is ArmStatus.INCOMPLETE


def test_a_summary_that_contradicts_its_log_is_refused(artifact, tmp_path: Path) -> None:
    folder = artifact.bridge()
    summary = json.loads((folder / "summary.json").read_text())
    summary[0]["texts_identical"] = False
    (folder / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(UsageError, match="disagree"):
        import_logs(folder.parent, tmp_path / "out")


def test_broken_files_are_one_sentence(artifact, tmp_path: Path) -> None:
    folder = artifact.grid()
    log = folder / "repeat/arm_on/raw_requests.jsonl.gz"
    log.write_bytes(log.read_bytes()[:-20])
    with pytest.raises(UsageError, match="cannot be read"):
        import_logs(folder, tmp_path / "out")
    log.write_bytes(b"not packed")
    with pytest.raises(UsageError, match="cannot be read"):
        import_logs(folder, tmp_path / "out2")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UsageError, match="holds no log"):
        import_logs(tmp_path / "nothing", tmp_path / "out3")
    with pytest.raises(UsageError, match="does not exist"):
        import_logs(tmp_path / "absent", tmp_path / "out4")
