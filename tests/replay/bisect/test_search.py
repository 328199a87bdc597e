"""What a bisect concludes, on engines whose guilt is known."""

import pytest

from replay.bisect.outcome import Agreement, Found
from replay.verdicts import Evidence
from tests.replay.bisect.conftest import Openings
from tests.replay.conftest import chat, record
from tracer.engines.fake import FakeEngine, FakeFault, FakeScript
from tracer.errors import NothingToCompute, UsageError
from tracer.tracefile import TraceReader


def flash_off(choice):
    return choice.flash_attention == "off"


def trial_of(result, label):
    return next(t for t in result.trials if t.configuration.label == label)


def test_the_setting_to_blame_is_found_and_verified(bisected):
    result = bisected(Openings(exact=flash_off), "ubatch=1,32", "flash-attention=off,on")
    assert result.found is Found.SETTING
    assert result.chosen.configuration.label == "flash-attention=off"
    assert result.told == "--flash-attention off"
    assert result.chosen.verified
    assert result.chosen.cross.identical == 4
    assert result.chosen.cross.evidence is Evidence.ROW
    assert len(result.chosen.exposed_lengths) == 3
    assert result.default.cross.identical == 1  # the first request meets an empty cache
    assert result.default.repeats_itself
    assert trial_of(result, "ubatch=1").agreement in (Agreement.DRIFTS, Agreement.FLIPS)
    assert (result.singles, result.pairs) == (4, 0)


def test_an_exact_configuration_leaves_the_cold_numbers(bisected):
    result = bisected(Openings(exact=flash_off), "flash-attention=off")
    assert result.chosen.cold_moved.all_identical


def test_a_configuration_that_moves_the_cold_numbers_is_said_to(bisected):
    result = bisected(Openings(), "batch=1,1024")
    assert result.chosen.configuration.label == "batch=1"
    assert result.chosen.cold_moved.identical < 4
    assert result.chosen.cold_moved.max_drift > 0


def test_a_pair_is_needed(bisected):
    both = Openings(exact=lambda c: flash_off(c) and c.threads == 1)
    result = bisected(both, "flash-attention=off", "threads=1", "kv-type=f32")
    assert result.found is Found.SETTING
    assert {c.label for c in result.chosen.configuration.changes} == {"flash-attention=off", "threads=1"}
    assert {"--flash-attention off", "--threads 1"} == {
        f"--{part.strip()}" for part in result.told.split("--")[1:]
    }
    assert result.singles == 3
    assert 1 <= result.pairs <= result.pairs_possible == 3
    assert result.chosen.verified


def test_one_setting_wins_over_a_pair(bisected):
    result = bisected(
        Openings(exact=lambda c: flash_off(c) or c.threads == 1), "flash-attention=off", "threads=1"
    )
    assert len(result.chosen.configuration.changes) == 1
    assert result.pairs == 0


def test_the_cheaper_of_two_that_agree_is_chosen(bisected):
    slow = Openings(
        exact=lambda c: flash_off(c) or c.threads == 1,
        script=lambda c, _: FakeScript(token_seconds=0.003 if flash_off(c) else 0.0),
    )
    result = bisected(slow, "flash-attention=off", "threads=1")
    assert result.chosen.configuration.label == "threads=1"
    assert trial_of(result, "flash-attention=off").agreement is Agreement.AGREES
    assert not trial_of(result, "flash-attention=off").verified  # only the cheaper one was run again


def test_of_two_that_cost_the_same_the_one_that_leaves_the_cold_numbers_is_chosen(bisected):
    slow = Openings(
        exact=lambda c: (flash_off(c) and 7) or (c.threads == 1 and 64),
        script=lambda *_: FakeScript(token_seconds=0.002),  # so that nothing else decides the time
    )
    result = bisected(slow, "flash-attention=off", "threads=1")
    assert trial_of(result, "flash-attention=off").agreement is Agreement.AGREES
    assert not trial_of(result, "flash-attention=off").cold_moved.all_identical
    assert result.chosen.configuration.label == "threads=1"


def test_none_found_is_a_result(bisected):
    result = bisected(Openings(), "flash-attention=off", "threads=1", most_pairs=1)
    assert result.found is Found.NONE
    assert result.chosen is None
    assert (result.singles, result.pairs) == (2, 1)


def test_no_divergence_asks_no_candidate(tmp_path, bisected):
    exact = FakeScript(disturbance=0.0)
    trace = tmp_path / "exact.msgpack"
    record(trace, FakeEngine(exact), chat())
    opener = Openings(script=lambda *_: exact)
    result = bisected(opener, "flash-attention=off", trace=trace)
    assert result.found is Found.NO_DIVERGENCE
    assert result.default.cross.all_identical
    assert result.default.repeats_itself
    assert result.default.cross.max_drift == 0.0
    assert len(opener.asked) == 1


def test_a_refused_candidate_is_listed_with_its_reason(bisected):
    def refuses(choice):
        return "a quantized V needs flash attention." if choice.kv_type == "q8_0" else None

    result = bisected(Openings(exact=flash_off, refuses=refuses), "kv-type=q8_0", "flash-attention=off")
    refused = trial_of(result, "kv-type=q8_0")
    assert refused.agreement is Agreement.REFUSED
    assert refused.reason == "a quantized V needs flash attention."
    assert refused.cross is None
    assert result.chosen.configuration.label == "flash-attention=off"


def test_a_candidate_under_which_the_engine_dies_has_failed(bisected):
    dies = (FakeFault(kind="dies", request=1),)
    opener = Openings(exact=flash_off, script=lambda c, _: FakeScript(faults=dies if c.threads == 1 else ()))
    result = bisected(opener, "threads=1", "flash-attention=off")
    assert trial_of(result, "threads=1").agreement is Agreement.FAILED
    assert "died" in trial_of(result, "threads=1").reason
    assert result.chosen.configuration.label == "flash-attention=off"


def test_agreeing_once_by_chance_is_not_enough(bisected):
    """The verifying run of this configuration computes in other batches."""
    opener = Openings()
    opener.exact = lambda c: flash_off(c) and (64 if len(opener.asked) == 2 else 7)
    result = bisected(opener, "flash-attention=off", most_pairs=0)
    assert result.found is Found.NONE
    trial = trial_of(result, "flash-attention=off")
    assert trial.agreement is Agreement.AGREES
    assert trial.repeats_itself is False


def test_an_engine_that_does_not_repeat_itself_gives_nothing_to_blame(bisected):
    wobbles = FakeScript(faults=(FakeFault(kind="wobbles"),))
    with pytest.raises(NothingToCompute, match="does not repeat itself"):
        bisected(Openings(script=lambda *_: wobbles), "flash-attention=off")


def test_an_engine_that_reuses_in_spite_of_cold_gives_nothing_to_blame(bisected):
    leaks = FakeScript(faults=(FakeFault(kind="leaks"),))
    with pytest.raises(NothingToCompute, match="cached tokens though the arm is cold"):
        bisected(Openings(script=lambda *_: leaks), "flash-attention=off")


def test_an_episode_without_reuse_gives_nothing_to_blame(tmp_path, bisected):
    trace = tmp_path / "one.msgpack"
    record(trace, FakeEngine(), chat(("What is rain?",)))
    with pytest.raises(NothingToCompute, match="no request was expected to be served from a cache"):
        bisected(Openings(), "flash-attention=off", trace=trace)


def test_another_model_is_refused(tmp_path, bisected):
    other = FakeScript(seed=5)
    with pytest.raises(UsageError, match="not the model that was recorded"):
        bisected(Openings(script=lambda *_: other), "flash-attention=off")
    assert bisected(Openings(script=lambda *_: other), "flash-attention=off", anyway=True).default.cross


def test_engines_are_opened_one_at_a_time_and_closed(bisected):
    opener = Openings(exact=flash_off)
    open_now = []

    def watched(choice):
        assert not open_now, "the engine before this one is still open"
        engine = opener(choice)
        open_now.append(engine)
        close = engine.close
        engine.close = lambda: (open_now.clear(), close())
        return engine

    bisected(watched, "flash-attention=off", "threads=1")
    assert not open_now
    assert len(opener.asked) == 4  # default, two candidates, the verifying run


def test_a_bisect_is_taken_up_where_it_stopped(tmp_path, bisected):
    class Stopped(Exception):
        pass

    def stops(choice):
        if choice.threads == 1:
            raise Stopped
        return

    candidates = ("flash-attention=off", "threads=1")
    with pytest.raises(Stopped):
        bisected(Openings(exact=flash_off, refuses=stops), *candidates)
    opener = Openings(exact=flash_off)
    result = bisected(opener, *candidates)
    assert result.chosen.verified
    assert [c.threads for c in opener.asked] == [1, None]  # the second is the verifying run
    again = Openings()
    assert bisected(again, *candidates).chosen == result.chosen
    assert again.asked == []


def test_files_of_another_bisect_are_refused(bisected):
    bisected(Openings(exact=flash_off), "flash-attention=off")
    with pytest.raises(UsageError, match="another bisect"):
        bisected(Openings(exact=flash_off), "flash-attention=off", requests="1")


def test_every_arm_is_in_a_trace_of_its_configuration(tmp_path, bisected):
    bisected(Openings(exact=flash_off), "flash-attention=off")
    with TraceReader.open(tmp_path / "arms" / "flash-attention=off.msgpack") as trace:
        assert [arm.label for arm in trace.arms] == ["cold", "warm", "cold#1", "warm#1"]
        assert trace.episode.notes["bisect_configuration"] == "flash-attention=off"
        assert not trace.losses
