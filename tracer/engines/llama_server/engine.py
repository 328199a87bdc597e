"""The adapter: one request at a time to a llama.cpp server, ids in and ids out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tracer.engines.base import GenerateCall, Generation, SavedState
from tracer.engines.http.additions import Upstream
from tracer.engines.http.answer import Asked, ParsedAnswer, StreamedAnswer, parse_body
from tracer.engines.http.recorded_body import body_to_send, serve_body
from tracer.engines.http.refusals import refusal, refusal_of
from tracer.engines.llama_server.backend import Backend
from tracer.engines.llama_server.generation import generation_of
from tracer.engines.llama_server.second_layer import overwrite, see_second_layer
from tracer.engines.llama_server.slot_states import SLOT, SlotStates
from tracer.engines.llama_server.traffic import TrafficWatch
from tracer.engines.llama_server.vocabulary import ServerVocabulary
from tracer.episode import CacheState, Capabilities, EngineInfo, Identity, Message, Timing
from tracer.errors import EngineDied, EngineError, EngineMissing, StateRefused
from tracer.http_body import HttpBody

MOST_ALTERNATIVES = 255
PROGRESS_FROM_TOKENS = 512
"""Prompts with at least so many tokens to compute are streamed, so that their progress is seen."""


class LlamaServerEngine:
    """llama.cpp's server, attached or launched.

    What the slot holds is kept as our own account: after a request, its prompt and all generated
    tokens but the last (that one was chosen and never decoded). It is checked against the number
    of tokens that the server says the slot holds, and forgotten when another client interferes.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._vocabulary = ServerVocabulary()
        self._states = SlotStates(backend)
        self._prefix_cache = True
        self._held: tuple[int, ...] | None = ()
        self._served = 0
        self._watch: TrafficWatch | None = None
        self._layer_seen: bool | None = None
        if not backend.owned:
            self._watch = TrafficWatch(backend.endpoint)
            self._look_at_second_layer()

    def _look_at_second_layer(self) -> None:
        """Of an attached server it is only known what it does. A busy one is left alone."""
        assert self._watch is not None
        self._held = None
        if self._watch.before_request() is None:
            seen = see_second_layer(self._backend.endpoint, self._vocabulary.tokenize, self._slot)
            self._layer_seen, self._held = seen.on, seen.held
            self._watch.after_request()

    # ---- what it is

    @property
    def info(self) -> EngineInfo:
        from msgspec.structs import replace

        info, flags = self._backend.info, {}
        if self._slot is not None:
            flags["pinned_slot"] = str(self._slot)
        if self._layer_seen is not None:
            flags["prompt_cache_seen"] = "on" if self._layer_seen else "off"
        if self._layer_seen is False:
            info = replace(info, prompt_cache_bytes=0)
        return replace(info, flags=info.flags | flags) if flags else info

    @property
    def capabilities(self) -> Capabilities:
        owned = self._backend.owned
        states = [CacheState.COLD, CacheState.WARM]
        if owned or self._layer_seen is False:
            states.append(CacheState.NO_PROMPT_CACHE)
        if owned:
            states.append(CacheState.SNAPSHOT)
        return Capabilities(
            token_ids=True,
            chosen_logprob=True,
            top_k=MOST_ALTERNATIVES,
            cached_tokens=True,
            reset=owned or self._layer_seen is False,
            disable_per_request=True,
            snapshot=owned,
            prompt_cache=owned,
            states=tuple(states),
        )

    @property
    def _slot(self) -> int | None:
        """The slot that requests name; None where there is only one."""
        return SLOT if (self._backend.info.slots or 1) > 1 else None

    # ---- text and tokens

    def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None = None) -> str:
        return self._vocabulary.render(self._backend.endpoint, messages, tools)

    def tokenize(self, text: str) -> list[int]:
        return self._vocabulary.tokenize(self._backend.endpoint, text)

    def piece(self, token_id: int) -> bytes | None:
        try:
            return self._vocabulary.piece(self._backend.endpoint, token_id)
        except EngineError:
            return None  # a dead server must not cost the request that it has answered

    # ---- caches

    def set_layers(self, *, prefix_cache: bool, prompt_cache: bool) -> None:
        """Launched: starts anew when they differ. Attached: they stay as they are."""
        self._prefix_cache = prefix_cache
        if self._backend.set_layers(prefix_cache=prefix_cache, prompt_cache=prompt_cache):
            self._forget()

    def reset(self) -> None:
        """Launched: a fresh server, unless the present one has served nothing yet.

        Attached: without a second layer its slot is overwritten; with one it cannot be emptied.
        """
        if not self._backend.owned:
            self._overwrite()
        elif self._served or self._held:
            self._backend.restart()
            self._forget()

    def _overwrite(self) -> None:
        if self._layer_seen is not False:
            raise StateRefused(
                "This server was not started by cachetrace and has, or may have, a second cache layer, "
                "so its caches cannot be emptied; use --server-bin, or start it with --cache-ram 0."
            )
        self._held = overwrite(self._backend.endpoint, self._vocabulary.tokenize, self._slot)
        if self._held is None:
            raise EngineError("The server's slot could not be overwritten: it still reused tokens.")
        if self._watch is not None:
            self._watch.after_request()

    def _forget(self) -> None:
        self._held, self._served = (), 0

    def held_ids(self) -> tuple[int, ...] | None:
        return self._held

    def cut(self, tokens: int) -> None:  # noqa: ARG002  # refused whatever it is
        raise StateRefused("The llama.cpp server cannot cut its cache to a prefix.")

    def decode_into_cache(self, token_ids: Sequence[int]) -> None:  # noqa: ARG002  # refused
        raise StateRefused("The llama.cpp server cannot decode given tokens one at a time.")

    def save_state(self) -> SavedState:
        if not self._held:
            raise StateRefused("The slot holds nothing that is known, so there is no state to save.")
        return self._states.save(self._held)

    def restore_state(self, state: SavedState) -> None:
        """Whether it took effect shows only in the next request's exposure."""
        file = self._states.checked(state)
        self._held = None  # a restore that fails leaves the slot empty or worse
        self._states.restore(state, file)
        self._held = state.token_ids
        self._served += 1

    def close(self) -> None:
        self._backend.close()

    # ---- serving

    def generate(self, call: GenerateCall) -> Generation:
        if call.forced_ids is not None:
            raise StateRefused("The llama.cpp server chooses its tokens itself; forced needs --engine llama.")
        interference = self._watch.before_request() if self._watch is not None else None
        if interference is not None:
            self._held = None
        held, self._held = self._held, None
        self._served += 1
        self._vocabulary.book.expect(call.prompt_ids)
        started_at, clock = time.time(), time.monotonic()
        parsed = self._ask(call, held)
        wall_s = time.monotonic() - clock
        if parsed.error is not None and not (parsed.choices and len(parsed.choices[0].path)):
            raise refusal(parsed.error)
        timing = Timing(
            started_at=started_at,
            wall_s=wall_s,
            prompt_s=parsed.prompt_s,
            decode_s=parsed.decode_s,
            first_token_s=parsed.first_token_s,
        )
        generation = generation_of(
            call, parsed, held=held if self._backend.owned else None, interference=interference, timing=timing
        )
        self._vocabulary.book.learn(generation.pieces)
        self._note_held(call, parsed, generation)
        if self._watch is not None:
            self._watch.after_request()
        return generation

    def _ask(self, call: GenerateCall, held: tuple[int, ...] | None) -> ParsedAnswer:
        body = self._body(call)
        asked = Asked(top_k=call.top_k, greedy=call.sampling.greedy, piece=self._known_piece)
        to_compute = len(call.prompt_ids) - (len(held) if held and call.use_cache else 0)
        streamed = call.on_prompt_progress is not None and to_compute >= PROGRESS_FROM_TOKENS
        while_doing = f"while serving a request of {len(call.prompt_ids)} prompt tokens"
        endpoint = self._backend.endpoint
        try:
            if call.body is not None:
                return self._ask_with_body(call, call.body, asked, while_doing)
            if not streamed:
                reply = endpoint.post("/completion", body)
                if not reply.ok:
                    raise refusal_of(reply.status, reply.body)
                return parse_body(reply.body, asked)
            answer = StreamedAnswer(asked, call.on_prompt_progress)
            end = endpoint.stream(
                "/completion", body | {"stream": True, "return_progress": True}, answer.feed
            )
        except (EngineDied, EngineMissing) as problem:
            raise self._backend.death(while_doing, problem) from problem
        if end.status >= 400:
            raise refusal_of(end.status, end.body)
        broken = end.broken
        if broken is not None:
            broken = str(self._backend.death(while_doing, EngineError(broken)))
        return answer.finish(broken)

    def _ask_with_body(
        self, call: GenerateCall, body: HttpBody, asked: Asked, while_doing: str
    ) -> ParsedAnswer:
        cache_fields: dict[str, Any] = {"cache_prompt": call.use_cache and self._prefix_cache}
        if self._slot is not None:
            cache_fields["id_slot"] = self._slot
        fields = body_to_send(body, Upstream.LLAMA_SERVER, call.top_k, cache_fields)

        def death(broken: str) -> str:
            return str(self._backend.death(while_doing, EngineError(broken)))

        return serve_body(self._backend.endpoint, body, fields, asked, death)

    def body_prompt_ids(self, body: HttpBody) -> tuple[int, ...] | None:
        return self._vocabulary.body_prompt_ids(self._backend.endpoint, body)

    def _body(self, call: GenerateCall) -> dict[str, Any]:
        sampling = call.sampling
        body: dict[str, Any] = {
            "prompt": list(call.prompt_ids),
            "n_predict": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "n_probs": call.top_k,
            "return_tokens": True,
            "cache_prompt": call.use_cache and self._prefix_cache,
        }
        optional = {"seed": sampling.seed, "top_k": sampling.top_k, "top_p": sampling.top_p}
        body |= {name: value for name, value in optional.items() if value is not None}
        if self._slot is not None:
            body["id_slot"] = self._slot
        return body | sampling.extra

    def _known_piece(self, token_id: int) -> bytes | None:
        return self._vocabulary.book.known(token_id)

    def _note_held(self, call: GenerateCall, parsed: ParsedAnswer, generation: Generation) -> None:
        """Our account of the slot, kept only while the server's own count agrees with it."""
        generated = tuple(generation.path.token_ids.tolist())
        holds = (*call.prompt_ids, *generated[:-1])
        agrees = parsed.slot_tokens is None or parsed.slot_tokens == len(holds)
        complete = parsed.error is None and generation.identity is Identity.TOKEN_ID and not parsed.truncated
        self._held = holds if agrees and complete else None
