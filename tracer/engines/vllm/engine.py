"""The adapter: one request at a time to a vLLM server, ids in and ids out."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracer.engines.base import GenerateCall, Generation, SavedState
from tracer.engines.http.additions import Upstream
from tracer.engines.http.answer import Asked, ParsedAnswer, parse_body
from tracer.engines.http.block_cache import BlockCache
from tracer.engines.http.recorded_body import body_to_send, serve_body
from tracer.engines.http.refusals import HttpRefusal, error_object, refusal, refusal_of
from tracer.engines.vllm.backend import VllmBackend
from tracer.engines.vllm.cache_counters import Counters, counted_since, read_counters
from tracer.engines.vllm.capabilities import capabilities_of
from tracer.engines.vllm.vocabulary import VllmVocabulary
from tracer.episode import Capabilities, EngineInfo, ExposureSource, Message, Scale, StopReason, Timing
from tracer.errors import EngineDied, EngineError, EngineMissing, StateRefused
from tracer.http_body import HttpBody

_RESET_TRIES = 50
_RESET_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class _Exposure:
    cached_tokens: int | None
    source: ExposureSource
    note: str | None = None


class VllmEngine:
    """vLLM, attached or launched.

    Cold: every request gets a salt of its own, so that no block of another one fits. Fresh start of
    a warm arm: the prefix cache is emptied where the server allows it, else all requests of the arm
    share a new salt, which is the same for them and leaves other users' blocks alone.
    """

    def __init__(self, backend: VllmBackend) -> None:
        self._backend = backend
        self._vocabulary = VllmVocabulary(backend.endpoint, backend.model)
        self._salt: str | None = None
        self._known: BlockCache | None = None
        self._needs_counters = True
        """Until the first answer that counts its cached tokens itself."""

    # ---- what it is

    @property
    def info(self) -> EngineInfo:
        from msgspec.structs import replace

        info, facts = self._backend.info, self._backend.facts
        if facts.prefix_cache is False:
            return info
        ways = {
            "emptied_by": "reset_prefix_cache" if facts.can_reset else "cache_salt",
            "cold_by": "cache_salt",
        }
        return replace(info, flags=info.flags | ways)

    @property
    def capabilities(self) -> Capabilities:
        return capabilities_of(self._backend.facts)

    # ---- text and tokens

    def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None = None) -> str:
        return self._vocabulary.render(messages, tools)

    def tokenize(self, text: str) -> list[int]:
        return self._vocabulary.tokenize(text)

    def piece(self, token_id: int) -> bytes | None:
        try:
            return self._vocabulary.piece(token_id)
        except EngineError:
            return None  # a dead server must not cost the request that it has answered

    # ---- caches

    def set_layers(self, *, prefix_cache: bool, prompt_cache: bool) -> None:
        if prompt_cache or (prefix_cache and self._backend.facts.prefix_cache is False):
            raise StateRefused("vLLM's cache layers are set when it starts; start it with the ones you want.")

    def reset(self) -> None:
        """Raises ``EngineError`` when the server says that it did not empty its cache."""
        facts = self._backend.facts
        if facts.can_reset:
            self._reset_prefix_cache()
            self._salt = None
        else:
            self._salt = uuid.uuid4().hex
        self._known = BlockCache(facts.block_tokens or 1)

    def _reset_prefix_cache(self) -> None:
        """It answers 200 with ``success: false`` while a request still holds blocks; so it is asked again."""
        for _ in range(_RESET_TRIES):
            reply = self._backend.endpoint.post("/reset_prefix_cache")
            if not reply.ok:
                raise refusal_of(reply.status, reply.body)
            said = reply.json()
            if not isinstance(said, dict) or said.get("success") is not False:
                return
            time.sleep(_RESET_PAUSE_S)
        raise EngineError(
            "The server did not empty its prefix cache: it says that it is busy; stop other clients."
        )

    def held_ids(self) -> tuple[int, ...] | None:
        """The cache holds blocks of many sequences, so no one sequence says it; see ``expected_cached``."""
        return None

    def expected_cached(self, prompt_ids: Sequence[int]) -> int | None:
        """Prompt tokens that should be reused now; None while it is not known what the cache holds."""
        if self._backend.facts.prefix_cache is False:
            return 0
        return None if self._known is None else self._known.expected(prompt_ids)

    def cut(self, tokens: int) -> None:  # noqa: ARG002  # refused whatever it is
        raise StateRefused("vLLM cannot cut its cache to a prefix.")

    def decode_into_cache(self, token_ids: Sequence[int]) -> None:  # noqa: ARG002  # refused
        raise StateRefused("vLLM cannot decode given tokens one at a time.")

    def save_state(self) -> SavedState:
        raise StateRefused("vLLM cannot save the state of a sequence.")

    def restore_state(self, state: SavedState) -> None:  # noqa: ARG002  # refused whatever it is
        raise StateRefused("vLLM cannot restore the state of a sequence.")

    def close(self) -> None:
        self._backend.close()

    # ---- serving

    def generate(self, call: GenerateCall) -> Generation:
        if call.forced_ids is not None:
            raise StateRefused("vLLM chooses its tokens itself; the way forced needs --engine llama.")
        counters = self._counters()
        started_at = time.time()
        parsed, wall_s = self._ask(call)
        if parsed.error is not None:
            raise refusal(parsed.error)
        if not parsed.choices:
            raise HttpRefusal(error_object("the server answered without a completion", 200))
        choice = parsed.choices[0]
        exposure = self._exposure(call, parsed, counters)
        generated = choice.path.token_ids.tolist()
        if call.use_cache and self._known is not None:
            self._known.add((*call.prompt_ids, *generated[:-1]))
        self._vocabulary.book.learn(choice.pieces)
        self._vocabulary.book.expect((*call.prompt_ids, *generated))
        if choice.alternatives is not None:
            self._vocabulary.book.expect(choice.alternatives.ids.ravel().tolist())
        not_observed = dict(choice.not_observed)
        if call.keep_rows:
            not_observed["rows"] = "the server does not give whole rows"
        extra: dict[str, Any] = {}
        if choice.stop is StopReason.LENGTH and len(generated) < call.sampling.max_new_tokens:
            extra["clamped_to_context"] = True
        return Generation(
            path=choice.path,
            alternatives=choice.alternatives,
            scale=self._scale(choice.scale),
            stop=choice.stop,
            text=choice.text,
            identity=choice.identity,
            prompt_tokens=len(call.prompt_ids),
            cached_tokens=exposure.cached_tokens,
            exposure_source=exposure.source,
            exposure_note=exposure.note,
            pieces=choice.pieces,
            timing=Timing(started_at=started_at, wall_s=wall_s),
            not_observed=not_observed,
            extra=extra,
        )

    def _ask(self, call: GenerateCall) -> tuple[ParsedAnswer, float]:
        while_doing = f"while serving a request of {len(call.prompt_ids)} prompt tokens"
        asked = Asked(top_k=call.top_k, greedy=call.sampling.greedy, piece=self._vocabulary.book.known)
        clock = time.monotonic()
        try:
            if call.body is not None:
                fields = body_to_send(call.body, Upstream.VLLM, call.top_k, self._cache_fields(call))
                return serve_body(self._backend.endpoint, call.body, fields, asked), time.monotonic() - clock
            reply = self._backend.endpoint.post("/v1/completions", self._body(call))
        except (EngineDied, EngineMissing) as problem:
            raise self._backend.death(while_doing, problem) from problem
        if not reply.ok:
            raise refusal_of(reply.status, reply.body)
        return parse_body(reply.body, asked), reply.wall_s

    def body_prompt_ids(self, body: HttpBody) -> tuple[int, ...] | None:  # noqa: ARG002  # see below
        """None: vLLM names a prompt's ids in its answer, and a recording keeps them from there."""
        return None

    def _body(self, call: GenerateCall) -> dict[str, Any]:
        sampling = call.sampling
        body: dict[str, Any] = {
            "model": self._backend.model,
            "prompt": list(call.prompt_ids),
            "max_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "logprobs": call.top_k,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }
        optional = {"seed": sampling.seed, "top_k": sampling.top_k, "top_p": sampling.top_p}
        body |= {name: value for name, value in optional.items() if value is not None}
        return body | self._cache_fields(call) | sampling.extra

    def _cache_fields(self, call: GenerateCall) -> dict[str, Any]:
        if not call.use_cache and self._backend.facts.prefix_cache is not False:
            return {"cache_salt": uuid.uuid4().hex}
        return {} if self._salt is None else {"cache_salt": self._salt}

    def _counters(self) -> Counters | None:
        """The counters before a request; read only where answers were seen not to count."""
        if not self._backend.facts.metrics or self._backend.facts.prefix_cache is False:
            return None
        return read_counters(self._backend.endpoint) if self._needs_counters else None

    def _exposure(self, call: GenerateCall, parsed: ParsedAnswer, counters: Counters | None) -> _Exposure:
        count = parsed.count
        if count.cached_tokens is not None:
            self._needs_counters = False
            return _Exposure(count.cached_tokens, count.source, count.note)
        if self._backend.facts.prefix_cache is False:
            return _Exposure(0, ExposureSource.DECLARED, "prefix caching is off (cache_config_info)")
        if counters is None:
            return _Exposure(
                None, ExposureSource.NOT_OBSERVED, "start vLLM with --enable-prompt-tokens-details"
            )
        counted = counted_since(self._backend.endpoint, counters, len(call.prompt_ids))
        source = ExposureSource.NOT_OBSERVED if counted.cached_tokens is None else ExposureSource.METRICS
        return _Exposure(counted.cached_tokens, source, counted.note)

    def _scale(self, seen: Scale | None) -> Scale | None:
        """What the numbers are, if the server says it; else what they look like."""
        mode = self._backend.info.logprobs_mode
        if seen is None or mode is None:
            return seen
        return Scale.LOGIT if mode.endswith("logits") else Scale.LOGPROB
