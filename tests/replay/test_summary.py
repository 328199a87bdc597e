"""The few lines that end a replay."""

import pytest

from replay.divergence import analyse
from replay.summary import summary_lines
from tests.replay.memory_trace import served, two_arms
from tracer.episode import Scale


def moved(*, listed: bool, first: int = 7):
    """One request whose chosen token moved by 0.125 in the second arm, and token 8 by 0.5."""
    lists = [{7: -0.5, 8: -2.0}], [{7: -0.625, 8: -2.5}]
    return tuple(
        served(
            [7, token],
            values=[value, -1.0],
            scale=Scale.LOGPROB,
            lists=[*arm, {7: -1.0, 9: -1.0}] if listed else None,
        )
        for token, value, arm in zip((7, first), (-0.5, -0.625), lists, strict=True)
    )


@pytest.mark.parametrize(
    ("listed", "said"), [(True, "drift up to 0.5"), (False, "drift of the chosen token up to 0.12")]
)
def test_a_drift_is_called_what_was_read(listed: bool, said: str):
    a, b = moved(listed=listed)
    trace = two_arms([a], [b])
    assert any(f"1 drifted, {said}" in line for line in summary_lines(trace, analyse(trace)))


def test_the_sentence_of_a_flip_without_lists_names_the_chosen_token():
    a, b = moved(listed=False, first=9)
    trace = two_arms([a], [b])
    said = "before this token the log-probabilities of the chosen token moved by up to 0.12"
    assert any(said in line for line in summary_lines(trace, analyse(trace)))
