"""Small logs in the layout of the paper's released artifact. All content is made up."""

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Line = dict[str, Any]


def entry(token: int, logprob: float, alternatives: int = 1) -> Line:
    piece = f" t{token}"
    top = [
        {
            "id": token + i,
            "token": f" t{token + i}",
            "logprob": logprob - 0.05 * i,
            "bytes": list(f" t{token + i}".encode()),
        }
        for i in range(alternatives)
    ]
    return {
        "id": token,
        "token": piece,
        "logprob": logprob,
        "bytes": list(piece.encode()),
        "top_logprobs": top,
    }


def llama_response(tokens: list[int], prompt: int, cached: int, created: int, alternatives: int = 1) -> Line:
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": created,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "text": "".join(f" t{t}" for t in tokens),
                "finish_reason": "stop",
                "logprobs": {"content": [entry(t, -0.01 * (t % 7) - 0.001, alternatives) for t in tokens]},
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": len(tokens),
            "total_tokens": prompt + len(tokens),
            "prompt_tokens_details": {"cached_tokens": cached},
        },
        "timings": {"cache_n": cached, "prompt_n": prompt - cached, "prompt_ms": 3.0, "predicted_ms": 9.0},
    }


def vllm_response(tokens: list[str], prompt: int, created: int) -> Line:
    offsets, at = [], 0
    for token in tokens:
        offsets.append(at)
        at += len(token)
    return {
        "created": created,
        "choices": [
            {
                "index": 0,
                "text": "".join(tokens),
                "finish_reason": "stop",
                "logprobs": {
                    "tokens": tokens,
                    "token_logprobs": [-0.1] * len(tokens),
                    "top_logprobs": [{token: -0.1} for token in tokens],
                    "text_offset": offsets,
                },
            }
        ],
        "usage": {"prompt_tokens": prompt, "completion_tokens": len(tokens), "prompt_tokens_details": None},
    }


def agent_line(episode: str, index: int, on: bool, backend: str, prompt: str, response: Line) -> Line:
    return {
        "episode_id": episode,
        "request_idx": index,
        "arm": "C+" if on else "C-",
        "backend": backend,
        "prompt_sha256": hashlib.sha256(prompt.encode()).hexdigest(),
        "prompt_chars": len(prompt),
        "prompt_tokens_local_count": 100,
        "latency_s": 0.25,
        "response": response,
    }


def write_log(folder: Path, lines: list[Line], *, packed: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    raw = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path = folder / ("raw_requests.jsonl.gz" if packed else "raw_requests.jsonl")
    path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


class Artifact:
    """A small artifact: two episodes of two requests; episode 1 flips at request 1, token 2, when cached."""

    EPISODES = ("multi_turn_base_0", "multi_turn_base_1")

    def __init__(self, root: Path) -> None:
        self.root = root

    def lines(self, on: bool, created: int, backend: str = "llamacpp", alternatives: int = 1) -> list[Line]:
        lines = []
        for e, episode in enumerate(self.EPISODES):
            for i in range(2):
                tokens = [10 + i, 20, 30, 40]
                if on and e == 1 and i == 1:
                    tokens = [10 + i, 20, 31, 40]
                cached = 80 if on and (e or i) else 0
                created += 1
                if backend == "llamacpp":
                    response = llama_response(tokens, 100 + i, cached, created, alternatives)
                else:
                    response = vllm_response([f"w{t} " for t in tokens], 100 + i, created)
                lines.append(agent_line(episode, i, on, backend, f"{episode} {i}", response))
        return lines

    def grid(self, name: str = "lcpp-qwen7b-q4km", backend: str = "llamacpp") -> Path:
        start = 1_780_000_000
        for p, passed in enumerate(("main", "repeat")):
            for a, on in enumerate((True, False)):
                folder = self.root / "results" / name / passed / f"arm_{'on' if on else 'off'}"
                write_log(folder, self.lines(on, start + 1000 * (2 * p + a), backend), packed=bool(p))
                scores = {e: {"valid": e.endswith("0"), "error_type": None} for e in self.EPISODES}
                (folder / "scores.json").write_text(json.dumps(scores))
                meta = {e: {"wall_s": 1.0, "n_requests": 2, "error": None} for e in self.EPISODES}
                (folder / "episode_meta.json").write_text(json.dumps(meta))
        return self.root / "results" / name

    def change(self, log: Path, edit: Callable[[list[Line]], Any]) -> None:
        packed = log.suffix == ".gz"
        raw = gzip.decompress(log.read_bytes()) if packed else log.read_bytes()
        lines = [json.loads(line) for line in raw.splitlines()]
        edit(lines)
        write_log(log.parent, lines, packed=packed)

    def bridge(self, name: str = "bridge-qwen7b-q80", items: int = 3) -> Path:
        folder = self.root / "results" / name / "cache_on"
        lines, created = [], 1_780_000_000
        summary = []
        for item in range(items):
            texts = {}
            for serving in ("cold", "cold2", "warm", "warm2"):
                warm = serving.startswith("warm")
                answer = 7 if warm and item == 1 else 5
                created += 1
                response = llama_response([1, 2, answer], 60, 59 if warm else 0, created)
                response["choices"][0]["text"] = f"so #### {answer}"
                texts[serving] = response["choices"][0]["text"]
                lines.append(
                    {
                        "item_idx": item,
                        "pass": serving,
                        "cache_setting": "on",
                        "backend": "llamacpp",
                        "prompt_sha256": hashlib.sha256(f"item {item}".encode()).hexdigest(),
                        "latency_s": 0.1,
                        "response": response,
                    }
                )
            summary.append(
                {
                    "item_idx": item,
                    "gold": "5",
                    "texts_identical": texts["cold"] == texts["warm"],
                    "cold_correct": True,
                }
            )
        write_log(folder, lines)
        (folder / "summary.json").write_text(json.dumps(summary))
        return folder

    def reset(self, items: int = 2) -> Path:
        folder = self.root / "results-repair" / "repair" / "reset-lcpp"
        lines, created = [], 1_780_000_000
        for item in range(items):
            for phase in ("cold_1", "warm_1", "cold_2", "warm_2"):
                warm = phase.startswith("warm")
                created += 1
                response = llama_response([1, 2, 9 if warm and item else 3], 60, 59 if warm else 0, created)
                lines.append(
                    {
                        "item_idx": item,
                        "phase": phase,
                        "backend": "llamacpp",
                        "mode": "toggle",
                        "how": "cache_prompt",
                        "cached_tokens": 59 if warm else 0,
                        "latency_s": 0.1,
                        "response": response,
                    }
                )
        write_log(folder, lines)
        return folder


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    return Artifact(tmp_path / "artifact")
