"""A real vLLM server on CPU: what issue and design promise about it."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from replay.arm_schedule import ReplayOptions
from replay.divergence import analyse
from replay.replay_run import replay_on
from replay.verdicts import ArmStatus, ExposureVerdict, Verdict
from tracer.engines.base import GenerateCall
from tracer.engines.choice import EngineChoice
from tracer.engines.http.recognise import recognise
from tracer.engines.registry import open_engine
from tracer.engines.vllm.engine import VllmEngine
from tracer.episode import CacheState, ExposureSource, RunPlace, Sampling, Scale, WorkloadSpec
from tracer.progress import Silent
from tracer.recording import RecordingSettings, record_episode
from tracer.tracefile import TraceReader
from tracer.workloads.chat import Chat

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

FACTS = " ".join(f"Fact number {n} is about the city {n * 7 % 13}." for n in range(40))
QUESTIONS = (
    "Which city is fact number 3 about?",
    "List three uses of copper.",
    "Explain why the sky is blue.",
)
ARGUMENTS = ("--enforce-eager",)


def launch(*more: str) -> VllmEngine:
    """CACHETRACE_VLLM: the Python of an environment with vLLM. CACHETRACE_VLLM_MODEL: a model folder."""
    python, model = os.environ.get("CACHETRACE_VLLM"), os.environ.get("CACHETRACE_VLLM_MODEL")
    assert python, "set CACHETRACE_VLLM to the Python of an environment with vLLM in it"
    assert model, "set CACHETRACE_VLLM_MODEL to the folder of a model"
    os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    choice = EngineChoice(
        engine="vllm",
        model=model,
        server_bin=python,
        server_args=(*ARGUMENTS, *more),
        context_tokens=4096,
        threads=1,
    )
    engine = open_engine(choice)
    assert isinstance(engine, VllmEngine)
    return engine


@pytest.fixture(scope="module")
def engine() -> Iterator[VllmEngine]:
    opened = launch()
    yield opened
    opened.close()


def record(engine: VllmEngine, path: Path, state: CacheState) -> None:
    messages = [{"role": "system", "content": FACTS}]
    messages += [{"role": "user", "content": question} for question in QUESTIONS]
    record_episode(
        engine,
        Chat(WorkloadSpec(name="chat", params={"id": "talk", "messages": messages})),
        path,
        RecordingSettings(state=state, sampling=Sampling(max_new_tokens=16)),
        RunPlace(run_id="recorded"),
        Silent(),
    )


def test_it_says_what_it_is(engine: VllmEngine) -> None:
    info = engine.info
    assert info.version is not None
    assert info.prefix_cache is True
    assert info.cache_block_tokens is not None
    assert info.model_hash is not None
    assert info.weight_format == "bfloat16"
    assert info.logprobs_mode == "raw_logprobs"
    found = recognise(engine._backend.endpoint.url)
    assert found.engine == "vllm"
    assert found.layers["prefix cache"].startswith("on")


def test_ids_pieces_and_numbers(engine: VllmEngine) -> None:
    ids = engine.tokenize("The capital of France is")
    answer = engine.generate(GenerateCall(tuple(ids), Sampling(max_new_tokens=4), top_k=5, use_cache=False))
    assert answer.scale is Scale.LOGPROB
    assert answer.alternatives is not None
    assert (answer.alternatives.counts == 5).all()
    assert engine.piece(int(answer.path.token_ids[0])) == b" Paris"
    assert answer.text.startswith(" Paris")


def test_cold_by_salt_is_cold_by_reset(engine: VllmEngine) -> None:
    ids = tuple(engine.tokenize(FACTS))
    call = GenerateCall(ids, Sampling(max_new_tokens=8), top_k=5)
    engine.reset()
    fresh = engine.generate(call)
    warm = engine.generate(call)
    salted = engine.generate(GenerateCall(ids, Sampling(max_new_tokens=8), top_k=5, use_cache=False))
    block = engine.info.cache_block_tokens or 1
    assert (fresh.cached_tokens, salted.cached_tokens) == (0, 0)
    assert warm.cached_tokens == (len(ids) - 1) // block * block
    assert fresh.exposure_source is ExposureSource.USAGE
    assert fresh.path.token_ids.tolist() == salted.path.token_ids.tolist()
    assert np.array_equal(fresh.path.chosen_values, salted.path.chosen_values)  # type: ignore[arg-type]


def test_cold_twice_warm_twice(engine: VllmEngine, tmp_path: Path) -> None:
    path = tmp_path / "talk.msgpack"
    record(engine, path, CacheState.WARM)
    replay_on(engine, path, ReplayOptions(states=(CacheState.COLD, CacheState.WARM)))
    with TraceReader.open(path) as trace:
        analysis = analyse(trace)
        warm_arm = next(arm for arm in trace.arms if arm.label == "warm")
        warm = next(c for c in analysis.comparisons if c.arm == warm_arm.index)
        cached = [request.exposure.cached_tokens for request in trace.requests(warm_arm)]
    for assessment in analysis.assessments:
        assert assessment.status is ArmStatus.VERIFIED, assessment.reason
        assert set(assessment.exposures) == {ExposureVerdict.AS_EXPECTED}
    for control in analysis.controls:
        assert {verdict.verdict for verdict in control.requests} == {Verdict.IDENTICAL}
    assert cached[0] == 0
    assert all(cached[1:])
    assert any(v.verdict in (Verdict.DRIFTED, Verdict.FLIPPED) for v in warm.requests)


def test_caching_off_by_flag_equals_cold(engine: VllmEngine, tmp_path: Path) -> None:
    path = tmp_path / "cold.msgpack"
    record(engine, path, CacheState.COLD)
    with TraceReader.open(path) as trace:
        recorded = [trace.path(trace.arms[0], i) for i in range(len(QUESTIONS))]
        prompts = [trace.prompt_ids(trace.arms[0], i) for i in range(len(QUESTIONS))]
    engine.close()  # two busy-waiting servers would stall each other
    off = launch("--no-enable-prefix-caching")
    try:
        assert off.info.prefix_cache is False
        assert off.capabilities.states == (CacheState.COLD,)
        for prompt, path_then in zip(prompts, recorded, strict=True):
            assert prompt is not None
            call = GenerateCall(
                tuple(prompt.tolist()), Sampling(max_new_tokens=16), top_k=20, use_cache=False
            )
            answer = off.generate(call)
            assert answer.cached_tokens == 0
            assert answer.path.token_ids.tolist() == path_then.token_ids.tolist()
            assert np.array_equal(answer.path.chosen_values, path_then.chosen_values)  # type: ignore[arg-type]
    finally:
        off.close()


def test_counters_stand_in_where_answers_do_not_count(engine: VllmEngine) -> None:
    engine.close()
    silent = launch("--no-enable-prompt-tokens-details")
    try:
        ids = tuple(silent.tokenize(FACTS))
        call = GenerateCall(ids, Sampling(max_new_tokens=4), top_k=5)
        silent.reset()
        first, second = silent.generate(call), silent.generate(call)
        block = silent.info.cache_block_tokens or 1
        assert (first.exposure_source, second.exposure_source) == (
            ExposureSource.METRICS,
            ExposureSource.METRICS,
        )
        assert first.cached_tokens == 0
        assert second.cached_tokens == (len(ids) - 1) // block * block
    finally:
        silent.close()
