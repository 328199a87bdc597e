"""The worker against the benchmark's own known answers, and that it repeats itself."""

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tracer.workloads.bfcl import dataset
from tracer.workloads.bfcl.worker_process import WorkerLost, WorkerProcess

pytestmark = pytest.mark.bfcl
LENIENT = [38, 139]
"""Episodes in which the checker accepts another argument: the call's result stays the same."""


def transcript_of(opening: dict[str, Any]) -> list[list[list[str]]]:
    return [[[call] for call in turn] for turn in opening["transcript"]]


def play(wheel: Path, episode_id: str) -> tuple[list[str], dict[str, Any]]:
    """Run the ground truth as if a model had written it; results of all calls, and the verdict."""
    executed: list[list[list[str]]] = []
    results: list[str] = []
    with WorkerProcess(wheel, episode_id) as worker:
        for turn in worker.opening["transcript"]:
            executed.append([])
            for call in turn:
                said = worker.step(f"[{call}]")
                assert [each["blocked"] for each in said["calls"]] == [None], call
                executed[-1].append(said["executed"])
                results += [each["result"] for each in said["calls"]]
        assert worker.refused == []
    with WorkerProcess(wheel, episode_id) as scorer:
        return results, scorer.score(executed)


def altered(turns: list[list[list[str]]]) -> list[list[list[str]]]:
    """The transcript with one call changed: the last one that has an argument to change."""
    for turn in reversed(turns):
        for step in reversed(turn):
            other = _other_call(step[0])
            if other is not None:
                step[0] = other
                return turns
    raise AssertionError("no call to change")


def _other_call(call: str) -> str | None:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    for keyword in node.keywords:
        value = keyword.value
        if isinstance(value, ast.Constant) and isinstance(value.value, bool):
            keyword.value = ast.Constant(not value.value)
        elif isinstance(value, ast.Constant) and isinstance(value.value, str):
            keyword.value = ast.Constant(value.value + "_altered")
        elif isinstance(value, ast.Constant) and isinstance(value.value, int | float):
            keyword.value = ast.Constant(-value.value - 1)
        elif isinstance(value, ast.List):
            keyword.value = ast.List([ast.Constant("altered")])
        else:
            continue
        return ast.unparse(node)
    return None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ground_truth_of_all_200_is_valid_and_all_but_2_are_rejected_with_one_call_altered(
    wheel: Path,
) -> None:
    def both(entry: dataset.Entry) -> tuple[int, bool, bool]:
        _, verdict = play(wheel, entry.episode_id)
        with WorkerProcess(wheel, entry.episode_id) as worker:
            wrong = worker.score(altered(transcript_of(worker.opening)))
        return entry.number, verdict["valid"], wrong["valid"]

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(both, dataset.read_entries(wheel)))
    assert len(found) == 200
    assert [number for number, valid, _ in found if not valid] == []
    assert [number for number, _, valid in found if valid] == LENIENT


def test_the_first_twelve_episodes_are_valid(wheel: Path) -> None:
    for number in range(12):
        assert play(wheel, f"multi_turn_base_{number}")[1] == {"valid": True, "error_type": None}


def test_an_altered_call_is_rejected_and_a_lenient_one_is_not(wheel: Path) -> None:
    for number, valid in ((0, False), (1, False), (38, True), (139, True)):
        with WorkerProcess(wheel, f"multi_turn_base_{number}") as worker:
            assert worker.score(altered(transcript_of(worker.opening)))["valid"] is valid


def test_an_episode_repeats_itself_in_any_order_in_parallel_and_after_another(wheel: Path) -> None:
    ids = ["multi_turn_base_3", "multi_turn_base_50", "multi_turn_base_120", "multi_turn_base_160"]
    forwards = {episode_id: play(wheel, episode_id) for episode_id in ids}
    backwards = {episode_id: play(wheel, episode_id) for episode_id in reversed(ids)}
    with ThreadPoolExecutor(4) as pool:
        parallel = dict(
            zip(ids * 2, pool.map(lambda episode_id: play(wheel, episode_id), ids * 2), strict=True)
        )
    assert forwards == backwards == parallel


def test_fewer_turns_than_the_benchmark_asks_for_are_force_terminated(wheel: Path) -> None:
    with WorkerProcess(wheel, "multi_turn_base_0") as worker:
        turns = transcript_of(worker.opening)
        assert worker.score(turns[:-1]) == {"valid": False, "error_type": "multi_turn:force_terminated"}


def test_a_turn_without_calls_has_the_official_error_type(wheel: Path) -> None:
    with WorkerProcess(wheel, "multi_turn_base_0") as worker:
        turns = transcript_of(worker.opening)
        verdict = worker.score([[[]], *turns[1:]])
    assert verdict == {"valid": False, "error_type": "multi_turn:empty_turn_model_response"}


def test_a_worker_scores_once(wheel: Path) -> None:
    with WorkerProcess(wheel, "multi_turn_base_0") as worker:
        turns = transcript_of(worker.opening)
        worker.score(turns)
        with pytest.raises(WorkerLost, match="scores once"):
            worker.score(turns)


def test_an_unknown_episode_is_one_sentence(wheel: Path) -> None:
    with pytest.raises(WorkerLost, match="multi_turn_base_999"):
        WorkerProcess(wheel, "multi_turn_base_999")


def test_the_folder_of_a_worker_is_removed(wheel: Path) -> None:
    worker = WorkerProcess(wheel, "multi_turn_base_0")
    folder = Path(worker._folder.name)
    assert folder.is_dir()
    worker.close()
    assert not folder.exists()


def test_positional_arguments_are_left_to_the_official_decoder(wheel: Path) -> None:
    with WorkerProcess(wheel, "multi_turn_base_0") as worker:
        said = worker.step("[sort('final_report.pdf')]")
    assert said["executed"] == ["sort()"]
    assert "missing" in said["calls"][0]["result"]


def test_what_goes_back_is_the_official_repr(wheel: Path) -> None:
    with WorkerProcess(wheel, "multi_turn_base_0") as worker:
        said = worker.step("[cd(folder='document')]")
    assert ast.literal_eval(said["message"]) == [
        {
            "role": "tool",
            "name": "cd(folder='document')",
            "content": '{"current_working_directory": "document"}',
        }
    ]


def test_the_entries_sort_by_number(wheel: Path) -> None:
    entries = dataset.read_entries(wheel)
    assert [entry.number for entry in entries] == list(range(200))
    cpu8 = dataset.file_system_episodes(entries)[: dataset.CPU8_EPISODES]
    assert [entry.number for entry in cpu8] == [1, 3, 6, 9, 10, 12, 16, 25]
    steps = [sum(len(turn) + 1 for turn in entry.ground_truth) for entry in entries[:80]]
    assert sum(steps) / 80 == pytest.approx(9.3, abs=0.05)  # requests per episode of the transcript
