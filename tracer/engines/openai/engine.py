"""The adapter: one chat completion at a time from any endpoint of OpenAI's shape."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from tracer.engines.base import GenerateCall, Generation, SavedState
from tracer.engines.choice import EngineChoice
from tracer.engines.http.answer import Asked, ParsedAnswer, parse_body
from tracer.engines.http.endpoint import Endpoint
from tracer.engines.http.recognise import recognise
from tracer.engines.http.refusals import HttpRefusal, error_object, refusal, refusal_of
from tracer.engines.openai.text_ids import TextIds, body_of, render
from tracer.episode import CacheState, Capabilities, EngineInfo, Message, Timing
from tracer.errors import EngineDied, EngineMissing, StateRefused, UsageError

MOST_ALTERNATIVES = 20
KEY_VARIABLE = "CACHETRACE_API_KEY"


def attach(choice: EngineChoice) -> OpenAIEngine:
    """Attach to the address that the user gave."""
    if choice.url is None:
        raise UsageError("The engine openai needs --url, for instance --url http://127.0.0.1:11434/v1.")
    key = os.environ.get(KEY_VARIABLE)
    found = recognise(choice.url, api_key=key)
    model = choice.served_model or found.info.model_name
    if model is None:
        raise UsageError(
            "This server has several models, or does not name them; choose one with --served-model."
        )
    from msgspec.structs import replace

    info = replace(found.info, engine="openai", model_name=model)
    return OpenAIEngine(Endpoint(found.url, timeout_s=choice.timeout_s, api_key=key), info, model)


class OpenAIEngine:
    """Takes what comes. Prompts are kept as text; caches are as they are served."""

    def __init__(self, endpoint: Endpoint, info: EngineInfo, model: str) -> None:
        self._endpoint = endpoint
        self._info = info
        self._model = model
        self._ids = TextIds()
        self._no_logprobs: str | None = None
        """Why logprobs are no longer asked for."""

    @property
    def info(self) -> EngineInfo:
        return self._info

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            chosen_logprob=self._no_logprobs is None,
            top_k=MOST_ALTERNATIVES if self._no_logprobs is None else 0,
            cached_tokens=True,
            states=(CacheState.AS_SERVED,),
        )

    def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None = None) -> str:
        return render(messages, tools)

    def tokenize(self, text: str) -> list[int]:
        return self._ids.ids(text)

    def piece(self, token_id: int) -> bytes | None:
        return self._ids.local_ids.piece(token_id)

    def held_ids(self) -> tuple[int, ...] | None:
        return None

    def set_layers(self, *, prefix_cache: bool, prompt_cache: bool) -> None:  # noqa: ARG002  # refused
        _refuse("cache layers cannot be switched")

    def reset(self) -> None:
        _refuse("its caches cannot be emptied")

    def cut(self, tokens: int) -> None:  # noqa: ARG002  # refused whatever it is
        _refuse("its cache cannot be cut")

    def decode_into_cache(self, token_ids: Sequence[int]) -> None:  # noqa: ARG002  # refused
        _refuse("it chooses its tokens itself")

    def save_state(self) -> SavedState:
        _refuse("states cannot be saved")

    def restore_state(self, state: SavedState) -> None:  # noqa: ARG002  # refused whatever it is
        _refuse("states cannot be restored")

    def close(self) -> None:
        self._endpoint.close()

    def generate(self, call: GenerateCall) -> Generation:
        if call.forced_ids is not None or not call.use_cache:
            _refuse("nothing but its own way of serving is possible")
        prompt = body_of(self._ids.text(call.prompt_ids))
        started_at = time.time()
        parsed, wall_s = self._ask(call, prompt)
        if parsed.error is not None:
            raise refusal(parsed.error)
        if not parsed.choices:
            raise HttpRefusal(error_object("the server answered without a completion", 200))
        choice, count = parsed.choices[0], parsed.count
        not_observed = {"prompt_ids": "this endpoint takes and names no ids; the prompt is kept as text"}
        not_observed |= choice.not_observed
        if self._no_logprobs is not None:
            not_observed["chosen_values"] = not_observed["margins"] = self._no_logprobs
        extra: dict[str, Any] = {"reasoning": choice.reasoning} if choice.reasoning else {}
        if choice.tool_calls:
            extra["tool_calls"] = list(choice.tool_calls)
        return Generation(
            path=choice.path,
            alternatives=choice.alternatives,
            scale=choice.scale,
            stop=choice.stop,
            text=choice.text,
            identity=choice.identity,
            prompt_tokens=count.prompt_tokens,
            cached_tokens=count.cached_tokens,
            exposure_source=count.source,
            exposure_note=count.note,
            pieces=choice.pieces,
            timing=Timing(
                started_at=started_at, wall_s=wall_s, prompt_s=parsed.prompt_s, decode_s=parsed.decode_s
            ),
            not_observed=not_observed,
            extra=extra,
        )

    def _ask(self, call: GenerateCall, prompt: dict[str, Any]) -> tuple[ParsedAnswer, float]:
        reply = self._post(self._body(call, prompt))
        if reply.status in (400, 422) and self._no_logprobs is None:
            said = refusal_of(reply.status, reply.body).error.message
            if "logprobs" in said:
                # A refused request was not served, so asking for less does not repeat it.
                self._no_logprobs = f"the server refuses logprobs: {said[:120]}"
                reply = self._post(self._body(call, prompt))
        if not reply.ok:
            raise refusal_of(reply.status, reply.body)
        asked = Asked(top_k=call.top_k, greedy=call.sampling.greedy, local_ids=self._ids.local_ids)
        return parse_body(reply.body, asked), reply.wall_s

    def _post(self, body: dict[str, Any]) -> Any:
        try:
            return self._endpoint.post("/v1/chat/completions", body)
        except EngineMissing as problem:
            raise EngineDied(
                f"The server at {self._endpoint.url} stopped answering ({problem})."
            ) from problem

    def _body(self, call: GenerateCall, prompt: dict[str, Any]) -> dict[str, Any]:
        sampling = call.sampling
        body = {"model": self._model, **prompt, "max_tokens": sampling.max_new_tokens}
        body["temperature"] = sampling.temperature
        optional = {"seed": sampling.seed, "top_p": sampling.top_p}
        body |= {name: value for name, value in optional.items() if value is not None}
        if self._no_logprobs is None:
            body |= {"logprobs": True, "top_logprobs": min(call.top_k, MOST_ALTERNATIVES)}
        return body | sampling.extra


def _refuse(why: str) -> NoReturn:
    raise StateRefused(
        f"An endpoint of OpenAI's shape controls no caches: {why}. Its only state is as-served."
    )
