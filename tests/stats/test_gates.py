"""The grammar of gates, and that nothing computable is never a pass."""

from pathlib import Path

import pytest

from stats.gates import conclude, parse_gate
from stats.renderers.junit import render_junit
from stats.report.build import build_report, with_gates
from stats.report.collect import CollectOptions, collect
from stats.report.sources import trace_files
from tests.synthetic import ArmSpec, write_trace
from tracer.episode import CacheState
from tracer.errors import GateFailed, NothingToCompute, UsageError


@pytest.mark.parametrize(
    ("text", "pair", "unit", "upper", "op", "limit"),
    [
        ("within-arm==0", "within-arm", "episodes", False, "==", 0.0),
        ("cross-arm.upper<=0.05", "cross-arm", "episodes", True, "<=", 0.05),
        ("cross-arm.requests < 5%", "cross-arm", "requests", False, "<", 0.05),
        ("cold-vs-warm.requests.upper<=.1", "cold-vs-warm", "requests", True, "<=", 0.1),
        ("warm-vs-no-prompt-cache.episodes >= 20 %", "warm-vs-no-prompt-cache", "episodes", False, ">=", 0.2),
    ],
)
def test_what_the_grammar_accepts(
    text: str, pair: str, unit: str, upper: bool, op: str, limit: float
) -> None:
    gate = parse_gate(text)
    assert (gate.pair, gate.unit, gate.upper, gate.comparison) == (pair, unit, upper, op)
    assert gate.limit == pytest.approx(limit)


@pytest.mark.parametrize(
    "text",
    ["", "cross-arm", "cross-arm<=", "cross<=0.1", "cold-vs-hot<=0.1", "cross-arm.upper.requests<=1", "x<=1",
     "cross-arm<=5", "cross-arm<=-1", "cross-arm<=0.1; rm", "cross-arm.tokens<=0.1", "cross-arm<=nan"],
)  # fmt: skip
def test_what_it_refuses(text: str) -> None:
    with pytest.raises(UsageError):
        parse_gate(text)


def judged(folder: Path, *texts: str, **changes: object) -> tuple[list, tuple]:  # type: ignore[type-arg]
    for i in range(12):
        flips = {1: 3} if i == 0 else {}
        warm = {"state": "warm", "drift": 1e-3, "flips": flips, **changes}
        write_trace(
            folder / f"{i:02}.msgpack",
            episode_id=f"e{i}",
            seed=i,
            requests=3,
            tokens=12,
            arms=[ArmSpec(), ArmSpec(repeat=1), ArmSpec(**warm), ArmSpec(**warm, repeat=1)],  # type: ignore[arg-type]
        )
    gates = [parse_gate(text) for text in texts]
    pairs = tuple(g.states for g in gates if g.states is not None)
    built = build_report(collect(trace_files([folder]), CollectOptions(state_pairs=pairs)))
    return gates, with_gates(built, gates)[1]


def test_rates_by_episode_and_by_request(tmp_path: Path) -> None:
    gates, results = judged(tmp_path, "cross-arm<=0.1", "cold-vs-warm.requests<=0.03", "cross-arm.upper<=0.1")
    by_text = {r.gate.text: r for r in results}
    episodes = by_text["cross-arm<=0.1"]
    assert (episodes.events, episodes.n, episodes.holds) == (1, 12, True)
    requests = by_text["cold-vs-warm.requests<=0.03"]
    assert (requests.events, requests.n, requests.holds) == (1, 36, True)
    assert requests.interval is not None
    assert requests.interval.high > 1 / 36
    upper = by_text["cross-arm.upper<=0.1"]
    assert upper.value == pytest.approx(0.3539, abs=1e-3)
    with pytest.raises(GateFailed, match="does not hold"):
        conclude(gates, results)


def test_an_arm_against_itself_by_state(tmp_path: Path) -> None:
    gates, results = judged(tmp_path, "within-arm==0", "warm-vs-warm==0")
    assert {r.series.split(": ")[1] for r in results} == {
        "cold vs itself (repeats)",
        "warm vs itself (repeats)",
    }
    assert [r.holds for r in results] == [True, True, True]
    conclude(gates, results)


@pytest.mark.parametrize(
    "change", [{"source": "declared"}, {"cached": 0}, {"complete": False}, {"temperature": 1.0}]
)
def test_arms_that_do_not_count_never_pass_a_gate(tmp_path: Path, change: dict[str, object]) -> None:
    gates, results = judged(tmp_path, "cross-arm<=1", "within-arm==0", **change)
    assert all(r.gate.pair == "within-arm" and "cold" in r.series for r in results)
    with pytest.raises(NothingToCompute, match="cannot be computed"):
        conclude(gates, results)
    xml = render_junit(gates, results)
    assert 'errors="1"' in xml
    assert "<error message=" in xml


def test_nothing_computable_weighs_more_than_a_failure(tmp_path: Path) -> None:
    gates, results = judged(tmp_path, "cross-arm<=0", "cold-vs-snapshot<=1")
    with pytest.raises(NothingToCompute):
        conclude(gates, results)
    assert gates[1].states == (CacheState.COLD, CacheState.SNAPSHOT)


def test_a_cold_recording_and_its_replay_are_one_series(tmp_path: Path) -> None:
    """The recording is a repeat of the cold replay: asking for the pair by states must not double it."""
    warm = {"state": "warm", "drift": 1e-3}
    write_trace(
        tmp_path / "a.msgpack",
        arms=[ArmSpec(), ArmSpec(state="cold"), ArmSpec(**warm), ArmSpec(**warm, repeat=1)],  # type: ignore[arg-type]
    )
    options = CollectOptions(state_pairs=((CacheState.COLD, CacheState.WARM),))
    built = build_report(collect(trace_files([tmp_path]), options))
    assert [one.key.run for one in built.series] == [0]
    assert len(with_gates(built, [parse_gate("cold-vs-warm<=1")])[1]) == 1
