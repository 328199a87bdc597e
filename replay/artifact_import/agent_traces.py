"""Agent logs of one experiment as traces: one file an episode, one arm a folder of the artifact."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from replay.artifact_import.agent_log import ArmLog, LoggedRequest, read_arm
from replay.artifact_import.arm_folders import ArmFolder
from replay.artifact_import.responses import LocalIds, ParsedAnswer
from replay.artifact_import.settings import AGENT_MAX_TOKENS, sampling
from tracer.clean_text import clean
from tracer.episode import (
    Arm,
    ArmEnd,
    CacheState,
    Capabilities,
    Episode,
    Exposure,
    ExposureSource,
    Identity,
    Outcome,
    Priming,
    Request,
    RunPlace,
    Scale,
    Timing,
    Way,
    WorkloadSpec,
)
from tracer.errors import UsageError
from tracer.tracefile import TraceWriter

IMPORTED = "imported from released logs; prompts are not in them, so this arm cannot be replayed"
NOT_IN_LOG = {
    "prompt": "the logs keep a hash of the prompt's text only",
    "log_sum_exp": "the engine gives logprobs only",
    "fingerprints": "the engine gives no whole row",
}


def write_experiment(name: str, folders: Sequence[ArmFolder], output: Path, *, anyway: bool) -> list[Path]:
    """Read all arms of an experiment and write a trace for each of its episodes.

    Episodes that are missing in one of the arms are refused; ``anyway`` leaves them out.
    """
    local: dict[str, LocalIds] = {}
    arms = sorted((read_arm(folder, local) for folder in folders), key=lambda arm: arm.started_at)
    common = _common_episodes(name, arms, anyway)
    written = []
    for episode_id in common:
        path = output / name / f"{_file_name(episode_id)}.msgpack"
        _write_episode(path, name, episode_id, arms)
        written.append(path)
    return written


def exposure_of(answer: ParsedAnswer, prompt_tokens: int, *, cold: bool) -> Exposure:
    """As the engine counted it. A null count is declared by the harness's settings, never 0.

    What a warm cache should have served needs the prompts, which are not in the logs.
    """
    observed = answer.cached_tokens is not None
    return Exposure(
        prompt_tokens=prompt_tokens,
        cached_tokens=answer.cached_tokens,
        source=ExposureSource.USAGE if observed else ExposureSource.DECLARED,
        expected_tokens=0 if cold else None,
    )


def capabilities_of(identity: Identity, alternatives: int) -> Capabilities:
    """What the logs let us see; nothing can be controlled any more."""
    return Capabilities(
        token_ids=identity is Identity.TOKEN_ID,
        chosen_logprob=identity is not Identity.TEXT,
        top_k=alternatives,
        cached_tokens=identity is Identity.TOKEN_ID,
    )


def request_of(
    index: int,
    answer: ParsedAnswer,
    exposure: Exposure,
    prompt_hash: str,
    created: int,
    latency_s: float,
    max_tokens: int = AGENT_MAX_TOKENS,
) -> Request:
    """The description of one logged request."""
    observed = answer.path.chosen_values is not None
    return Request(
        index=index,
        prompt_tokens=exposure.prompt_tokens,
        prompt_hash=prompt_hash,
        identity=answer.identity,
        scale=Scale.LOGPROB if observed else None,
        sampling=sampling(max_tokens),
        exposure=exposure,
        stop=answer.stop,
        text=answer.text,
        timing=Timing(started_at=float(created), wall_s=latency_s),
        not_observed=NOT_IN_LOG,
    )


def _common_episodes(name: str, arms: Sequence[ArmLog], anyway: bool) -> list[str]:
    everywhere = [e for e in arms[0].episodes if all(e in arm.episodes for arm in arms)]
    if anyway:
        return everywhere
    for arm in arms:
        extra = [e for e in arm.episodes if e not in set(everywhere)]
        if extra:
            raise UsageError(
                f"{name}: {len(extra)} episodes of {arm.folder.log} are missing in another arm, for instance "
                f"{clean(extra[0])}; --anyway leaves them out."
            )
    return everywhere


def _file_name(episode_id: str) -> str:
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in episode_id)
    return safe.strip(".") or "episode"


def _write_episode(path: Path, name: str, episode_id: str, arms: Sequence[ArmLog]) -> None:
    number = episode_id.rsplit("_", 1)[-1]
    episode = Episode(
        episode_id=episode_id,
        workload=WorkloadSpec(name="bfcl", params={"id": number}, history="messages", version="harness"),
        created_at=float(arms[0].episodes[episode_id][0].line.response.created),
        writer="cachetrace import",
        notes={f"arm {i}": str(arm.folder.folder.name) for i, arm in enumerate(arms)} | {"experiment": name},
    )
    with TraceWriter.create(path, episode) as writer:
        for log in arms:
            _write_arm(writer, name, episode_id, log)


def _write_arm(writer: TraceWriter, name: str, episode_id: str, log: ArmLog) -> None:
    folder = log.folder
    requests = log.episodes[episode_id]
    served = list(log.episodes)
    position = served.index(episode_id)
    cold = folder.state is CacheState.COLD
    arm = writer.begin_arm(
        Arm(
            index=0,
            state=folder.state,
            priming=Priming.NONE if cold else Priming.OWN,
            way=Way.CLOSED_LOOP,
            engine=folder.configuration.engine(
                prompt_cache=folder.state is CacheState.WARM,
                prefix_cache=folder.cache_on,
                alternatives=log.alternatives,
            ),
            capabilities=capabilities_of(requests[0].answer.identity, log.alternatives),
            sampling=sampling(AGENT_MAX_TOKENS),
            place=RunPlace(
                run_id=f"{name}-{'repeat' if folder.pass_index or folder.repeat else 'main'}",
                position=position,
                predecessor=served[position - 1] if position else None,
                carry=folder.carry,
            ),
            started_at=float(requests[0].line.response.created),
            repeat=folder.repeat,
            pass_index=folder.pass_index,
            top_k=log.alternatives,
            note=IMPORTED,
        )
    )
    for index, logged in enumerate(requests):
        _write_request(writer, arm.index, index, logged, cold=cold)
    error = log.errors.get(episode_id)
    score = log.scores.get(episode_id)
    outcome = None
    if score is not None:
        details = {"error_type": score.error_type} if score.error_type else {}
        forced = score.error_type is not None and score.error_type.endswith(":force_terminated")
        ended = "force_terminated" if forced else "completed"
        outcome = Outcome(score=float(score.valid), solved=score.valid, ended=ended, details=details)
    writer.end_arm(
        arm.index,
        ArmEnd(
            requests=len(requests),
            completed=error is None,
            outcome=outcome,
            reason=None if error is None else f"the episode raised {clean(error)[:200]}",
        ),
    )


def _write_request(writer: TraceWriter, arm: int, index: int, logged: LoggedRequest, *, cold: bool) -> None:
    line, answer = logged.line, logged.answer
    exposure = exposure_of(answer, line.response.usage.prompt_tokens, cold=cold)
    request = request_of(
        index, answer, exposure, f"sha256:{line.prompt_sha256}", line.response.created, line.latency_s
    )
    writer.write_request(
        arm, request, path=answer.path, alternatives=answer.alternatives, pieces=answer.pieces
    )
