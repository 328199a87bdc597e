"""Writes exchanges into traces, one file an episode, on a thread of its own.

The proxy hands an exchange over and goes on; parsing and writing never make a client wait. The
order in a trace is the order in which exchanges ended; ``Timing.started_at`` has their starts.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tracer.columns import empty_path
from tracer.engines.http.answer import Asked, ParsedAnswer, StreamedAnswer, parse_body
from tracer.engines.http.local_ids import LocalIds
from tracer.engines.http.refusals import refusal_of
from tracer.engines.http.wire import WireError
from tracer.episode import (
    Arm,
    ArmEnd,
    CacheState,
    Capabilities,
    EngineInfo,
    Episode,
    Exposure,
    Message,
    Priming,
    Request,
    RequestError,
    RunPlace,
    Sampling,
    StopReason,
    Timing,
    ToolCall,
    Way,
    WorkloadSpec,
)
from tracer.errors import CachetraceError
from tracer.output_folder import make_folder
from tracer.prefix_break import PreviousRequest, find_prefix_break
from tracer.proxy.exchange import Exchange
from tracer.tracefile import TraceWriter
from tracer.tracefile.scrub import scrub_text, secret_spans
from tracer.tracefile.writer import writer_name

_OPEN_FILES = 64
REDACTED = "[redacted]"


@dataclass(slots=True)
class _RecordedEpisode:
    path: Path
    arm: int
    writer: TraceWriter | None
    """None while the file is set aside, so that many episodes do not hold many files open."""
    count: int = 0
    pieces: dict[int, bytes] = field(default_factory=dict)
    previous: PreviousRequest | None = None
    known_messages: int = 0


class Recording:
    """Takes exchanges and writes them. ``warn`` gets one sentence for the user's terminal."""

    def __init__(
        self,
        folder: Path,
        engine: EngineInfo,
        capabilities: Capabilities,
        warn: Callable[[str], None],
        *,
        top_k: int,
        redact: bool = False,
        command: str | None = None,
    ) -> None:
        self._folder = folder
        self._engine = engine
        self._capabilities = capabilities
        self._warn = warn
        self._top_k = top_k
        self._redact = redact
        self._command = command
        self._run_id = uuid.uuid4().hex
        self._run_position = 0
        self._known: OrderedDict[str, _RecordedEpisode] = OrderedDict()
        self._local_ids = LocalIds()
        self._queue: queue.SimpleQueue[Exchange | None] = queue.SimpleQueue()
        self._warned: set[str] = set()
        self.written = 0
        self._thread = threading.Thread(target=self._write_all, name="cachetrace-recording")
        make_folder(folder)
        self._thread.start()

    def take(self, exchange: Exchange) -> None:
        """Hand over a finished exchange; returns at once."""
        self._queue.put(exchange)

    @property
    def files(self) -> tuple[Path, ...]:
        """The traces written so far, by the order in which their episodes began."""
        return tuple(sorted((e.path for e in self._known.values()), key=lambda path: path.name))

    def close(self) -> None:
        """Write what is still waiting, end every arm and close the files."""
        self._queue.put(None)
        self._thread.join()

    def _write_all(self) -> None:
        while (exchange := self._queue.get()) is not None:
            try:
                self._write(exchange)
                self.written += 1
            except (CachetraceError, OSError, ValueError) as error:
                self._warn(f"request {exchange.number} could not be recorded: {error}")
        for episode in self._known.values():
            self._end(episode)

    def _write(self, exchange: Exchange) -> None:
        episode = self._episode(exchange)
        parsed, error = self._parsed(exchange, episode)
        request = self._request(exchange, episode, parsed, error)
        choice = parsed.choices[0] if parsed is not None and parsed.choices else None
        prompt_ids = parsed.prompt_ids if parsed is not None else None
        pieces = choice.pieces if choice is not None else {}
        episode.pieces |= pieces
        path = choice.path if choice is not None else empty_path()
        if prompt_ids is not None:
            found = find_prefix_break(episode.previous, prompt_ids, episode.pieces.get)
            request = _replace(request, prefix_break=found)
            episode.previous = PreviousRequest(prompt_ids, tuple(int(i) for i in path.token_ids))
        self._writer(episode).write_request(
            episode.arm,
            request,
            prompt_ids=prompt_ids,
            path=path,
            alternatives=choice.alternatives if choice is not None else None,
            pieces=pieces,
        )
        episode.count += 1

    def _parsed(
        self, exchange: Exchange, episode: _RecordedEpisode
    ) -> tuple[ParsedAnswer | None, RequestError | None]:
        greedy = exchange.fields.get("temperature") == 0
        asked = Asked(
            top_k=exchange.top_k, greedy=greedy, local_ids=self._local_ids, piece=episode.pieces.get
        )
        answer = bytes(exchange.answer)
        if exchange.status is not None and exchange.status >= 400:
            return None, refusal_of(exchange.status, answer).error
        if exchange.broken is not None and not answer:
            return None, RequestError(kind="broken", message=exchange.broken, http_status=exchange.status)
        try:
            if exchange.answer_is_stream:
                stream = StreamedAnswer(asked)
                stream.feed(answer)
                parsed = stream.finish(exchange.broken)
            else:
                parsed = parse_body(answer, asked)
        except WireError as problem:
            return None, RequestError(kind="unreadable", message=str(problem), http_status=exchange.status)
        return parsed, parsed.error

    def _request(
        self,
        exchange: Exchange,
        episode: _RecordedEpisode,
        parsed: ParsedAnswer | None,
        error: RequestError | None,
    ) -> Request:
        choice = parsed.choices[0] if parsed is not None and parsed.choices else None
        count = parsed.count if parsed is not None else None
        not_observed = dict(choice.not_observed) if choice is not None else {}
        if parsed is None or parsed.prompt_ids is None:
            not_observed["prompt ids"] = "the server did not return them"
        body = exchange.body
        self._warn_of_secrets(exchange)
        return Request(
            index=episode.count,
            turn=episode.count,
            prompt_tokens=count.prompt_tokens if count is not None else None,
            output_tokens=len(choice.path) if choice is not None else 0,
            identity=choice.identity if choice is not None else Request(index=0).identity,
            scale=choice.scale if choice is not None else None,
            sampling=sampling_of(exchange.fields),
            exposure=Exposure()
            if count is None
            else Exposure(
                prompt_tokens=count.prompt_tokens,
                cached_tokens=count.cached_tokens,
                source=count.source,
                note=count.note,
            ),
            stop=StopReason.ERROR if error is not None else choice.stop if choice else StopReason.UNKNOWN,
            text=(REDACTED if self._redact else choice.text) if choice is not None else "",
            messages_added=() if self._redact else _new_messages(exchange, episode),
            tool_calls=() if choice is None or self._redact else _tool_calls(choice.tool_calls),
            timing=Timing(
                started_at=exchange.started_at,
                wall_s=exchange.wall_s,
                prompt_s=parsed.prompt_s if parsed is not None else None,
                decode_s=parsed.decode_s if parsed is not None else None,
                first_token_s=None if exchange.first_byte is None else exchange.first_byte - exchange.arrived,
                proxy_added_s=exchange.added_s,
            ),
            error=error,
            not_observed=not_observed,
            serial=not exchange.overlapped,
            http_route=exchange.path,
            http_body=None if self._redact else body,
            extra={
                "arrival": exchange.number,
                "added_fields": sorted(exchange.added),
                "streamed": exchange.streamed,
                **({"other_choices": len(parsed.choices) - 1} if parsed and len(parsed.choices) > 1 else {}),
            },
        )

    def _warn_of_secrets(self, exchange: Exchange) -> None:
        if self._redact:
            return
        for _, _, kind in secret_spans(exchange.body.decode("utf-8", "replace")):
            if kind not in self._warned:
                self._warned.add(kind)
                self._warn(
                    f"a recorded body seems to hold a secret ({kind}); use --redact, or rewrite the trace "
                    "with `cachetrace validate --redact` before you share it."
                )

    def _episode(self, first: Exchange) -> _RecordedEpisode:
        name = first.episode
        episode = self._known.get(name)
        if episode is None:
            self._known[name] = episode = self._created(name, first)
        self._known.move_to_end(name)
        self._set_others_aside()
        return episode

    def _writer(self, episode: _RecordedEpisode) -> TraceWriter:
        if episode.writer is None:
            episode.writer = TraceWriter.append(episode.path)
        return episode.writer

    def _set_others_aside(self) -> None:
        held = [episode for episode in self._known.values() if episode.writer is not None]
        for episode in held[:-_OPEN_FILES]:
            if episode.writer is not None:
                episode.writer.close()
                episode.writer = None

    def _created(self, name: str, first: Exchange) -> _RecordedEpisode:
        path = self._folder / f"{name}.msgpack"
        episode = Episode(
            episode_id=name,
            workload=WorkloadSpec(name="proxy", history="messages"),
            created_at=time.time(),
            writer=writer_name(),
        )
        writer = TraceWriter.create(path, episode)
        arm = writer.begin_arm(
            Arm(
                index=0,
                state=CacheState.AS_SERVED,
                priming=Priming.OWN,
                way=Way.RECORDED,
                engine=self._engine,
                capabilities=self._capabilities,
                sampling=sampling_of(first.fields),
                place=RunPlace(run_id=self._run_id, position=self._run_position),
                started_at=time.time(),
                top_k=self._top_k,
                command=self._command,
                note="recorded through the proxy",
            )
        )
        self._run_position += 1
        return _RecordedEpisode(path, arm.index, writer)

    def _end(self, episode: _RecordedEpisode) -> None:
        writer = self._writer(episode)
        writer.end_arm(
            episode.arm, ArmEnd(requests=episode.count, completed=True, reason="the recording ended")
        )
        writer.close()


def sampling_of(fields: dict[str, object]) -> Sampling:
    """What the client asked for. A temperature that it did not send is the server's own, not 0."""
    temperature = fields.get("temperature")
    seed, top_p, top_k = fields.get("seed"), fields.get("top_p"), fields.get("top_k")
    limit = fields.get("max_completion_tokens") or fields.get("max_tokens") or fields.get("n_predict")
    stated = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    extra: dict[str, object] = {} if stated else {"temperature": "not sent: the server's default"}
    for name in ("presence_penalty", "frequency_penalty", "repeat_penalty", "min_p", "n"):
        if name in fields:
            extra[name] = fields[name]
    return Sampling(
        temperature=float(temperature) if stated else 1.0,  # type: ignore[arg-type]  # checked by ``stated``
        seed=seed if isinstance(seed, int) else None,
        top_p=float(top_p) if isinstance(top_p, int | float) else None,
        top_k=top_k if isinstance(top_k, int) else None,
        max_new_tokens=limit if isinstance(limit, int) else -1,
        extra=extra,
    )


def _new_messages(exchange: Exchange, episode: _RecordedEpisode) -> tuple[Message, ...]:
    """The messages that this request added to the conversation, as text."""
    messages = exchange.fields.get("messages")
    if not isinstance(messages, list):
        return ()
    new, episode.known_messages = messages[episode.known_messages :], len(messages)
    return tuple(
        Message(role=str(each.get("role")), content=scrub_text(_text_of(each.get("content"))))
        for each in new
        if isinstance(each, dict)
    )


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)


def _tool_calls(calls: tuple[dict[str, str], ...]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name=call.get("name", ""), arguments=call.get("arguments", "")) for call in calls)


def _replace(request: Request, **changes: object) -> Request:
    from msgspec.structs import replace

    return replace(request, **changes)
