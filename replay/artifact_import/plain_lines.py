"""Plain JSON Lines of requests and answers as traces.

One line a request. Fields (those with * are needed)::

    episode*       str    the task; lines of one episode make one trace
    request*       int    from 0 within an episode and arm
    state          str    cold, warm, no-prompt-cache or as-served (default)
    repeat         int    number of this fresh start among equal arms, default 0
    prompt_ids     [int]  the prompt as token ids; only with them can the trace be replayed
    prompt         str    the prompt's text; its SHA-256 is kept, not the text itself
    prompt_sha256  str    the hash alone, when the text is not to be given away
    output_ids     [int]  the answer as token ids, or
    tokens         [str]  as token strings, or
    text           str    as text, which is then compared as one token
    logprobs       [num]  natural-log probability of each output token
    top_logprobs   [[[id or string, num], …], …]   alternatives of each position, best first
    prompt_tokens  int    as the engine counted them
    cached_tokens  int    of these, from a cache; leave out what was not observed, never write 0 for it
    expected_cached_tokens int  what the cache should have served
    finish         str    stop or length
    temperature    num    default 0; other lines give no rates
    seed           int
    max_new_tokens int
    engine, version, model, weights  str
    solved         bool   how the task ended, on the last line of an arm
    latency_s      num
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from replay.artifact_import.log_lines import decoded_lines, refused
from replay.artifact_import.responses import LocalIds, Refusal, require
from tracer.clean_text import clean
from tracer.columns import Alternatives, PathColumns, PositionFlag
from tracer.episode import (
    Arm,
    ArmEnd,
    CacheState,
    Capabilities,
    EngineInfo,
    Episode,
    Exposure,
    ExposureSource,
    Identity,
    Outcome,
    Request,
    RunPlace,
    Sampling,
    Scale,
    StopReason,
    Timing,
    Way,
    WorkloadSpec,
    default_priming,
)
from tracer.errors import UsageError
from tracer.tracefile import TraceWriter

NOTE = "imported from JSON Lines"


class PlainLine(Struct, frozen=True, forbid_unknown_fields=True):
    """One request and its answer."""

    episode: str
    request: int
    state: CacheState = CacheState.AS_SERVED
    repeat: int = 0
    prompt_ids: list[int] | None = None
    prompt: str | None = None
    prompt_sha256: str | None = None
    output_ids: list[int] | None = None
    tokens: list[str] | None = None
    text: str | None = None
    logprobs: list[float | None] | None = None
    top_logprobs: list[list[tuple[int | str, float]]] | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    expected_cached_tokens: int | None = None
    finish: str | None = None
    temperature: float = 0.0
    seed: int | None = None
    max_new_tokens: int = 0
    engine: str = "unknown"
    version: str | None = None
    model: str | None = None
    weights: str | None = None
    solved: bool | None = None
    latency_s: float | None = None


ArmKey = tuple[CacheState, int]


def write_plain(path: Path, output: Path) -> list[Path]:
    """One trace an episode; arms in the order in which they first appear."""
    episodes: dict[str, dict[ArmKey, list[PlainLine]]] = {}
    for number, line in decoded_lines(path, PlainLine):
        arms = episodes.setdefault(line.episode, {})
        requests = arms.setdefault((line.state, line.repeat), [])
        try:
            _check(line, len(requests))
        except Refusal as refusal:
            raise refused(path, number, str(refusal)) from refusal
        requests.append(line)
    if not episodes:
        raise UsageError(f"{path} holds no request.")
    written = []
    for place, (name, arms) in enumerate(episodes.items()):
        target = output / f"{place:05d}.msgpack"
        _write_episode(target, name, place, arms)
        written.append(target)
    return written


def _check(line: PlainLine, expected: int) -> None:
    require(line.request == expected, f"request {line.request} where {expected} is next in this arm")
    require(line.repeat >= 0, "repeat is negative")
    require(line.state is not CacheState.SNAPSHOT, "a snapshot arm cannot be imported")
    given = [x for x in (line.output_ids, line.tokens) if x is not None]
    require(bool(given) or line.text is not None, "it has neither output_ids nor tokens nor text")
    require(len(given) < 2, "give output_ids or tokens, not both")
    n = len(given[0]) if given else 1
    for name, column in (("logprobs", line.logprobs), ("top_logprobs", line.top_logprobs)):
        require(column is None or (bool(given) and len(column) == n), f"{name} is not as long as the answer")
    ids = [*(line.output_ids or []), *(line.prompt_ids or [])]
    require(all(0 <= i < 1 << 31 for i in ids), "a token id is not between 0 and 2147483647")
    known = [c for c in (line.cached_tokens, line.prompt_tokens) if c is not None]
    require(all(c >= 0 for c in known), "a count is negative")
    require(len(known) < 2 or known[0] <= known[1], "more cached tokens than prompt tokens")
    require(
        line.finish in (None, "stop", "length"), f"finish {clean(str(line.finish))} is not stop or length"
    )


def _write_episode(path: Path, name: str, place: int, arms: dict[ArmKey, list[PlainLine]]) -> None:
    episode = Episode(
        episode_id=name,
        workload=WorkloadSpec(name="imported"),
        created_at=0.0,
        writer="cachetrace import",
        notes={"source": NOTE},
    )
    local = LocalIds()
    with TraceWriter.create(path, episode) as writer:
        for key, lines in arms.items():
            _write_arm(writer, key, place, lines, local)


def _write_arm(
    writer: TraceWriter, key: ArmKey, place: int, lines: Sequence[PlainLine], local: LocalIds
) -> None:
    state, repeat = key
    first = lines[0]
    k = max((len(row) for line in lines for row in line.top_logprobs or []), default=0)
    arm = writer.begin_arm(
        Arm(
            index=0,
            state=state,
            priming=default_priming(state),
            way=Way.CLOSED_LOOP,
            engine=EngineInfo(
                engine=first.engine,
                version=first.version,
                model_name=first.model,
                weight_format=first.weights,
            ),
            capabilities=Capabilities(
                token_ids=first.output_ids is not None,
                chosen_logprob=first.logprobs is not None,
                top_k=k,
                cached_tokens=first.cached_tokens is not None,
            ),
            sampling=_sampling(first),
            place=RunPlace(run_id=NOTE, position=place),
            started_at=0.0,
            repeat=repeat,
            top_k=k,
            note=NOTE,
        )
    )
    for line in lines:
        path, alternatives, pieces, identity = _columns(line, local)
        writer.write_request(
            arm.index,
            _request(line, identity),
            prompt_ids=line.prompt_ids,
            path=path,
            alternatives=alternatives,
            pieces=pieces,
        )
    solved = next((line.solved for line in reversed(lines) if line.solved is not None), None)
    outcome = None if solved is None else Outcome(score=float(solved), solved=solved)
    writer.end_arm(arm.index, ArmEnd(requests=len(lines), completed=True, outcome=outcome))


def _sampling(line: PlainLine) -> Sampling:
    return Sampling(temperature=line.temperature, seed=line.seed, max_new_tokens=line.max_new_tokens)


def _request(line: PlainLine, identity: Identity) -> Request:
    sha = line.prompt_sha256
    if line.prompt is not None:
        sha = hashlib.sha256(line.prompt.encode("utf-8", "surrogatepass")).hexdigest()
    source = ExposureSource.NOT_OBSERVED if line.cached_tokens is None else ExposureSource.USAGE
    return Request(
        index=line.request,
        prompt_tokens=line.prompt_tokens,
        prompt_hash=None if sha is None else f"sha256:{sha}",
        identity=identity,
        scale=None if line.logprobs is None else Scale.LOGPROB,
        sampling=_sampling(line),
        exposure=Exposure(
            prompt_tokens=line.prompt_tokens,
            cached_tokens=line.cached_tokens,
            source=source,
            expected_tokens=0 if line.state is CacheState.COLD else line.expected_cached_tokens,
        ),
        stop=StopReason(line.finish) if line.finish else StopReason.UNKNOWN,
        text=line.text if line.text is not None else "".join(line.tokens or []),
        timing=Timing(wall_s=line.latency_s),
    )


def _columns(
    line: PlainLine, local: LocalIds
) -> tuple[PathColumns, Alternatives | None, dict[int, bytes], Identity]:
    pieces: dict[int, bytes] = {}

    def number(token: int | str) -> int:
        if isinstance(token, int):
            return token
        piece = token.encode("utf-8", "surrogatepass")
        found = local.of(piece)
        pieces[found] = piece
        return found

    if line.output_ids is not None:
        identity, ids = Identity.TOKEN_ID, list(line.output_ids)
    elif line.tokens is not None:
        identity, ids = Identity.TOKEN_STRING, [number(token) for token in line.tokens]
    else:
        identity, ids = Identity.TEXT, [number(line.text)] if line.text else []
    seen = [value is not None for value in line.logprobs or []] or [False] * len(ids)
    flags = np.where(np.array(seen, bool), PositionFlag.VALUE, 0).astype(np.uint8)
    values = None
    if line.logprobs is not None:
        values = np.array([np.nan if v is None else v for v in line.logprobs], np.float32)
    alternatives = None
    k = max((len(row) for row in line.top_logprobs or []), default=0)
    if line.top_logprobs is not None and k:
        table_ids, table = np.full((len(ids), k), -1, np.int32), np.full((len(ids), k), -np.inf, np.float32)
        counts = np.zeros(len(ids), np.uint8)
        for row, listed in enumerate(line.top_logprobs):
            ordered = sorted(listed, key=lambda one: -one[1])
            counts[row] = len(ordered)
            table_ids[row, : len(ordered)] = [number(token) for token, _ in ordered]
            table[row, : len(ordered)] = [value for _, value in ordered]
        flags[counts > 0] |= np.uint8(PositionFlag.ALTERNATIVES)
        alternatives = Alternatives(table_ids, table, counts)
    path = PathColumns(token_ids=np.array(ids, np.int32), flags=flags, chosen_values=values)
    return path, alternatives, pieces, identity
