"""The bug report of one flip: complete, quoted for shells, and safe as Markdown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from replay.divergence import analyse
from replay.flip_report import flip_report, repeat_commands
from tests.synthetic import ArmSpec, write_trace
from tracer.tracefile import TraceReader

ARMS = [ArmSpec(), ArmSpec(state="cold", repeat=1), ArmSpec(state="warm", drift=1e-2, flips={1: 4})]


def reported(path: Path, **options: object) -> tuple[str, tuple[str, ...]]:
    write_trace(path, requests=3, tokens=16, arms=ARMS, **options)
    with TraceReader.open(path) as trace:
        comparison = next(c for c in analyse(trace).comparisons if c.first_flip is not None)
        verdict = comparison.first_flip
        a, b = comparison.baseline, comparison.arm
        text = flip_report(trace, path, a, b, verdict)
        return text, repeat_commands(path, trace.arms[a], trace.arms[b], verdict)


def test_what_a_maintainer_asks_for_is_in_it(tmp_path) -> None:
    text, commands = reported(tmp_path / "trace.msgpack")
    assert text.startswith("## Token 4 of request 1 flips between `recording` and `warm`")
    for wanted in (
        "margin in `recording`: 0.01",
        "triage:",
        "evidence: row",
        "exposure of `warm`:",
        "| token | id | `recording` | `warm` |",
        "model_hash: `sha256:",
        "temperature 0.0, seed 42",
        "later requests changed",
    ):
        assert wanted in text, wanted
    for command in commands:
        assert command in text
    assert shlex.split(commands[1])[-8:] == [
        "--request",
        "1",
        "--token",
        "4",
        "--arm",
        "2",
        "--baseline",
        "0",
    ]
    assert shlex.split(commands[0])[:3] == ["cachetrace", "replay", str(tmp_path / "trace.msgpack")]


def test_a_file_name_cannot_leave_its_quotes(tmp_path) -> None:
    folder = tmp_path / "a b'; touch x; '"
    folder.mkdir()
    path = folder / "$(id)`id````.msgpack"
    text, commands = reported(path)
    assert shlex.split(commands[0])[2] == str(path)
    fence = re.search(r"^(`{3,})sh$", text, re.MULTILINE)
    assert fence is not None
    assert all(fence[1] not in command for command in commands)


def test_hostile_tokens_and_names_stay_text(tmp_path) -> None:
    text, _ = reported(tmp_path / "trace.msgpack", hostile_pieces=True, episode_id="](javascript:1)")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b-\u200f]", text)
    assert "<script>" not in re.sub(r"(`+)[^`].*?\1", "", text), "outside of code spans"
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 5 for line in table), "no cell breaks out of its row"


def test_without_numbers_no_number_is_written(tmp_path) -> None:
    path = tmp_path / "trace.msgpack"
    arms = [ArmSpec(observe="tokens"), ArmSpec(state="warm", observe="tokens", flips={1: 4})]
    write_trace(path, requests=3, tokens=16, arms=arms)
    with TraceReader.open(path) as trace:
        comparison = next(c for c in analyse(trace).comparisons if c.first_flip is not None)
        text = flip_report(trace, path, comparison.baseline, comparison.arm, comparison.first_flip)
    assert "margin in `recording`: –" in text
    assert "drift at the flip: –" in text
    assert "No alternatives were observed." in text
