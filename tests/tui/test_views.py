"""The views say what replay and stats say: the screen computes nothing of its own."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from replay.divergence import Stretch, analyse, position_drift
from replay.verdicts import Verdict
from tests.synthetic import ArmSpec, write_trace
from tracer.episode import WorkloadSpec
from tracer.tracefile import TraceReader
from tui.numbers import bar_text, level_text, small_text, twin_bar_text, value_text
from tui.stream_layout import LineKind, StreamLayout
from tui.trace_model import TraceModel
from tui.view_model import Cursor, Filter, Mark
from tui.views.arms import arms_view
from tui.views.cache import cache_view
from tui.views.drift import drift_view
from tui.views.flip import flip_card
from tui.views.prompt import prompt_view
from tui.views.rates import rates_of
from tui.views.requests import requests_view
from tui.views.stream import EpisodeStream
from tui.views.top_k import top_k_view
from tui.widgets.requests import drift_cell


@pytest.fixture
def model(flipped):
    made = TraceModel.open(flipped)
    yield made
    made.close()


def at_flip(model: TraceModel) -> Cursor:
    cursor = model.start(None, None)
    assert (cursor.request, cursor.position) == (2, 5)
    return cursor


def test_requests_are_the_analysis(model) -> None:
    cursor = at_flip(model)
    view = requests_view(model, cursor)
    analysis = analyse(model.trace)
    warm = next(c for c in analysis.comparisons if c.arm == cursor.arm)
    assert [row.verdict for row in view.rows] == [v.verdict for v in warm.requests]
    assert [row.flip_position for row in view.rows if row.verdict is Verdict.FLIPPED] == [5, 20]
    flip = warm.requests[2].flip
    assert view.rows[2].margin == flip.a.margin
    assert view.rows[2].cached_tokens == warm.requests[2].exposure_b.cached_tokens


def test_drift_is_replays(model) -> None:
    cursor = at_flip(model)
    view = drift_view(model, cursor)
    expected = position_drift(model.trace, 0, cursor.arm, 2)
    assert np.array_equal(view.drift, expected.drift, equal_nan=True)
    assert np.array_equal(view.margin, expected.margin_a, equal_nan=True)
    assert view.flip == 5


def test_top_k_joins_both_lists_on_one_scale(model) -> None:
    view = top_k_view(model, at_flip(model))
    a = model.trace.alternatives(0, 2)
    assert [row.token_id for row in view.rows[:5]] == a.ids[5, :5].tolist()
    assert [row.chosen_a for row in view.rows].count(True) == 1
    assert [row.chosen_b for row in view.rows].count(True) == 1
    assert view.rows[0].change == pytest.approx(view.rows[0].b - view.rows[0].a)
    facts = dict(view.facts)
    assert facts["rows"] == "not bit-identical"
    assert facts["rank of warm's choice"] == "1 in recording"
    assert "led by 0.01 when cold" in view.sentence


def test_after_a_flip_no_change_is_claimed(model) -> None:
    cursor = at_flip(model)
    view = top_k_view(model, Cursor(2, 9, cursor.arm))
    assert all(row.change is None for row in view.rows)
    assert "after the flip" in view.note
    assert "drift here" not in dict(view.facts)


def test_marks(tmp_path) -> None:
    path = tmp_path / "marks.msgpack"
    arms = [ArmSpec(forced={0: [3]}), ArmSpec(state="warm", drift=1e-2, flips={0: 6})]
    truth = write_trace(path, requests=2, tokens=12, arms=arms)
    model = TraceModel.open(path)
    stream = EpisodeStream(model, model.pair(Cursor(arm=1)))
    marks = stream.marks(0)
    assert [bool(m & Mark.FLIP) for m in marks] == [p == 6 for p in range(12)]
    assert [bool(m & Mark.AFTER) for m in marks] == [p > 6 for p in range(12)]
    assert marks[3] & Mark.FORCED
    for position in range(6):
        near = truth.margin(0, 0, position) < 0.1 and position != 3
        assert bool(marks[position] & Mark.NEAR_TIE) == (near or truth.margin(1, 0, position) < 0.1)
    assert not any(m & Mark.UNOBSERVED for m in marks)
    model.close()


def test_not_observed_stays_so(tmp_path) -> None:
    path = tmp_path / "tokens.msgpack"
    arms = [ArmSpec(observe="tokens"), ArmSpec(state="warm", observe="tokens", flips={1: 3})]
    write_trace(path, requests=2, tokens=8, arms=arms)
    model = TraceModel.open(path)
    cursor = Cursor(0, 0, 1)
    stream = EpisodeStream(model, model.pair(cursor))
    assert all(m & Mark.UNOBSERVED for m in stream.marks(0))
    view = top_k_view(model, cursor)
    assert not view.rows
    assert "no numbers were observed" in view.note
    assert dict(view.facts)["margin recording"] == "–"
    assert np.isnan(drift_view(model, cursor).drift).all()
    card = flip_card(model, Cursor(1, 3, 1))
    assert "–" in dict(card.sections[0][1])["margin warm"]
    model.close()


def test_the_stretches_cover_the_prompt(model) -> None:
    cursor = at_flip(model)
    view = cache_view(model, cursor)
    for row in view.rows:
        edges = [(s.start, s.end) for s in row.stretches]
        assert edges[0][0] == 0
        assert edges[-1][1] == row.prompt_tokens
        assert all(a[1] == b[0] for a, b in pairwise(edges))
    prompt = prompt_view(model, cursor.arm, 2)
    assert prompt.stretches[0].kind is Stretch.CACHED
    assert len(prompt.token_ids) == prompt.stretches[-1].end


def test_the_flip_card_says_everything(model) -> None:
    card = flip_card(model, at_flip(model))
    names = {heading: dict(facts) for heading, facts in card.sections}
    assert "reference drift" in names["margins and drift"]
    assert names["verdict"]["evidence"] == "row"
    assert names["verdict"]["triage"]
    assert "expected" in names["exposure"]["warm"]
    assert "later requests" in names["afterwards"]
    assert flip_card(model, Cursor(0, 0, 2)).sentence.startswith("No flip")


def test_without_a_flip_it_opens_where_the_numbers_drifted_most(tmp_path) -> None:
    path = tmp_path / "drifted.msgpack"
    arms = [ArmSpec(), ArmSpec(state="cold", repeat=1), ArmSpec(state="warm", drift=1e-2)]
    write_trace(path, requests=4, tokens=16, arms=arms)
    model = TraceModel.open(path)
    cursor = model.start(None, None)
    assert cursor.arm == 2
    largest = max(model.pair(cursor).verdicts.values(), key=lambda v: v.max_drift)
    assert cursor.request == largest.request
    assert cursor.position == largest.first_drift
    rows = requests_view(model, cursor).rows
    assert [row.drift for row in rows] == [v.max_drift for v in model.pair(cursor).verdicts.values()]
    model.close()


def test_drift_of_the_chosen_token_alone_is_marked_in_a_long_trace(tmp_path, monkeypatch) -> None:
    path = tmp_path / "long.msgpack"
    write_trace(path, requests=3, tokens=16, arms=[ArmSpec(), ArmSpec(state="warm", drift=1e-2)])
    texts, said = {}, {}
    for limit in (0, 1000):
        monkeypatch.setattr("tui.trace_model._TOKENS_READ_WHOLE", limit)
        model = TraceModel.open(path)
        cursor = model.start(None, None)
        assert cursor.arm == 1
        texts[limit] = [drift_cell(row) for row in requests_view(model, cursor).rows]
        said[limit] = dict(flip_card(model, Cursor(1, 0, 1)).sections)["numbers"][0][1]
        model.close()
    assert [text.startswith("≥") for text in texts[0]] == [False, True, True]
    assert not any(text.startswith("≥") for text in texts[1000])
    assert said[0] == f"{texts[0][1].removeprefix('≥')} (of the chosen token)"
    assert said[1000] == texts[1000][1]


def test_without_lists_every_drift_is_that_of_the_chosen_token(tmp_path) -> None:
    path = tmp_path / "chosen.msgpack"
    warm = ArmSpec(state="warm", drift=1e-2, flips={1: 5}, observe="chosen")
    write_trace(path, requests=3, tokens=16, arms=[ArmSpec(), warm])
    model = TraceModel.open(path)
    flip, drifted = Cursor(1, 3, 1), Cursor(2, 3, 1)
    said = dict(dict(flip_card(model, flip).sections)["margins and drift"])
    assert said["drift before it"].endswith(" (of the chosen token)")
    assert "chosen token" in drift_view(model, drifted).note
    assert dict(top_k_view(model, drifted).facts)["drift here"].endswith(" (of the chosen token)")
    model.close()


def test_the_rates_are_the_reports(flipped, model) -> None:
    rates = rates_of(flipped, 0.1)
    view = arms_view(model, at_flip(model), rates)
    assert [arm.name.label for arm in view.arms] == ["recording", "cold#1", "warm", "snapshot"]
    assert view.rates == rates.rows


def test_what_a_task_says_of_itself_stands_by_its_rates(tmp_path) -> None:
    note = "eight episodes: a subset, not the paper's figure"
    path = tmp_path / "subset.msgpack"
    arms = [ArmSpec(), ArmSpec(repeat=1), ArmSpec(state="warm"), ArmSpec(state="warm", repeat=1)]
    write_trace(path, requests=2, tokens=6, arms=arms, workload=WorkloadSpec(name="t", params={"note": note}))
    model = TraceModel.open(path)
    rates = rates_of(path, 0.1)
    assert rates.rows
    assert arms_view(model, Cursor(0, 0, 1)).notes == (note,)
    assert arms_view(model, Cursor(0, 0, 1), rates).notes == (note, *rates.notes)
    model.close()


def test_filters(model) -> None:
    cursor = at_flip(model)
    kept = requests_view(model, Cursor(2, 5, cursor.arm, filter=Filter.FLIPPED))
    assert [row.index for row in kept.rows] == [2, 5]
    assert kept.of == 8


def test_a_refused_pair_shows_why(tmp_path) -> None:
    path = tmp_path / "refused.msgpack"
    write_trace(path, requests=2, tokens=6, arms=[ArmSpec(), ArmSpec(state="warm", engine={"threads": 7})])
    model = TraceModel.open(path)
    cursor = Cursor(0, 0, 1)
    assert "threads" in top_k_view(model, cursor).note
    assert "threads" in flip_card(model, cursor).note
    assert "threads" in drift_view(model, cursor).note
    assert all(row.verdict is None for row in requests_view(model, cursor).rows)
    model.close()


@pytest.mark.parametrize("width", [12, 33, 78, 200])
@pytest.mark.parametrize("ids", [False, True])
def test_every_token_stands_on_exactly_one_line(model, width: int, ids: bool) -> None:
    stream = EpisodeStream(model, model.pair(at_flip(model)))
    layout = StreamLayout(stream, width, ids=ids)
    seen: dict[int, list[int]] = {}
    for y in range(layout.height):
        line = layout.line(y)
        if line.kind is LineKind.BASELINE:
            seen.setdefault(line.request, []).extend(range(line.start, line.end))
            block = layout.blocks[line.request]
            taken = int(block.cells[line.start : line.end].sum())
            assert taken <= layout.room or line.end == line.start + 1
            for position in range(line.start, line.end):
                assert layout.line_of(line.request, position) == y
                assert layout.position_at(line, layout.cell_of(line.request, position)) == position
    assert seen == {r.index: list(range(r.positions)) for r in stream.requests}
    assert layout.line(layout.height) is None
    assert layout.line(-1) is None


def test_numbers() -> None:
    assert [value_text(v) for v in (None, float("nan"), 1.23456, -3.4e38)] == [
        "–",
        "NaN",
        "1.235",
        "-3.4e+38",
    ]
    assert [small_text(v) for v in (None, 0.0, 0.5, 1e-5, float("inf"))] == [
        "–",
        "0",
        "0.500",
        "1.0e-05",
        "∞",
    ]
    assert [bar_text(f, 2) for f in (None, 0.0, 0.5, 1.0, 7.0)] == ["– ", "  ", "█ ", "██", "██"]
    assert [level_text(f) for f in (None, 0.0, 0.01, 1.0)] == ["–", "·", "▁", "█"]
    assert twin_bar_text(1.0, 0.5, 4) == "██▀▀"
    assert twin_bar_text(None, 0.5, 4) == "▄▄  "


def test_only_the_command_imports_textual() -> None:
    import subprocess
    import sys

    code = (
        "import sys, cachetrace; cachetrace.build_app();"
        "assert not {'textual', 'numpy', 'scipy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=str(__import__("pathlib").Path(__file__).parents[2])
    )


def test_refreshing_follows_a_file_that_grows(tmp_path, flipped) -> None:
    whole = flipped.read_bytes()
    path = tmp_path / "growing.msgpack"
    path.write_bytes(whole[: len(whole) // 2])
    model = TraceModel.open(path)
    before = len(model.arms)
    assert not model.refresh()
    path.write_bytes(whole)
    assert model.refresh()
    assert len(model.arms) > before
    with TraceReader.open(flipped) as trace:
        assert len(model.arms) == len(trace.arms)
    model.close()
