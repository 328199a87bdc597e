"""Which facts tell two configurations apart, and how their names say it."""

from pathlib import Path
from typing import Any

import pytest

from stats.report.build import build_report
from stats.report.collect import CollectOptions, collect
from stats.report.configuration import (
    configuration_key,
    configuration_names,
    model_without_format,
    nominal_bits,
)
from stats.report.sources import trace_files
from tests.synthetic import ArmSpec, write_trace
from tracer.engines.weight_format import effective_weight_format
from tracer.episode import Arm, CacheState, Capabilities, EngineInfo, Priming, RunPlace, Sampling, Way


def arm_of(environment: dict[str, str] | None = None, **engine: Any) -> Arm:
    return Arm(
        index=0,
        state=CacheState.COLD,
        priming=Priming.NONE,
        way=Way.FIXED,
        engine=EngineInfo(**{"engine": "llama", **engine}),
        capabilities=Capabilities(),
        sampling=Sampling(),
        place=RunPlace(run_id="r"),
        started_at=0.0,
        environment=environment or {},
    )


def test_facts_are_named_only_where_names_would_be_the_same() -> None:
    keys = [configuration_key(arm_of(model_name="m", threads=t)) for t in (1, 2)]
    assert sorted(configuration_names(keys).values()) == ["llama · m · threads 1", "llama · m · threads 2"]
    assert list(configuration_names(keys[:1]).values()) == ["llama · m"]


def test_flags_arguments_and_variables_tell_configurations_apart() -> None:
    base = {
        "quantization": "null",
        "VLLM_BATCH_INVARIANT": "false",
        "arguments": "--seed 0 --max-model-len 4096",
    }
    fp8 = {**base, "quantization": "fp8", "arguments": "--quantization fp8 --seed 0 --max-model-len 4096"}
    told = [arm_of(flags=base), arm_of(flags=fp8), arm_of(flags={**base, "VLLM_BATCH_INVARIANT": "1"})]
    told.append(arm_of({"OMP_NUM_THREADS": "2"}, flags=base))
    told.append(arm_of(flags={**base, "arguments": "--seed 0 --max-model-len 2048"}))
    names = configuration_names(configuration_key(arm) for arm in told)
    assert len(names) == 5
    assert [names[configuration_key(arm)] for arm in told] == [
        "llama · --max-model-len=4096, OMP_NUM_THREADS=–, VLLM_BATCH_INVARIANT=0",
        "llama · fp8",
        "llama · --max-model-len=4096, OMP_NUM_THREADS=–, VLLM_BATCH_INVARIANT=1",
        "llama · --max-model-len=4096, OMP_NUM_THREADS=2, VLLM_BATCH_INVARIANT=0",
        "llama · --max-model-len=2048, OMP_NUM_THREADS=–, VLLM_BATCH_INVARIANT=0",
    ]


def test_settings_of_the_cache_state_do_not_tell_configurations_apart() -> None:
    on = arm_of(prefix_cache=True, flags={"cold_by": "salt", "arguments": "--enable-prefix-caching --seed 0"})
    off = arm_of(prefix_cache=False, flags={"arguments": "--no-enable-prefix-caching --seed 0"})
    assert configuration_key(on) == configuration_key(off)


def test_names_stay_apart_where_long_values_begin_alike() -> None:
    keys = [configuration_key(arm_of(device_features="CPU : SSE3 = 1 | AVX2 = " + x)) for x in "01"]
    assert len(set(configuration_names(keys).values())) == 2


@pytest.mark.parametrize("flips", [{}, {2: 5}])
@pytest.mark.parametrize("drift", [0.0, 1e-3])
def test_one_sentence_says_whether_a_deterministic_mode_covers_the_cache(
    tmp_path: Path, flips: dict[int, int], drift: float
) -> None:
    warm: dict[str, Any] = {"state": "warm", "drift": drift, "flips": flips}
    for e in range(2):
        write_trace(
            tmp_path / f"{e}.msgpack",
            seed=e,
            episode_id=f"episode-{e}",
            engine={"flags": {"VLLM_BATCH_INVARIANT": "1"}},
            arms=[ArmSpec(), ArmSpec(repeat=1), ArmSpec(**warm), ArmSpec(**warm, repeat=1)],
        )
    report = build_report(collect(trace_files([tmp_path]), CollectOptions()))
    (said,) = [s for s in report.report.summary if "with VLLM_BATCH_INVARIANT=1" in s]
    assert "both arms repeat their tokens in all 2 episodes" in said
    if flips:
        assert "still differs from the recomputed one in 2 of 2 episodes (2 of 8 requests flipped)" in said
    elif drift:
        assert "numbers behind them differ in 6 of 8 requests" in said
    else:
        assert "equals the recomputed one in tokens and observed numbers in all 8 requests" in said


def test_the_weight_format_is_that_of_a_quantization_at_load() -> None:
    def of(weight_format: str | None, **flags: str) -> str | None:
        return effective_weight_format(EngineInfo(engine="e", weight_format=weight_format, flags=flags))

    assert of("bfloat16", quantization="fp8") == "fp8"
    assert of("bfloat16", arguments="--dtype bfloat16 --quantization fp8 --seed 0") == "fp8"
    assert of("bfloat16", arguments="-q=fp8") == "fp8"
    assert of("bfloat16", quantization="null", arguments="--dtype bfloat16") == "bfloat16"
    assert of("Q4_K - Medium") == "Q4_K_M"
    assert of("Q8_0") == "Q8_0"
    assert of(None) is None


def test_names_of_models_and_formats() -> None:
    assert [nominal_bits(f) for f in ("F16", "BF16", "Q8_0", "Q4_K_M", "IQ3_XS", "fp8")] == [
        16,
        16,
        8,
        4,
        3,
        8,
    ]
    assert nominal_bits("unknown") is None
    assert model_without_format("SmolLM2-135M-Instruct-Q4_K_M.gguf", "Q4_K_M") == "SmolLM2-135M-Instruct"
    assert model_without_format("Q4_K_M", "Q4_K_M") == "Q4_K_M"
    assert model_without_format(None, "F16") is None
