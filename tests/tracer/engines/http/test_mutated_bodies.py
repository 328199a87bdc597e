"""Captured bodies with odd values put in anywhere: an answer, or a refusal in one sentence. Never a crash."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tracer.engines.http.wire_bodies import captured, stream
from tracer.engines.http.answer import Asked, ParsedAnswer, parse_body
from tracer.engines.http.refusals import refusal_of
from tracer.engines.http.wire import WireError
from tracer.errors import EngineError

BODIES = [
    json.loads(captured(name))
    for name in (
        "llama-server-0c1e570/c1.json",
        "llama-server-0c1e570/chat.json",
        "vllm-0.32.0-cpu/cmpl_logprobs_ids.json",
        "vllm-0.32.0-cpu/chat_logprobs.json",
        "vllm-0.32.0-cpu/E_inference_generate_skip.json",
        "vllm-0.32.0-cpu/err_model.json",
    )
]
ODD: list[Any] = [
    None,
    "",
    "x",
    "\ud83e",
    -1,
    2**40,
    2**70,
    1.5,
    float("nan"),
    float("-inf"),
    -3.5e38,
    [],
    {},
    True,
]
ODD += [[None], ["x"], {"a": 1}, [[1, 2]], "token_id:99999999999", -9999.0, 1e300, -1e300]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


def put(body: Any, path: tuple[Any, ...], odd: Any) -> Any:
    changed = json.loads(json.dumps(body))
    target = changed
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = odd
    return changed


def check(answer: ParsedAnswer) -> None:
    for choice in answer.choices:
        n = len(choice.path)
        assert choice.path.token_ids.dtype == np.int32
        assert len(choice.path.flags) == n
        assert choice.path.chosen_values is None or len(choice.path.chosen_values) == n
        if choice.alternatives is not None:
            assert choice.alternatives.ids.shape == choice.alternatives.values.shape
            assert len(choice.alternatives.counts) == n
        choice.text.encode()
        assert choice.path.chosen_values is not None or "chosen_values" in choice.not_observed or n == 0


PLACES = [(number, path) for number, body in enumerate(BODIES) for path in places(body)]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(place=st.sampled_from(PLACES), odd=st.sampled_from(ODD), asked=st.sampled_from([None, 0, 1, 20]))
def test_one_odd_value_anywhere(place: tuple[int, tuple[Any, ...]], odd: Any, asked: int | None) -> None:
    number, path = place
    raw = json.dumps(put(BODIES[number], path, odd)).encode()
    refused = None
    try:
        check(parse_body(raw, Asked(top_k=asked)))
    except WireError as error:
        refused = str(error)
    assert refused is None or refused.endswith(".")
    assert isinstance(refusal_of(400, raw), EngineError)


@settings(max_examples=150, deadline=None)
@given(cut=st.integers(0, 2600), step=st.integers(1, 400))
def test_a_stream_cut_anywhere(cut: int, step: int) -> None:
    body = captured("llama-server-0c1e570/chat.sse")[:cut]
    try:
        check(stream(body, step, top_k=2))
    except WireError:
        pytest.fail("a cut stream keeps what came")
