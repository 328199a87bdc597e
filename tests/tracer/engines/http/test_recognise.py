"""Servers named by what they answer, without asking them to generate."""

import json
from typing import Any

import httpx
import pytest

from tests.tracer.engines.http.wire_bodies import WIRE
from tracer.engines.http.prometheus import read_samples, total
from tracer.engines.http.recognise import Recognised, recognise
from tracer.errors import EngineMissing

LLAMA = WIRE / "llama-server-0c1e570"
VLLM = WIRE / "vllm-0.32.0-cpu"


def ask(answers: dict[str, Any], url: str = "http://me:secret@engine:1/v1") -> Recognised:
    asked: list[str] = []

    def server(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        key = f"{request.method} {request.url.path}" if request.method != "GET" else request.url.path
        status, body = answers.get(key, (404, '{"detail":"Not Found"}'))
        return httpx.Response(status, text=body if isinstance(body, str) else json.dumps(body))

    found = recognise(url, transport=httpx.MockTransport(server))
    assert not any("completion" in path for path in asked)
    return found


def vllm_answers(**more: Any) -> dict[str, Any]:
    models = json.loads((VLLM / "models.json").read_text())["response"]
    return {
        "/v1/models": (200, models),
        "/version": (200, {"version": "0.32.0"}),
        "/metrics": (200, (VLLM / "metrics.txt").read_text()),
    } | more


def test_llama_server() -> None:
    props = json.loads((LLAMA / "props.json").read_text())
    answers = {
        "/props": (200, props | {"total_slots": 4, "modalities": {"vision": True}}),
        "/slots": (501, '{"error":{"code":501,"message":"off","type":"not_supported_error"}}'),
        "/metrics": (200, (LLAMA / "metrics.txt").read_text()),
    }
    found = ask(answers)
    assert (found.engine, found.version, found.url) == ("llama-server", "b1-0c1e570", "http://engine:1")
    assert found.info.slots == 4
    assert any("--slots" in flag for flag in found.flags_to_add)
    assert any("4 slots" in warning for warning in found.warnings)
    assert any("projector" in warning for warning in found.warnings)
    assert found.layers["prompt cache (host memory)"].startswith("unknown")
    quiet = ask({"/props": (200, props), "/slots": (200, (LLAMA / "slots.json").read_text())})
    assert quiet.warnings == ()
    assert quiet.flags_to_add == ()


def test_vllm_in_development_mode() -> None:
    info = "ModelConfig(dtype=torch.bfloat16, logprobs_mode='raw_logits', max_logprobs=40)"
    found = ask(vllm_answers(**{"/reset_prefix_cache": (405, "{}"), "/server_info": (200, info)}))
    assert (found.engine, found.version) == ("vllm", "0.32.0")
    assert found.layers == {"prefix cache": "on, blocks of 128 tokens", "KV offloading": "off"}
    assert found.info.weight_format == "bfloat16"
    assert found.info.cache_block_tokens == 128
    assert any("reset_prefix_cache" in way for way in found.controls)
    assert found.capabilities.top_k == 40
    assert any("raw_logits" in warning for warning in found.warnings)
    assert not any("DEV_MODE" in flag for flag in found.flags_to_add)


def test_vllm_without_anything() -> None:
    page = (VLLM / "B_metrics.txt").read_text()
    found = ask(vllm_answers(**{"/metrics": (200, page), "POST /inference/v1/generate": (403, "{}")}))
    assert found.layers["prefix cache"].startswith("off")
    assert not any("reset_prefix_cache" in way for way in found.controls)
    assert any("DEV_MODE" in flag for flag in found.flags_to_add)
    assert any("scale-out" in flag for flag in found.flags_to_add)
    blind = ask(vllm_answers(**{"/metrics": (404, "")}))
    assert blind.layers == {"prefix cache": "unknown", "KV offloading": "unknown"}
    assert blind.info.prefix_cache is None


def test_sglang_ollama_lm_studio_and_anything_else() -> None:
    models = {"data": [{"id": "m", "owned_by": "sglang"}]}
    info = {"version": "0.5.10", "disable_radix_cache": False, "enable_deterministic_inference": True}
    sglang = ask({"/v1/models": (200, models), "/get_server_info": (200, info)})
    assert (sglang.engine, sglang.version, sglang.layers) == ("sglang", "0.5.10", {"radix cache": "on"})
    ollama = ask(
        {
            "/v1/models": (200, {"data": [{"id": "m", "owned_by": "library"}]}),
            "/api/version": (200, {"version": "0.9"}),
        }
    )
    assert (ollama.engine, ollama.info.flags) == ("ollama", {"server": "ollama"})
    studio = ask({"/v1/models": (200, {"data": [{"id": "m", "owned_by": "organization_owner"}]})})
    assert studio.engine == "lm-studio"
    hosted = ask({})
    assert (hosted.engine, hosted.info.model_name) == ("openai", None)
    assert hosted.warnings


def test_nobody_there() -> None:
    def absent(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(EngineMissing, match="No server answers at http://engine:1"):
        recognise("engine:1", transport=httpx.MockTransport(absent))


def test_metrics_pages_with_broken_lines() -> None:
    page = '# HELP a\na 1\nb{x="1"} 2\nb{x="2"} 3e1\nc nonsense\n{ 5\nd{x="a\\"b"} NaN\n'
    samples = read_samples(page)
    assert total(samples, "a") == 1
    assert total(samples, "b") == 32
    assert total(samples, "c") is None
    assert samples[-1].labels == {"x": 'a\\"b'}
