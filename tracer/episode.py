"""The types of a recorded episode: Episode → Arm → Request.

All are frozen msgspec structs and are stored as msgpack maps in the trace file. Evolution rules:
a field is never renamed or removed, a new field has a default, and unknown fields are ignored.
Indices count from 0. Times are Unix seconds, durations seconds. ``None`` means NOT OBSERVED and
is never shown as 0. The numbers behind the tokens are arrays and live in ``tracer.columns``.

This module must not import numpy: on some GPU hosts the llama library has to be loaded first.
"""

from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct

DEFAULT_TOP_K = 20
DEFAULT_SEED = 42


class CacheState(StrEnum):
    """How the caches stand when a request arrives."""

    COLD = "cold"
    WARM = "warm"
    NO_PROMPT_CACHE = "no-prompt-cache"
    SNAPSHOT = "snapshot"
    AS_SERVED = "as-served"


class Priming(StrEnum):
    """How the cache was filled before the requests of an arm."""

    NONE = "none"
    OWN = "own"
    LOCKSTEP = "lockstep"
    SELF = "self"
    PREVIOUS = "previous"
    RESTORED = "restored"
    PROMPT_ONLY = "prompt-only"
    """After each request the cache is cut to its prompt; nothing that was decoded stays."""


class Way(StrEnum):
    """Where the prompts of an arm come from."""

    RECORDED = "recorded"
    FIXED = "fixed"
    CLOSED_LOOP = "closed-loop"
    FORCED = "forced"
    BODY = "body"


class Carry(StrEnum):
    """What happens to the caches between the episodes of one run."""

    EMPTIED = "emptied"
    CARRIED_OVER = "carried-over"
    SENTINEL = "sentinel"


class Identity(StrEnum):
    """What two tokens are compared by. Local ids stand for strings when it is not TOKEN_ID."""

    TOKEN_ID = "token-id"
    TOKEN_STRING = "token-string"
    TEXT = "text"


class Scale(StrEnum):
    """What the values of a request's columns are."""

    LOGIT = "logit"
    LOGPROB = "logprob"


class ExposureSource(StrEnum):
    """Who said how many prompt tokens came from a cache."""

    ENGINE = "engine"
    USAGE = "usage"
    METRICS = "metrics"
    DECLARED = "declared"
    NOT_OBSERVED = "not-observed"


class StopReason(StrEnum):
    """Why the engine stopped generating."""

    STOP = "stop"
    LENGTH = "length"
    CUT = "cut"
    ERROR = "error"
    UNKNOWN = "unknown"


class Capabilities(Struct, frozen=True, kw_only=True):
    """What an engine lets us observe and control."""

    # observe
    token_ids: bool = False
    chosen_logprob: bool = False
    top_k: int = 0
    """Most alternatives per position that it can give; 0 = none."""
    full_row: bool = False
    cached_tokens: bool = False
    # control
    reset: bool = False
    disable_per_request: bool = False
    snapshot: bool = False
    prompt_cache: bool = False
    """The second layer can be switched on and off by us."""
    forced_decode: bool = False
    """Given tokens can be decoded one at a time (ways ``forced``, priming ``lockstep``)."""
    cache_block_tokens: int = 1
    states: tuple[CacheState, ...] = ()


class EngineInfo(Struct, frozen=True, kw_only=True):
    """One engine configuration: everything known that can move a number. None = not known."""

    engine: str
    version: str | None = None
    build: str | None = None
    model_name: str | None = None
    model_hash: str | None = None
    """``sha256:<hex>`` of the weight file."""
    model_bytes: int | None = None
    architecture: str | None = None
    parameters: int | None = None
    weight_format: str | None = None
    vocabulary_tokens: int | None = None
    template_hash: str | None = None
    """``sha256:<hex>`` of the chat template's text."""
    kv_type_k: str | None = None
    kv_type_v: str | None = None
    context_tokens: int | None = None
    device: str | None = None
    device_features: str | None = None
    gpu_layers: int | None = None
    threads: int | None = None
    threads_batch: int | None = None
    batch_tokens: int | None = None
    ubatch_tokens: int | None = None
    flash_attention: str | None = None
    """As asked for; ``flags["flash_attention_resolved"]`` is what the engine says that it made of it."""
    slots: int | None = None
    prompt_cache_bytes: int | None = None
    """Size of the second layer; 0 = off, None = not known."""
    prefix_cache: bool | None = None
    """First layer switched on."""
    cache_block_tokens: int | None = None
    logprobs_mode: str | None = None
    flags: dict[str, str] = {}
    """Any other flag or setting that can move a number, by its own name."""


class Sampling(Struct, frozen=True, kw_only=True):
    """How the next token is chosen."""

    temperature: float = 0.0
    seed: int | None = DEFAULT_SEED
    top_k: int | None = None
    top_p: float | None = None
    max_new_tokens: int = 64
    extra: dict[str, Any] = {}

    @property
    def greedy(self) -> bool:
        """Only greedy requests may count towards a rate."""
        return self.temperature == 0.0

    @property
    def described(self) -> str:
        """In words. What a client did not send is “–”: the server's own default was not observed."""
        temperature = "–" if "temperature" in self.extra else f"{self.temperature:g}"
        seed = "–" if self.seed is None else self.seed
        limit = "–" if self.max_new_tokens < 0 else self.max_new_tokens
        return f"temperature {temperature}, seed {seed}, at most {limit} new tokens"


class WorkloadSpec(Struct, frozen=True, kw_only=True):
    """What is needed to run the same task again, without any file beside the trace."""

    name: str
    params: dict[str, Any] = {}
    history: Literal["ids", "messages"] = "ids"
    agent: Literal["model", "oracle"] = "model"
    """``oracle``: the transcript's own answers go into the history (teacher-forced)."""
    version: str | None = None

    @property
    def note(self) -> str | None:
        """What every figure of this task must say of itself, for instance that it is a subset."""
        said = self.params.get("note")
        return said if isinstance(said, str) and said else None


class Episode(Struct, frozen=True, kw_only=True):
    """One agent working on one task, under one engine configuration."""

    episode_id: str
    workload: WorkloadSpec
    created_at: float
    writer: str
    notes: dict[str, str] = {}


class RunPlace(Struct, frozen=True, kw_only=True):
    """Where an arm stood in a run over many episodes, so that order can be restored."""

    run_id: str
    position: int = 0
    predecessor: str | None = None
    """Episode id that was served just before on the same caches."""
    carry: Carry = Carry.EMPTIED


class Arm(Struct, frozen=True, kw_only=True):
    """One execution of the episode under one engine configuration and one cache state."""

    index: int
    state: CacheState
    priming: Priming
    way: Way
    engine: EngineInfo
    capabilities: Capabilities
    sampling: Sampling
    place: RunPlace
    started_at: float
    repeat: int = 0
    """Number of this fresh start among equal arms."""
    pass_index: int = 0
    """Number of this pass among passes that do not empty the caches in between."""
    source_arm: int | None = None
    """The arm whose prompts (and outputs, when forced or lockstep) were followed."""
    reference_arm: int | None = None
    """``snapshot``: the warm arm whose met states were restored."""
    requests_planned: int | None = None
    top_k: int = DEFAULT_TOP_K
    environment: dict[str, str] = {}
    command: str | None = None
    note: str | None = None

    @property
    def label(self) -> str:
        """Short name that is unique among the arms of one ordinary replay."""
        if self.way is Way.RECORDED:
            name = "recording"
        else:
            name = str(self.state)
            default = default_priming(self.state)
            if self.priming not in (default, Priming.NONE):
                name += f"/{self.priming}"
            if self.way not in (Way.FIXED, Way.BODY):
                name += f"/{self.way}"
        if self.repeat:
            name += f"#{self.repeat}"
        if self.pass_index:
            name += f"@{self.pass_index}"
        return name


def default_priming(state: CacheState) -> Priming:
    """The priming that a state has when nothing else is asked for."""
    if state is CacheState.COLD:
        return Priming.NONE
    if state is CacheState.SNAPSHOT:
        return Priming.RESTORED
    return Priming.OWN


class Message(Struct, frozen=True, kw_only=True):
    """One chat message that a request added to the history."""

    role: str
    content: str


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call that the agent parsed out of a request's output."""

    name: str
    arguments: str
    """JSON text, or the call's own source text where it is not JSON."""
    blocked: str | None = None
    """Why a gate refused to execute it."""


class ToolResult(Struct, frozen=True, kw_only=True):
    """What the tool answered. Errors are values."""

    name: str
    content: str
    is_error: bool = False


class Exposure(Struct, frozen=True, kw_only=True):
    """Of a request's prompt tokens, how many were served from a cache, and who said so."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    source: ExposureSource = ExposureSource.NOT_OBSERVED
    expected_tokens: int | None = None
    """Common prefix with what the caches held, floored to the block, at most prompt - 1."""
    prompt_cache_tokens: int | None = None
    """Of the cached tokens, how many the second layer brought back."""
    restored_tokens: int | None = None
    """Of the cached tokens, how many came from a restored state."""
    note: str | None = None


class PrefixBreak(Struct, frozen=True, kw_only=True):
    """Where a prompt departs from the previous prompt plus its generated ids."""

    position: int
    reuse_lost_tokens: int
    cause: str | None = None
    context_before: str = ""
    was: str = ""
    now: str = ""


class Timing(Struct, frozen=True, kw_only=True):
    """Seconds. Never part of a comparison."""

    started_at: float | None = None
    wall_s: float | None = None
    prompt_s: float | None = None
    decode_s: float | None = None
    first_token_s: float | None = None
    proxy_added_s: float | None = None


class RequestError(Struct, frozen=True, kw_only=True):
    """Why a request failed, in the engine's or our words."""

    kind: str
    message: str
    http_status: int | None = None

    @property
    def too_long(self) -> bool:
        """Whether the prompt no longer fitted into the context."""
        return self.kind in ("PromptTooLong", "HttpPromptTooLong")


class PromptRef(Struct, frozen=True, kw_only=True):
    """A prompt stored as (earlier request, length in common, tail). The tail is its own frame."""

    base_arm: int | None = None
    base_request: int | None = None
    common_tokens: int = 0
    tail_tokens: int = 0


class Request(Struct, frozen=True, kw_only=True):
    """One call of the engine. Stored last, after its columns: that is the commit."""

    index: int
    turn: int = 0
    step: int = 0
    prompt_tokens: int | None = None
    prompt: PromptRef | None = None
    """None when the prompt's ids were not observed."""
    prompt_hash: str | None = None
    """``xxh3:<hex>`` of the int32 ids, or ``sha256:<hex>`` of the text where only that is known."""
    output_tokens: int = 0
    identity: Identity = Identity.TOKEN_ID
    scale: Scale | None = None
    """Scale of all values of this request; None when no value was observed."""
    sampling: Sampling = Sampling()
    exposure: Exposure = Exposure()
    stop: StopReason = StopReason.UNKNOWN
    text: str = ""
    messages_added: tuple[Message, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    retokenized_at: int | None = None
    """``messages`` history: first position where re-tokenizing changed the ids."""
    prefix_break: PrefixBreak | None = None
    timing: Timing = Timing()
    error: RequestError | None = None
    not_observed: dict[str, str] = {}
    """Column name → why it is absent."""
    serial: bool = True
    """False when other requests were in flight at the same time."""
    http_route: str | None = None
    http_body: bytes | None = None
    """The recorded request body (proxy recordings), without headers."""
    extra: dict[str, Any] = {}


class Outcome(Struct, frozen=True, kw_only=True):
    """How the task ended. None = the workload does not score."""

    score: float | None = None
    solved: bool | None = None
    state_hash: str | None = None
    ended: str = "completed"
    details: dict[str, Any] = {}


class ArmEnd(Struct, frozen=True, kw_only=True):
    """Last frame of an arm. An arm without it is incomplete."""

    requests: int
    completed: bool
    outcome: Outcome | None = None
    reason: str | None = None
    elapsed_s: float | None = None
    metrics: dict[str, float] = {}
