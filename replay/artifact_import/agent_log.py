"""The agent log of one arm: ``raw_requests.jsonl`` with what lies beside it, checked line by line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from replay.artifact_import.arm_folders import ArmFolder
from replay.artifact_import.log_lines import decoded_file, decoded_lines, refused
from replay.artifact_import.responses import LocalIds, ParsedAnswer, Refusal, Response, parse_answer, require
from tracer.clean_text import clean
from tracer.errors import UsageError

ARM_NAMES = {True: "C+", False: "C-"}


class AgentLine(Struct, frozen=True):
    """One line of the log; fields that are not needed are ignored."""

    episode_id: str
    request_idx: int
    arm: str
    backend: str
    prompt_sha256: str
    latency_s: float
    response: Response


class EpisodeMeta(Struct, frozen=True):
    """One entry of ``episode_meta.json``."""

    error: str | None = None
    n_requests: int | None = None


class Score(Struct, frozen=True):
    """One entry of ``scores.json``."""

    valid: bool
    error_type: str | None = None


class RunMeta(Struct, frozen=True):
    """October's ``run_meta.json``."""

    order: list[str] | None = None
    logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request of an episode, ready to be written."""

    line: AgentLine
    answer: ParsedAnswer


@dataclass(frozen=True, slots=True)
class ArmLog:
    """One arm of the artifact: its episodes in execution order."""

    folder: ArmFolder
    episodes: dict[str, list[LoggedRequest]]
    errors: dict[str, str]
    scores: dict[str, Score]
    alternatives: int

    @property
    def started_at(self) -> int:
        """Unix seconds of the first answer."""
        first = next(iter(self.episodes.values()))
        return first[0].line.response.created


def read_arm(folder: ArmFolder, local: dict[str, LocalIds]) -> ArmLog:
    """Read and check one arm; ``local`` numbers token strings for each episode, over all its arms."""
    episodes: dict[str, list[LoggedRequest]] = {}
    created = 0
    for number, line in decoded_lines(folder.log, AgentLine):
        try:
            _check(line, folder, episodes.get(line.episode_id, []), created)
            answer = parse_answer(line.response, line.backend, local.setdefault(line.episode_id, LocalIds()))
        except Refusal as refusal:
            raise refused(folder.log, number, str(refusal)) from refusal
        created = line.response.created
        if line.episode_id not in episodes:
            episodes[line.episode_id] = []
        elif next(reversed(episodes)) != line.episode_id:
            raise refused(
                folder.log, number, f"episode {clean(line.episode_id)} comes back after another one"
            )
        episodes[line.episode_id].append(LoggedRequest(line, answer))
    if not episodes:
        raise UsageError(f"{folder.log} holds no request.")
    meta = _run_meta(folder.folder / "run_meta.json", episodes)
    alternatives = folder.alternatives if meta is None or meta.logprobs is None else meta.logprobs
    return ArmLog(
        folder=folder,
        episodes=episodes,
        errors=_errors(folder.folder / "episode_meta.json"),
        scores=_scores(folder.folder / "scores.json"),
        alternatives=alternatives,
    )


def _check(line: AgentLine, folder: ArmFolder, before: list[LoggedRequest], created: int) -> None:
    require(line.backend == folder.configuration.backend, f"backend {clean(line.backend)} in this folder")
    require(
        line.arm == ARM_NAMES[folder.cache_on],
        f"arm {clean(line.arm)} in a folder of cache {'on' if folder.cache_on else 'off'}",
    )
    require(
        line.request_idx == len(before),
        f"request {line.request_idx} of {clean(line.episode_id)} where {len(before)} is next",
    )
    sha = line.prompt_sha256
    is_hash = len(sha) == 64 and all(c in "0123456789abcdef" for c in sha)
    require(is_hash, "prompt_sha256 is no hexadecimal SHA-256")
    require(line.response.created >= created, "created goes backwards, so the execution order is not told")


def _run_meta(path: Path, episodes: dict[str, list[LoggedRequest]]) -> RunMeta | None:
    if not path.is_file():
        return None
    meta = decoded_file(path, RunMeta)
    served = list(episodes)
    if meta.order is not None and [e for e in meta.order if e in episodes] != served:
        raise UsageError(f"{path}: its order is not the order of the log; the importer refuses to guess.")
    return meta


def _errors(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    found = decoded_file(path, dict[str, EpisodeMeta])
    return {episode: meta.error for episode, meta in found.items() if meta.error is not None}


def _scores(path: Path) -> dict[str, Score]:
    return decoded_file(path, dict[str, Score]) if path.is_file() else {}
