"""The report over synthetic traces whose verdicts are known."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from stats.report.build import Built, build_report
from stats.report.collect import CollectOptions, collect
from stats.report.sources import trace_files
from stats.tables.table import Table
from tests.synthetic import ArmSpec, write_trace
from tracer.errors import TraceFormatError, UsageError
from tracer.tracefile import TraceReader
from tracer.tracefile.frames import Kind

ROOT = Path(__file__).resolve().parents[3]
WARM = {"state": "warm", "drift": 1e-3}


def study(folder: Path, episodes: int = 6, **changes: object) -> None:
    """Cold and warm, each twice; every second episode flips at request 2, token 5."""
    for i in range(episodes):
        flips = {2: 5} if i % 2 else {}
        write_trace(
            folder / f"e{i:02}.msgpack",
            episode_id=f"episode-{i}",
            seed=i,
            run_position=i,
            arms=[
                ArmSpec(),
                ArmSpec(repeat=1),
                ArmSpec(**WARM, flips=flips),  # type: ignore[arg-type]
                ArmSpec(**WARM, flips=flips, repeat=1),  # type: ignore[arg-type]
            ],
            **changes,  # type: ignore[arg-type]
        )


def built(folder: Path) -> Built:
    return build_report(collect(trace_files([folder]), CollectOptions()))


def table(report: Built, name: str) -> Table:
    return next(t for t in report.report.tables if t.name == name)


def rows(found: Table) -> list[dict[str, object]]:
    return [dict(zip([c.key for c in found.columns], row, strict=True)) for row in found.rows]


def test_rates_stand_beside_both_controls(tmp_path: Path) -> None:
    study(tmp_path)
    (rate,) = rows(table(built(tmp_path), "rates"))
    assert (rate["episodes"], rate["differ"], rate["rate"]) == (6, 3, 0.5)
    assert (rate["baseline_against_itself"], rate["arm_against_itself"]) == (0, 0)
    assert rate["attributable"] == 3
    assert (rate["kept"], rate["control"], rate["evidence"]) == ("emptied", "repeats", "counted")


def test_verdicts_and_flips_are_those_that_were_built_in(tmp_path: Path) -> None:
    study(tmp_path)
    report = built(tmp_path)
    cross = next(r for r in rows(table(report, "verdicts")) if r["kind"] == "cross-arm")
    # Each episode is compared twice (repeat with repeat): 4 requests, the first without exposure.
    assert cross["requests"] == 48
    assert cross["flipped"] == 6
    flips = rows(table(report, "flips"))
    assert [(f["episode"], f["request"], f["token"]) for f in flips] == [
        (f"episode-{i}", 2, 5) for i in (1, 3, 5)
    ]
    assert all(f["baseline_margin"] == pytest.approx(0.01, rel=0.05) for f in flips)
    assert all(f["alike"] == 2 for f in flips)
    assert all("led by" in str(f["sentence"]) for f in flips)


def test_an_arm_without_repeat_gives_no_rate(tmp_path: Path) -> None:
    write_trace(tmp_path / "a.msgpack", arms=[ArmSpec(), ArmSpec(**WARM)])  # type: ignore[arg-type]
    report = built(tmp_path)
    assert table(report, "rates").rows == ()
    (why,) = rows(table(report, "pairs_not_counted"))
    assert "was not repeated" in str(why["reason"])
    assert any("No rate can be given" in sentence for sentence in report.report.summary)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cached": 0}, "state not as claimed"),
        ({"source": "not-observed"}, "not known"),
        ({"source": "declared"}, "declared"),
        ({"complete": False}, "incomplete"),
        ({"temperature": 0.7}, "not greedy"),
        ({"requests": 2}, "incomplete"),
    ],
    ids=["unverified", "not observed", "declared", "interrupted", "not greedy", "cut off"],
)
def test_arms_that_may_not_count_are_named_and_give_nothing(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    write_trace(
        tmp_path / "a.msgpack",
        arms=[
            ArmSpec(),
            ArmSpec(repeat=1),
            ArmSpec(**WARM, flips={1: 3}, **change),  # type: ignore[arg-type]
            ArmSpec(**WARM, flips={1: 3}, repeat=1, **change),  # type: ignore[arg-type]
        ],
    )
    report = built(tmp_path)
    assert table(report, "rates").rows == ()
    named = rows(table(report, "not_counted"))
    assert {str(n["arm"]) for n in named} == {"warm", "warm#1"}
    assert all(reason in str(n["reason"]) for n in named)


def test_a_vacuous_arm_is_named(tmp_path: Path) -> None:
    write_trace(
        tmp_path / "a.msgpack",
        requests=1,
        arms=[ArmSpec(), ArmSpec(repeat=1), ArmSpec(state="warm"), ArmSpec(state="warm", repeat=1)],
    )
    report = built(tmp_path)
    assert table(report, "rates").rows == ()
    assert {str(n["reason"]).split(":")[0] for n in rows(table(report, "not_counted"))} == {"vacuous"}


def test_declared_arms_are_printed_apart_and_labelled(tmp_path: Path) -> None:
    warm = {**WARM, "flips": {1: 3}, "source": "declared"}
    cold = {"source": "declared"}
    write_trace(
        tmp_path / "a.msgpack",
        arms=[
            ArmSpec(**cold),  # type: ignore[arg-type]
            ArmSpec(**cold, repeat=1),  # type: ignore[arg-type]
            ArmSpec(**warm),  # type: ignore[arg-type]
            ArmSpec(**warm, repeat=1),  # type: ignore[arg-type]
        ],
    )
    report = built(tmp_path)
    assert table(report, "rates").rows == ()
    declared = table(report, "declared")
    (row,) = rows(declared)
    assert (row["episodes"], row["differ"], row["evidence"]) == (1, 1, "declared")
    assert "not observed" in declared.title


@pytest.mark.parametrize(("kind", "counted"), [(Kind.PATH, 1), (Kind.ALTERNATIVES, 2)])
def test_a_damaged_path_keeps_its_arm_from_counting(tmp_path: Path, kind: Kind, counted: int) -> None:
    """Without its tokens a request would look flipped; without its alternatives only drift is lost."""
    study(tmp_path, episodes=2)
    file = tmp_path / "e00.msgpack"
    with TraceReader.open(file) as trace:
        frame = trace._index.arm(2).frames[1][kind]
    raw = bytearray(file.read_bytes())
    raw[frame.payload_offset + frame.payload_bytes // 2] ^= 0x5A
    file.write_bytes(raw)
    report = built(tmp_path)
    assert sum(int(str(r["episodes"])) for r in rows(table(report, "rates"))) == counted
    if counted < 2:
        reasons = " ".join(str(n["reason"]) for n in rows(table(report, "not_counted")))
        assert "damaged" in reasons


def test_one_unreadable_file_among_many_is_listed(tmp_path: Path) -> None:
    study(tmp_path, episodes=2)
    (tmp_path / "junk.msgpack").write_bytes(b"no trace at all")
    report = built(tmp_path)
    assert any("unreadable" in str(n["reason"]) for n in rows(table(report, "not_counted")))
    with pytest.raises(TraceFormatError):
        built(tmp_path / "junk.msgpack")


def test_paths_that_hold_nothing_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no"):
        trace_files([tmp_path])
    with pytest.raises(UsageError, match="does not exist"):
        trace_files([tmp_path / "absent"])


def test_the_same_episode_twice_counts_once_in_a_rate(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    study(tmp_path / "first", episodes=3)
    study(tmp_path / "second", episodes=3, run_id="run-1", created_at=1_770_000_000.0)
    found = rows(table(built(tmp_path), "rates"))
    assert [(r["episodes"], r["pair"]) for r in found] == [
        (3, "cold vs warm"),
        (3, "cold vs warm (run 1)"),
    ]


def test_two_configurations_with_one_name_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "four").mkdir()
    study(tmp_path / "two", episodes=2)
    study(tmp_path / "four", episodes=2, engine={"threads": 4})
    names = {str(r["configuration"]) for r in rows(table(built(tmp_path), "rates"))}
    assert names == {"fake 1 · synthetic · Q4_1 · threads 2", "fake 1 · synthetic · Q4_1 · threads 4"}


def test_several_processes_give_what_one_gives(tmp_path: Path) -> None:
    study(tmp_path, episodes=5)
    (tmp_path / "junk.msgpack").write_bytes(b"no trace")
    from stats.report.shared_out import collect_shared_out

    files = trace_files([tmp_path])
    assert collect_shared_out(files, CollectOptions(), 2) == collect(files, CollectOptions(), workers=1)


def command(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "cachetrace.py"), "report", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,  # type: ignore[call-overload]
    )


def test_the_command_writes_data_to_stdout_and_ends_as_its_gates_say(tmp_path: Path) -> None:
    study(tmp_path)
    passed = command(str(tmp_path), "-f", "json", "--gate", "within-arm==0")
    assert (passed.returncode, passed.stderr) == (0, "")
    assert json.loads(passed.stdout)["tables"]["gates"]["rows"][0]["holds"] is True
    junit = tmp_path / "gates.xml"
    failed = command(str(tmp_path), "-f", "csv", "--gate", "cross-arm<=0.1", "--junit", str(junit))
    assert failed.returncode == 1
    assert failed.stderr.startswith("cachetrace: The gate 'cross-arm<=0.1' does not hold")
    assert next(csv.reader(io.StringIO(failed.stdout)))[0] == "table"
    assert '<failure message="3 of 6 episodes differ' in junit.read_text()
    empty = command(str(tmp_path), "--gate", "cold-vs-snapshot<=0.1")
    assert empty.returncode == 2
    assert "cannot be computed" in empty.stderr


def test_a_report_on_one_trace_imports_nothing_heavy(tmp_path: Path) -> None:
    study(tmp_path, episodes=1)
    script = (
        "import sys; sys.argv = ['cachetrace', 'report', sys.argv[1]]\n"
        "import cachetrace\n"
        "try:\n    cachetrace.main()\n"
        "except SystemExit as stop:\n    assert not stop.code, stop.code\n"
        "heavy = ('scipy.stats', 'textual', 'llama_cpp', 'matplotlib', 'httpx')\n"
        "print([m for m in heavy if m in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "e00.msgpack")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    assert done.stderr.strip() == "[]"


def test_the_bug_report_has_all_that_a_maintainer_asks(tmp_path: Path) -> None:
    study(tmp_path)
    done = command(str(tmp_path), "--issue")
    assert done.returncode == 0
    for heading in (
        "### What happens",
        "### The flip",
        "### Environment",
        "### Measured",
        "### How to repeat it",
    ):
        assert heading in done.stdout
    assert "led by 0.01 when cold" in done.stdout.replace("\\", "")
    assert "temperature 0, seed 42" in done.stdout
    assert "cachetrace report" in done.stdout


def test_one_trace_leads_with_its_requests_and_flips(tmp_path: Path) -> None:
    warm = ArmSpec(**WARM, flips={2: 5})  # type: ignore[arg-type]
    again = ArmSpec(**WARM, flips={2: 5}, repeat=1)  # type: ignore[arg-type]
    write_trace(tmp_path / "one.msgpack", arms=[ArmSpec(), ArmSpec(repeat=1), warm, again])
    report = built(tmp_path)
    assert [t.name for t in report.report.tables][:4] == ["requests", "flips", "verdicts", "rates"]
    found = rows(table(report, "requests"))
    assert [(r["request"], r["verdict"], r["token"], r["repeats"]) for r in found] == [
        (0, "identical", None, 2),
        (1, "drifted", None, 2),
        (2, "flipped", 5, 2),
        (3, "drifted", None, 2),
    ]
    assert all(r["pair"] == "cold vs warm" for r in found)


def test_the_mechanism_is_worked_out_by_itself_only_over_several_traces(tmp_path: Path) -> None:
    study(tmp_path, episodes=2)

    def printed(*arguments: str) -> str:
        command = [sys.executable, str(ROOT / "cachetrace.py"), "report", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    title = "Flip rate by recompute margin"
    assert title in printed(str(tmp_path))
    assert title not in printed(str(tmp_path / "e01.msgpack"))
    assert title in printed(str(tmp_path / "e01.msgpack"), "--mechanism")
