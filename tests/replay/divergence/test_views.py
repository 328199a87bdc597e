"""What the screen is given: drift and margins by position, aligned tokens, after a flip, the caches."""

import numpy as np
import pytest

from replay.divergence import after_flip, aligned_tokens, cache_timeline, position_drift
from replay.divergence.cache_timeline import PromptStretch, Stretch, prompt_stretches
from tests.replay.memory_trace import served, two_arms
from tests.synthetic import ArmSpec, write_trace
from tracer.episode import Exposure, ToolCall, Way
from tracer.tracefile import TraceReader


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    path = tmp_path_factory.mktemp("views") / "t.msgpack"
    truth = write_trace(
        path,
        tokens=16,
        arms=[
            ArmSpec(),
            ArmSpec(state="warm", drift=1e-2, flips={2: 5}),
            ArmSpec(state="warm", repeat=1, length_changes={1: 9}),
        ],
    )
    with TraceReader.open(path) as trace:
        yield truth, trace


def test_position_drift_is_the_truth_up_to_the_flip(synthetic):
    truth, trace = synthetic
    found = position_drift(trace, 0, 1, 2)
    assert found.flip == 5
    np.testing.assert_allclose(found.drift[:6], truth.drift(1, 2), atol=1e-6)
    assert np.isnan(found.drift[6:]).all()
    assert len(found.drift) == len(found.margin_a) == len(found.gap_change) == 16
    np.testing.assert_allclose(found.margin_a, [truth.margin(0, 2, p) for p in range(16)])
    np.testing.assert_allclose(found.margin_b, [truth.margin(1, 2, p) for p in range(16)])
    assert found.rows_equal is not None
    assert not found.rows_equal.any()


def test_an_arm_that_ended_is_padded(synthetic):
    _, trace = synthetic
    found = position_drift(trace, 0, 2, 1)
    assert found.flip == 9
    assert np.isnan(found.margin_b[9:]).all()
    tokens = aligned_tokens(trace, 0, 2, 1)
    assert (tokens.ids_b[9:] == -1).all()
    assert (tokens.ids_a[:9] == tokens.ids_b[:9]).all()
    assert tokens.flip == 9


def test_after_a_flip_in_a_fixed_arm_the_next_step_is_not_known():
    call = ToolCall(name="find", arguments="{}")
    trace = two_arms([served([1, 2], tool_calls=(call,))], [served([1, 3])])
    found = after_flip(trace, 0, 1, 0)
    assert found.step_a.tool_calls == (call,)
    assert not found.step_b.known
    assert found.same_calls is None


def test_after_a_flip_in_a_closed_loop():
    call, other = ToolCall(name="find", arguments="{}"), ToolCall(name="send", arguments="{}")
    trace = two_arms(
        [served([1, 2, 9, 9], tool_calls=(call,)), served([4]), served([5])],
        [served([1, 3, 7, 9, 9], tool_calls=(other,)), served([4], prompt=(8,))],
        way=Way.CLOSED_LOOP,
    )
    found = after_flip(trace, 0, 1, 0)
    assert found.same_calls is False
    assert (found.edit_distance, found.shared_tail_tokens) == (2, 2)
    assert (found.later_requests, found.later_changed) == (2, 2)


@pytest.mark.parametrize(
    ("exposure", "expected"),
    [
        (Exposure(), [(Stretch.UNKNOWN, 0, 10)]),
        (Exposure(cached_tokens=0), [(Stretch.COMPUTED, 0, 10)]),
        (Exposure(cached_tokens=7), [(Stretch.CACHED, 0, 7), (Stretch.COMPUTED, 7, 10)]),
        (Exposure(cached_tokens=7, restored_tokens=7), [(Stretch.RESTORED, 0, 7), (Stretch.COMPUTED, 7, 10)]),
        (
            Exposure(cached_tokens=7, prompt_cache_tokens=4),
            [(Stretch.PROMPT_CACHE, 0, 4), (Stretch.CACHED, 4, 7), (Stretch.COMPUTED, 7, 10)],
        ),
        (Exposure(cached_tokens=99), [(Stretch.CACHED, 0, 10)]),
    ],
)
def test_stretches_of_a_prompt(exposure, expected):
    assert prompt_stretches(exposure, 10) == tuple(PromptStretch(*one) for one in expected)
    assert prompt_stretches(exposure, None) == ()


def test_timeline_names_the_token_where_the_prefix_broke():
    trace = two_arms(
        [
            served([4], prompt=(1, 2, 3)),
            served([5], prompt=(1, 2, 3, 4, 9)),
            served([6], prompt=(1, 7, 3, 4)),
        ],
        [],
    )
    found = cache_timeline(trace, 0)
    assert [(one.broke_at, one.broke_token) for one in found] == [(None, None), (None, None), (1, 7)]
    assert [one.prompt_tokens for one in found] == [3, 5, 4]
