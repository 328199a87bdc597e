"""Which requests are asked."""

import pytest

from replay.bisect.outcome import Agreement, Found
from replay.bisect.requests import asked_for
from stats.bisect_table import bisect_report
from tests.replay.bisect.conftest import Openings
from tests.replay.conftest import chat, record
from tracer.engines.fake import FakeEngine, FakeScript
from tracer.episode import Priming
from tracer.errors import UsageError

MANY = tuple(f"Tell me more about rain, part {i}." for i in range(15))


def test_of_a_long_episode_the_shortest_differing_requests_are_asked(tmp_path, bisected):
    trace = tmp_path / "long.msgpack"
    record(trace, FakeEngine(), chat(MANY))
    result = bisected(Openings(exact=lambda c: c.threads == 1), "threads=1", trace=trace)
    asked = result.requests
    assert result.chosen.wider.requests == 12  # verified on all that was looked at
    assert asked == tuple(range(len(asked)))  # each meets the cache that it met in the episode
    assert 4 <= len(asked) <= 12
    assert result.requests_recorded == 15
    assert len(result.chosen.exposed_lengths) >= 3
    differing = result.default.cross.drifted + result.default.cross.flipped
    assert differing >= 3


def test_a_named_request_comes_with_the_one_that_fills_its_cache(bisected):
    result = bisected(Openings(exact=lambda c: c.threads == 1), "threads=1", requests="2")
    assert result.requests == (1, 2)
    assert result.chosen.exposed_lengths


def test_with_self_priming_a_request_fills_its_own_cache(bisected):
    result = bisected(
        Openings(exact=lambda c: c.threads == 1), "threads=1", requests="2", priming=Priming.SELF
    )
    assert result.requests == (2,)
    assert result.default.cached_tokens == result.default.prompt_tokens - 1


@pytest.mark.parametrize("text", ["", "a", "1;2", "-1", "9"])
def test_requests_that_cannot_be_asked_are_named(text):
    with pytest.raises(UsageError, match="request"):
        asked_for(text, (0, 1, 2), Priming.OWN)


def test_a_long_episode_without_divergence_is_looked_at_and_repeated(tmp_path, bisected):
    exact = FakeScript(disturbance=0.0)
    trace = tmp_path / "long.msgpack"
    record(trace, FakeEngine(exact), chat(MANY))
    result = bisected(Openings(script=lambda *_: exact), "threads=1", trace=trace)
    assert result.found is Found.NO_DIVERGENCE
    assert result.requests == tuple(range(12))
    assert result.default.repeats_itself
    assert "12 of 15 recorded requests (0 to 11" in " ".join(bisect_report(result, None).summary)


def test_a_change_that_helps_short_prompts_only_is_not_the_answer(tmp_path, bisected):
    trace = tmp_path / "long.msgpack"
    record(trace, FakeEngine(), chat(MANY))
    opener = Openings(
        exact=lambda c: c.threads == 1 or c.kv_type == "f32",
        upto=lambda c: 300 if c.threads == 1 else 1 << 20,
        script=lambda c, _: FakeScript(token_seconds=0.001 if c.kv_type == "f32" else 0.0),
    )
    result = bisected(opener, "threads=1", "kv-type=f32", trace=trace)
    assert result.chosen.configuration.label == "kv-type=f32"
    (short, _) = result.trials
    assert short.cross.all_identical
    assert short.agreement in (Agreement.DRIFTS, Agreement.FLIPS)
    assert "differ in the verifying run" in short.reason
    assert not short.verified
