"""The official client through the proxy, before the real llama.cpp server."""

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest

from replay.divergence import analyse
from replay.verdicts import Verdict
from tests.tracer.proxy.agent_script import TOOLS
from tracer.engines.http.additions import Upstream
from tracer.engines.http.recognise import recognise
from tracer.episode import Identity, Way
from tracer.proxy.app import ProxyOptions, build_app
from tracer.proxy.episodes import EpisodeNames
from tracer.proxy.recording import Recording
from tracer.tracefile import TraceReader

from .serving import served

pytestmark = pytest.mark.llama_server

# What differs between two equal requests to one server: names, clocks and speeds, nothing else.
VOLATILE = {"id", "created", "timings"}


def requests() -> list[dict[str, Any]]:
    """50 requests: chat and completions, streamed and not, with and without each thing one may ask for."""
    found = []
    questions = ["Name a colour.", "Zähle bis drei. 🙂", "What is 2+2?", 'Say "hi".', "Write [/INST] please."]
    asked: list[dict[str, Any]] = [
        {},
        {"logprobs": True, "top_logprobs": 2},
        {"tools": TOOLS},
        {"stop": ["a"]},
        {"max_tokens": 1},
        {"response_format": {"type": "json_object"}},
        {"n": 1, "presence_penalty": 0.5},
    ]
    for (number, extra), stream in itertools.product(enumerate(asked), (False, True)):
        if stream and "tools" in extra and "logprobs" in extra:
            continue
        usage = {"stream_options": {"include_usage": True}} if stream and number % 2 else {}
        found += [
            {
                "route": "chat",
                "messages": [{"role": "user", "content": questions[(number + step) % 5]}],
                "max_tokens": 8,
                "stream": stream,
                **usage,
                **extra,
            }
            for step in (0, 2, 3)
        ]
    completions: list[dict[str, Any]] = [{}, {"logprobs": 2}, {"stop": ["\n"]}, {"max_tokens": 1}]
    for extra, stream in itertools.product(completions, (False, True)):
        found.append({"route": "completions", "prompt": "Once", "max_tokens": 6, "stream": stream, **extra})
    assert len(found) == 50
    return found


def plain(value: Any) -> Any:
    """An answer object of the client as data, without what no two answers share."""
    data = value.model_dump() if hasattr(value, "model_dump") else value
    return {key: item for key, item in data.items() if key not in VOLATILE}


def ask(client: openai.OpenAI, wanted: dict[str, Any]) -> list[Any]:
    wanted = dict(wanted)
    route = client.chat.completions if wanted.pop("route") == "chat" else client.completions
    answer = route.create(model="any", temperature=0, seed=42, extra_body={"cache_prompt": False}, **wanted)  # type: ignore[call-overload]
    if not wanted["stream"]:
        return [plain(answer)]
    return [plain(event) for event in answer]


def test_the_client_sees_what_it_would_see_without_the_proxy(llama_url: str, tmp_path: Path) -> None:
    upstream = recognise(llama_url)
    recording = Recording(tmp_path, upstream.info, upstream.capabilities, print, top_k=20)
    options = ProxyOptions(
        upstream_url=llama_url,
        upstream=Upstream.LLAMA_SERVER,
        bound_host="127.0.0.1",
        names=EpisodeNames(only="all"),
        record=recording.take,
    )
    wanted = requests()
    try:
        with served(build_app(options)) as url:
            through = openai.OpenAI(base_url=url + "/v1", api_key="x", max_retries=0)
            direct = openai.OpenAI(base_url=llama_url + "/v1", api_key="x", max_retries=0)
            for each in wanted:
                assert ask(through, each) == ask(direct, each), each
            through.close()
            direct.close()
    finally:
        recording.close()
    with TraceReader.open(tmp_path / "all.msgpack") as trace:
        arm = trace.arms[0]
        recorded = trace.requests(arm)
        assert len(recorded) == len(wanted)
        for request, each in zip(recorded, wanted, strict=True):
            assert request.error is None, request.error
            assert request.identity is Identity.TOKEN_ID
            assert request.exposure.cached_tokens == 0
            assert request.exposure.prompt_tokens
            alternatives = trace.alternatives(arm, request.index)
            assert alternatives is not None
            if "logprobs" not in each:
                assert alternatives.counts.max() >= 20


def cachetrace(*arguments: object) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[3]
    command = [sys.executable, str(root / "cachetrace.py"), *(str(each) for each in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_an_unchanged_agent_is_recorded_and_replayed_by_its_bodies(llama_url: str, tmp_path: Path) -> None:
    """``record --proxy … -- python agent.py``: the agent only reads the usual variables."""
    agent = Path(__file__).with_name("agent_script.py")
    done = cachetrace(
        "record", "--proxy", "127.0.0.1:0", "--url", llama_url, "-o", tmp_path, "--", sys.executable, agent
    )
    assert "OPENAI_BASE_URL" in done.stderr
    (path,) = tmp_path.glob("*.msgpack")
    with TraceReader.open(path) as trace:
        arm = trace.arms[0]
        recorded = trace.requests(arm)
        assert [request.error for request in recorded] == [None] * 3
        exposures = [request.exposure.cached_tokens for request in recorded]
        assert exposures[1] is not None
        assert exposures[1] > 100, "the second request met the first one's prefix"
        assert recorded[0].sampling.greedy
        assert [message.role for message in recorded[0].messages_added] == ["system", "user"]

    cachetrace("replay", path, "--engine", "llama-server", "--url", llama_url, "--state", "cold,warm", "-q")
    with TraceReader.open(path) as trace:
        analysis = analyse(trace)
        replayed = trace.arms[1:]
        assert [arm.way for arm in replayed] == [Way.BODY] * 4
        for arm in replayed[:2]:
            assert [request.exposure.cached_tokens for request in trace.requests(arm)] == [0, 0, 0]
        for arm in replayed:
            # The ids that template and tokenizer gave are as many as the server itself counted.
            assert [r.exposure.note for r in trace.requests(arm)] == [None] * 3
        (cold_again,) = (c for c in analysis.controls if c.arm == 2)
        assert {each.verdict for each in cold_again.requests} == {Verdict.IDENTICAL}
        warm = next(c for c in analysis.comparisons if c.arm == 3)
        assert warm.requests[1].exposure_b is not None
        assert warm.requests[1].exposure_b.cached_tokens
        assert warm.requests[1].verdict in (Verdict.DRIFTED, Verdict.FLIPPED)
