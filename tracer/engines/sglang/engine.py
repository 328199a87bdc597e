"""The adapter: one request at a time to SGLang's native route, ids in and ids out."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from tracer.engines.base import GenerateCall, Generation, SavedState
from tracer.engines.choice import EngineChoice
from tracer.engines.http.answer import Asked, parse_body
from tracer.engines.http.block_cache import BlockCache
from tracer.engines.http.endpoint import Endpoint, Reply
from tracer.engines.http.pieces import SEPARATOR, PieceBook
from tracer.engines.http.refusals import HttpRefusal, error_object, refusal, refusal_of
from tracer.engines.sglang.described import describe, read_settings
from tracer.episode import CacheState, Capabilities, EngineInfo, Message, Sampling, Timing
from tracer.errors import EngineDied, EngineError, EngineMissing, StateRefused, UsageError

MOST_ALTERNATIVES = 20
KEY_VARIABLE = "CACHETRACE_API_KEY"
_ONE_TOKEN = Sampling(max_new_tokens=1)
_FLUSH_TRIES = 50
_FLUSH_PAUSE_S = 0.1


def attach(choice: EngineChoice) -> SglangEngine:
    """Attach to the address that the user gave."""
    if choice.url is None:
        raise UsageError("The engine sglang needs --url of a running server.")
    endpoint = Endpoint(choice.url, timeout_s=choice.timeout_s, api_key=os.environ.get(KEY_VARIABLE))
    settings = read_settings(endpoint)
    if not settings:
        endpoint.close()
        raise EngineMissing(f"{endpoint.url} is no SGLang server; `cachetrace doctor` says what it is.")
    return SglangEngine(endpoint, describe(settings))


class SglangEngine:
    """SGLang, attached. Cold: the radix cache is emptied before every request."""

    def __init__(self, endpoint: Endpoint, info: EngineInfo) -> None:
        self._endpoint = endpoint
        self._info = info
        self._book = PieceBook()
        self._separator_ids: list[int] | None = None
        self._known: BlockCache | None = None
        self._has_served = False

    @property
    def info(self) -> EngineInfo:
        return self._info

    @property
    def capabilities(self) -> Capabilities:
        states = [CacheState.COLD]
        if self._info.prefix_cache is not False:
            states.append(CacheState.WARM)
        return Capabilities(
            token_ids=True,
            chosen_logprob=True,
            top_k=MOST_ALTERNATIVES,
            cached_tokens=True,
            reset=True,
            disable_per_request=True,
            cache_block_tokens=self._info.cache_block_tokens or 1,
            states=tuple(states),
        )

    # ---- text and tokens

    def render(
        self,
        messages: Sequence[Message],  # noqa: ARG002  # refused whatever they are
        tools: Sequence[dict[str, Any]] | None = None,  # noqa: ARG002
    ) -> str:
        raise EngineError(
            "SGLang has no route that renders messages: record with another engine and replay it here."
        )

    def tokenize(self, text: str) -> list[int]:
        tokens = self._ask("/tokenize", {"prompt": text, "add_special_tokens": False}).get("tokens")
        if not isinstance(tokens, list):
            raise EngineError("The server's /tokenize answered without tokens.")
        return [int(token) for token in tokens]

    def piece(self, token_id: int) -> bytes | None:
        try:
            return self._book.piece(token_id, self._spell, self._separator)
        except EngineError:
            return None  # older servers have no such route; the ids stay

    def _spell(self, token_ids: Sequence[int]) -> str | None:
        body = {"tokens": list(token_ids), "skip_special_tokens": False}
        text = self._ask("/detokenize", body).get("text")
        return text if isinstance(text, str) else None

    def _separator(self) -> Sequence[int]:
        if self._separator_ids is None:
            self._separator_ids = self.tokenize(SEPARATOR)
        return self._separator_ids

    # ---- caches

    def set_layers(self, *, prefix_cache: bool, prompt_cache: bool) -> None:
        if prompt_cache or (prefix_cache and self._info.prefix_cache is False):
            raise StateRefused("SGLang's caches are set when it starts; start it with the ones you want.")

    def reset(self) -> None:
        """Empty the radix cache, and check that the server did it."""
        if not self._has_served:
            # Emptying can hang before the first request has been served.
            self._post("/generate", _body((1,), GenerateCall((1,), _ONE_TOKEN, top_k=0)), "while warming up")
            self._has_served = True
        for _ in range(_FLUSH_TRIES):
            if self._endpoint.post("/flush_cache").ok:
                self._known = BlockCache(self._info.cache_block_tokens or 1)
                return
            time.sleep(_FLUSH_PAUSE_S)
        raise EngineError("The server did not empty its cache: it says that it is busy; stop other clients.")

    def held_ids(self) -> tuple[int, ...] | None:
        """The radix cache holds many sequences; see ``expected_cached``."""
        return None

    def expected_cached(self, prompt_ids: Sequence[int]) -> int | None:
        """Prompt tokens that should be reused now; None while it is not known what the cache holds."""
        if self._info.prefix_cache is False:
            return 0
        return None if self._known is None else self._known.expected(prompt_ids)

    def cut(self, tokens: int) -> None:  # noqa: ARG002  # refused whatever it is
        raise StateRefused("SGLang cannot cut its cache to a prefix.")

    def decode_into_cache(self, token_ids: Sequence[int]) -> None:  # noqa: ARG002  # refused
        raise StateRefused("SGLang cannot decode given tokens one at a time.")

    def save_state(self) -> SavedState:
        raise StateRefused("SGLang cannot save the state of a sequence.")

    def restore_state(self, state: SavedState) -> None:  # noqa: ARG002  # refused whatever it is
        raise StateRefused("SGLang cannot restore the state of a sequence.")

    def close(self) -> None:
        self._endpoint.close()

    # ---- serving

    def generate(self, call: GenerateCall) -> Generation:
        if call.forced_ids is not None:
            raise StateRefused("SGLang chooses its tokens itself; the way forced needs --engine llama.")
        if not call.use_cache:
            self.reset()
        started_at = time.time()
        reply = self._post(
            "/generate",
            _body(call.prompt_ids, call),
            f"while serving a request of {len(call.prompt_ids)} prompt tokens",
        )
        self._has_served = True
        asked = Asked(top_k=call.top_k, greedy=call.sampling.greedy, piece=self._book.known)
        parsed = parse_body(reply.body, asked)
        if parsed.error is not None:
            raise refusal(parsed.error)
        if not parsed.choices:
            raise HttpRefusal(error_object("the server answered without a completion", 200))
        choice, count = parsed.choices[0], parsed.count
        generated = choice.path.token_ids.tolist()
        if self._known is not None:
            self._known.add((*call.prompt_ids, *generated[:-1]))
        self._book.expect((*call.prompt_ids, *generated))
        not_observed = dict(choice.not_observed)
        if call.keep_rows:
            not_observed["rows"] = "the server does not give whole rows"
        return Generation(
            path=choice.path,
            alternatives=choice.alternatives,
            scale=choice.scale,
            stop=choice.stop,
            text=choice.text,
            identity=choice.identity,
            prompt_tokens=len(call.prompt_ids),
            cached_tokens=count.cached_tokens,
            exposure_source=count.source,
            exposure_note=count.note,
            pieces=choice.pieces,
            timing=Timing(started_at=started_at, wall_s=reply.wall_s),
            not_observed=not_observed,
        )

    def _post(self, path: str, body: dict[str, Any], while_doing: str) -> Reply:
        try:
            reply = self._endpoint.post(path, body)
        except (EngineDied, EngineMissing) as problem:
            raise EngineDied(
                f"The server at {self._endpoint.url} stopped answering {while_doing} ({problem})."
            ) from problem
        if not reply.ok:
            raise refusal_of(reply.status, reply.body)
        return reply

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        parsed = self._post(path, body, f"at {path}").json()
        return parsed if isinstance(parsed, dict) else {}


def _body(prompt_ids: Sequence[int], call: GenerateCall) -> dict[str, Any]:
    sampling = call.sampling
    params: dict[str, Any] = {
        "temperature": sampling.temperature,
        "max_new_tokens": sampling.max_new_tokens,
    }
    optional = {"top_k": sampling.top_k, "top_p": sampling.top_p, "sampling_seed": sampling.seed}
    params |= {name: value for name, value in optional.items() if value is not None} | sampling.extra
    return {
        "input_ids": list(prompt_ids),
        "sampling_params": params,
        "return_logprob": True,
        "top_logprobs_num": call.top_k,
        # Asking for the prompt's own logprobs would make the server leave its cache out.
        "logprob_start_len": -1,
    }
