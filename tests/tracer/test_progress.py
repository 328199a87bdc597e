"""What the person who waits sees: a bar, plain lines, or nothing."""

import io

import pytest

from tracer.progress import PlainLines, Silent, TerminalBar, progress_for, time_left


def serve(progress, planned=3):
    progress.arm_started("warm#1", planned)
    for index in range(3):
        progress.request_started(index, 100)
        progress.prompt_progress(50, 100)
        progress.request_ended(index, 99 if index else None, 7)
    progress.arm_ended("warm#1", "3 requests")


def test_plain_lines():
    out = io.StringIO()
    serve(PlainLines(out))
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("warm#1: request 0 of 3: – of 100 prompt tokens cached, 7 new")
    assert lines[2] == "warm#1: request 2 of 3: 99 of 100 prompt tokens cached, 7 new"
    assert lines[3].startswith("warm#1: 3 requests (")


def test_an_unknown_number_of_requests_gives_no_estimate():
    out = io.StringIO()
    serve(PlainLines(out), planned=None)
    assert "left" not in out.getvalue()
    assert " of None" not in out.getvalue()


def test_a_bar_is_redrawn_on_one_line_and_gives_way_to_notes():
    out = io.StringIO()
    bar = TerminalBar(out)
    serve(bar)
    drawn, _, last = out.getvalue().rpartition("\r")
    assert "\n" not in drawn
    assert "████████" in drawn
    assert last.endswith("s)\n")


def test_a_bar_never_wraps(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    out = io.StringIO()
    bar = TerminalBar(out)
    bar.arm_started("no-prompt-cache/lockstep/forced#1", 6)
    bar.request_started(0, 100)
    bar.request_ended(0, 0, 48)
    assert max(len(line) for line in out.getvalue().split("\r")) == 39


def test_quiet_is_silent(capsys):
    serve(progress_for(quiet=True))
    assert isinstance(progress_for(quiet=True), Silent)
    assert capsys.readouterr().err == ""
    assert type(progress_for(quiet=False)) is PlainLines  # under pytest stderr is no terminal


@pytest.mark.parametrize(
    ("done", "planned", "elapsed", "text"),
    [
        (1, 3, 10.0, ", about 20 s left"),
        (1, 31, 10.0, ", about 5 min left"),
        (0, 3, 10.0, ""),
        (3, 3, 10.0, ""),
        (1, None, 10.0, ""),
    ],
)
def test_time_left(done, planned, elapsed, text):
    assert time_left(done, planned, elapsed) == text
