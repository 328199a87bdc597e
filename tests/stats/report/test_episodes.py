"""How episodes went, from outcomes whose content is known; and what is said when nothing was solved."""

from pathlib import Path
from typing import Any

import pytest

from stats.renderers.choose import render
from stats.report.build import Built, build_report
from stats.report.collect import CollectOptions, collect
from stats.report.sources import trace_files
from tests.synthetic import ArmSpec, write_trace
from tracer.episode import RequestError, WorkloadSpec

TOO_LONG = RequestError(kind="PromptTooLong", message="9000 prompt tokens do not fit")
FORMATS = ("table", "md", "csv", "json", "latex", "html")


def built(folder: Path) -> Built:
    return build_report(collect(trace_files([folder]), CollectOptions()))


def rows(report: Built, name: str) -> list[dict[str, Any]]:
    table = next(t for t in report.report.tables if t.name == name)
    return [dict(zip([c.key for c in table.columns], row, strict=True)) for row in table.rows]


def notes(report: Built, name: str) -> str:
    return " ".join(next(t for t in report.report.tables if t.name == name).notes)


def episode(folder: Path, number: int, *arms: ArmSpec, requests: int = 4, **options: Any) -> None:
    write_trace(
        folder / f"{number}.msgpack",
        seed=number,
        requests=requests,
        tokens=8,
        episode_id=f"e{number}",
        arms=arms,
        **options,
    )


def details(decoded: int, **more: Any) -> dict[str, Any]:
    return {"steps": 0, "decoded_steps": decoded, "blocked_calls": 1, **more}


def test_steps_decoded_calls_and_endings(tmp_path: Path) -> None:
    lost = {"ended": "worker lost: it took too long", "score": 0.0}
    limit = {"ended": "force_terminated", "score": 0.0}
    refused = {"refused_by_sandbox": ["open /etc/passwd", "socket"]}
    episode(tmp_path, 0, ArmSpec(score=1.0, details=details(3)), requests=4)
    episode(tmp_path, 1, ArmSpec(**limit, details=details(5, **refused)), requests=6)
    episode(tmp_path, 2, ArmSpec(**lost, details=details(0)), requests=2)
    episode(tmp_path, 3, ArmSpec(error=TOO_LONG), requests=3)
    (row,) = rows(built(tmp_path), "episodes")
    assert (row["arm"], row["episodes"], row["may_count"]) == ("cold", 4, 3)
    assert (row["median_steps"], row["fewest_steps"], row["most_steps"]) == (4, 2, 6)
    assert (row["decoded_steps"], row["steps"]) == (8, 12)
    assert row["decode_rate"] == pytest.approx(8 / 12)
    assert row["decode_interval"].low < 8 / 12 < row["decode_interval"].high
    assert (row["blocked_calls"], row["refused_by_sandbox"]) == (3, 2)
    assert (row["scored"], row["solved"]) == (3, 1)
    assert row["completed"] == row["force_terminated"] == row["worker_lost"] == row["context_exceeded"] == 1
    assert row["ended_otherwise"] == 0


def test_an_arm_without_any_outcome_has_no_row_of_its_failures(tmp_path: Path) -> None:
    """A replay of fixed prompts has no outcome when it completes: only the failed one would be counted."""
    recorded = ArmSpec(score=1.0, details=details(3))
    for number in range(3):
        error = {"error": TOO_LONG} if number == 2 else {}
        episode(tmp_path, number, recorded, ArmSpec(state="warm", way="fixed", **error))
    assert [row["arm"] for row in rows(built(tmp_path), "episodes")] == ["cold"]


def test_an_arm_that_was_not_verified_gives_no_rate(tmp_path: Path) -> None:
    """Its endings are counted; its steps, calls and scores are not."""
    for source in ("not-observed", "declared"):
        folder = tmp_path / source
        folder.mkdir()
        episode(folder, 0, ArmSpec(state="warm", source=source, score=1.0, details=details(3)))
        (row,) = rows(built(folder), "episodes")
        assert (row["episodes"], row["may_count"], row["completed"]) == (1, 0, 1)
        names = {"configuration", "workload", "prompts", "arm", "kept"}
        known = names | {"episodes", "completed"}
        assert {key for key, cell in row.items() if cell is not None and cell != 0} == known


def test_repeats_of_an_episode_are_counted_once(tmp_path: Path) -> None:
    first, again = ArmSpec(score=1.0, details=details(3)), ArmSpec(repeat=1, score=1.0, details=details(3))
    warm = ArmSpec(state="warm", drift=1e-3, score=0.0, details=details(2))
    episode(tmp_path, 0, again, first, warm)
    cold, cached = rows(built(tmp_path), "episodes")
    assert (cold["arm"], cold["episodes"], cold["decoded_steps"], cold["solved"]) == ("cold", 1, 3, 1)
    assert (cached["arm"], cached["episodes"], cached["decoded_steps"], cached["solved"]) == ("warm", 1, 2, 0)


def test_a_transcript_is_named_and_not_scored(tmp_path: Path) -> None:
    oracle = WorkloadSpec(name="any", agent="oracle")
    like = ArmSpec(details={"steps": 4, "steps_like_oracle": 1, "not_scored": "only a part was asked"})
    episode(tmp_path, 0, like, workload=oracle)
    report = built(tmp_path)
    (row,) = rows(report, "episodes")
    assert row["prompts"] == "the transcript (teacher-forced)"
    assert (row["steps_like_oracle"], row["scored"], row["solved"]) == (1, 0, None)
    assert row["decode_rate"] is row["decode_interval"] is None
    assert "Teacher-forced" in notes(report, "episodes")
    assert "Not scored, 1 of 1: only a part was asked." in notes(report, "episodes")
    assert "Decode rate" not in notes(report, "episodes")


def test_a_lost_decoder_leaves_the_episode_out_of_the_decode_rate(tmp_path: Path) -> None:
    episode(tmp_path, 0, ArmSpec(details=details(3)))
    episode(tmp_path, 1, ArmSpec(details=details(1, decoder_lost="an endless expression")))
    (row,) = rows(built(tmp_path), "episodes")
    assert (row["episodes"], row["decoded_steps"], row["steps"]) == (2, 3, 4)


@pytest.mark.parametrize("absurd", [-1, 5, True, 1.5, "3", None, [3], {"n": 3}])
def test_counts_that_cannot_be_were_not_observed(tmp_path: Path, absurd: object) -> None:
    """Of 4 steps not 5, nor −1, can have been decoded."""
    odd = {"isolation": absurd, "refused_by_sandbox": absurd, "not_scored": absurd}
    said = details(0, **odd) | {"decoded_steps": absurd, "steps_like_oracle": absurd}
    episode(tmp_path, 0, ArmSpec(score=1.0, details=said))
    report = built(tmp_path)
    (row,) = rows(report, "episodes")
    assert row["decoded_steps"] is row["decode_rate"] is row["steps_like_oracle"] is None
    assert all(render(report, name) for name in FORMATS)


def test_outcomes_that_say_nothing_of_their_way_make_no_table(tmp_path: Path) -> None:
    episode(tmp_path, 0, ArmSpec(details={"item": 7}), ArmSpec(state="warm"))
    assert "episodes" not in {table.name for table in built(tmp_path).report.tables}


def arms(cold: float, warm: float) -> tuple[ArmSpec, ...]:
    cached = {"state": "warm", "drift": 1e-3, "score": warm}
    return ArmSpec(score=cold), ArmSpec(score=cold, repeat=1), ArmSpec(**cached), ArmSpec(**cached, repeat=1)


FLIP_FIGURES = (
    "baseline_only",
    "arm_only",
    "difference",
    "difference_interval",
    "discordant",
    "mcnemar_p",
    "power_one_point",
    "detectable",
)


def test_no_rate_of_outcome_flips_where_nothing_was_solved(tmp_path: Path) -> None:
    for number in range(3):
        episode(tmp_path, number, *arms(0.0, 0.0))
    report = built(tmp_path)
    (row,) = rows(report, "outcomes")
    assert (row["episodes"], row["baseline_solved"], row["arm_solved"]) == (3, 0, 0)
    assert [row[figure] for figure in FLIP_FIGURES] == [None] * len(FLIP_FIGURES)
    assert "nothing was solved in any arm, so no rate of outcome flips is given" in notes(report, "outcomes")
    text = render(report, "table", 400)
    assert not [word for word in ("discordant", "McNemar", "power") if word in text]


def test_a_rate_of_outcome_flips_where_one_was_solved(tmp_path: Path) -> None:
    """The counterpart: the same table has every figure as soon as one arm solved one episode."""
    for number in range(3):
        episode(tmp_path, number, *arms(0.0, float(number == 0)))
    (row,) = rows(built(tmp_path), "outcomes")
    assert (row["baseline_only"], row["arm_only"], row["discordant"]) == (0, 1, pytest.approx(1 / 3))
    assert row["difference_interval"] is not None
    assert "discordant" in render(built(tmp_path), "table", 400)


def test_what_a_task_says_of_itself_leads_the_report(tmp_path: Path) -> None:
    """For instance the eight episodes that a CPU can serve: never the paper's figure."""
    note = "8 episodes, teacher-forced: a subset, not the paper's figure"
    for number in range(2):
        episode(tmp_path, number, ArmSpec(), workload=WorkloadSpec(name="bfcl", params={"note": note}))
    report = built(tmp_path)
    assert [said for said in report.report.summary if "subset" in said] == [f"bfcl: {note}."]
    assert report.report.disclosure is not None
    assert note in {row[-1] for row in report.report.disclosure.rows}


def test_how_the_tools_were_kept_apart_is_disclosed(tmp_path: Path) -> None:
    apart = {"network": "not separated", "sockets": "refused"}
    episode(tmp_path, 0, ArmSpec(details=details(1, isolation=apart)))
    disclosure = built(tmp_path).report.disclosure
    assert disclosure is not None
    assert ("isolation of tools", "network: not separated, sockets: refused") in [
        row[1:] for row in disclosure.rows
    ]
