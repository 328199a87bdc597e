"""``cachetrace bisect`` from end to end on the engine fake, and its tables."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from cachetrace import build_app
from replay.bisect.outcome import Agreement
from stats.bisect_findings import moved
from stats.bisect_table import bisect_report, configurations_table
from stats.renderers.json import render_json
from stats.renderers.terminal import render_terminal
from tests.replay.bisect.conftest import Openings
from tracer.errors import UsageError

ROOT = Path(__file__).parents[3]


def called(*arguments):
    return CliRunner().invoke(build_app(), ["bisect", *map(str, arguments)])


def test_the_command_prints_the_report_and_keeps_the_traces(tmp_path, talk):
    folder = tmp_path / "out"
    asked = (talk, "--engine", "fake", "--candidate", "batch=1,32", "-o", folder)
    done = called(*asked)
    assert done.exit_code == 0, done.exception
    assert "The setting to blame: batch=1 (--batch 1)" in done.stdout
    assert "Verified: a second run from a fresh start" in done.stdout
    assert "3 prompt lengths" in done.stdout
    assert "candidates: batch=1, batch=32" in done.stderr
    names = {path.name for path in folder.glob("*.msgpack")}
    assert names == {"default.msgpack", "batch=1.msgpack", "batch=32.msgpack"}

    again = called(*asked, "--json", "-q")  # every file is complete, so nothing is served
    assert again.exit_code == 0, again.exception
    assert again.stderr == ""
    check_json(json.loads(again.stdout)["tables"])


def check_json(tables):
    rows = {row["configuration"]: row for row in tables["configurations"]["rows"]}
    assert rows["batch=1"]["result"] == "agrees"
    assert rows["batch=1"]["max_drift"] == 0
    assert rows["default"]["cold_moved"] is None
    result = tables["result"]["rows"][0]
    assert result["found"] == "setting found"
    assert result["setting"] == "batch=1"
    assert result["verified"] is True
    assert result["prompt_lengths"] == 3
    cost = tables["cost"]["rows"]
    assert [row["configuration"] for row in cost][:2] == ["default, warm", "caching off (default, cold)"]
    assert all(row["prompt_tokens_s"] > 0 and row["output_tokens_s"] > 0 for row in cost)


def test_what_cannot_be_done_raises_before_anything_is_served(tmp_path, talk):
    done = called(talk, "--engine", "fake", "--candidate", "colour=red", "-o", tmp_path / "o")
    assert isinstance(done.exception, UsageError)
    assert done.exception.exit_code == 2
    assert not (tmp_path / "o").exists()
    done = called(talk, "--engine", "fake", "--priming", "magic")
    assert isinstance(done.exception, UsageError)


def test_the_help_needs_no_engine_and_no_numbers():
    code = (
        "import sys; sys.argv = ['cachetrace', 'bisect', '--help']\n"
        "import cachetrace\n"
        "try:\n    cachetrace.main()\n"
        "except SystemExit: pass\n"
        "assert not {'numpy', 'scipy', 'llama_cpp'} & set(sys.modules), 'heavy imports'"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--candidate" in done.stdout


def test_a_refusal_stands_below_its_row_and_hostile_text_is_cleaned(bisected):
    opener = Openings(refuses=lambda c: "no\x1b[31m way" if c.kv_type == "f32" else None)
    result = bisected(opener, "kv-type=f32", "threads=1", most_pairs=0)
    result = msgspec.structs.replace(result, episode_id="\x1b]0;evil\x07")
    text = render_terminal(bisect_report(result, None))
    assert "\x1b" not in text
    assert "None found: 2 single settings tried, 1 of them not taken by the engine" in text
    assert "no" in text.split("refused")[1]
    json.loads(render_json(bisect_report(result, None)))


def test_what_was_not_observed_is_a_dash(bisected):
    result = bisected(Openings(refuses=lambda c: c.threads and "no"), "threads=1", most_pairs=0)
    (_, refused) = configurations_table(result).rows
    assert result.trials[0].agreement is Agreement.REFUSED
    assert refused[2:8] == (None,) * 6
    assert moved(None) is None


@pytest.mark.parametrize("exact", [True, False])
def test_the_weaker_result_names_a_lower_drift(bisected, exact):
    opener = Openings(exact=lambda c: exact and c.threads == 1)
    result = bisected(opener, "threads=1", most_pairs=0)
    assert ("None found" in " ".join(bisect_report(result, None).summary)) is not exact
