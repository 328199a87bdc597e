"""From what an engine answered to what is written: one request, its columns, its token texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracer.engines.base import Generation
from tracer.episode import (
    Exposure,
    PrefixBreak,
    Request,
    RequestError,
    Sampling,
    StopReason,
    Timing,
)
from tracer.errors import CachetraceError
from tracer.request_source import AnswerDigest, PlannedRequest

if TYPE_CHECKING:
    from tracer.tracefile import TraceWriter


@dataclass(frozen=True, slots=True)
class Served:
    """One planned request and what was seen while it was served."""

    index: int
    planned: PlannedRequest
    sampling: Sampling
    started_at: float
    wall_s: float
    expected: int | None
    prompt_cache_tokens: int | None = None
    """Tokens that the second layer brought back before the request, where we asked for that apart."""
    restored: bool = False
    prefix_break: PrefixBreak | None = None

    def exposure(self, generation: Generation) -> Exposure:
        """Observed beside expected. What was not counted stays None."""
        cached = generation.cached_tokens
        brought = generation.prompt_cache_tokens
        if self.prompt_cache_tokens is not None:
            brought = max(brought or 0, self.prompt_cache_tokens)
        return Exposure(
            prompt_tokens=generation.prompt_tokens,
            cached_tokens=cached,
            source=generation.exposure_source,
            expected_tokens=self.expected,
            prompt_cache_tokens=brought if cached is None or brought is None else min(brought, cached),
            restored_tokens=cached if self.restored else None,
            note=generation.exposure_note,
        )

    def request(self, generation: Generation, digest: AnswerDigest) -> Request:
        """The description of a request that was answered."""
        timing = generation.timing
        return replace(
            self._common(),
            prompt_tokens=self._prompt_tokens(generation),
            output_tokens=len(generation.path),
            identity=generation.identity,
            scale=generation.scale,
            exposure=self.exposure(generation),
            stop=generation.stop,
            text=generation.text,
            tool_calls=digest.tool_calls,
            tool_results=digest.tool_results,
            timing=replace(
                timing,
                started_at=self.started_at if timing.started_at is None else timing.started_at,
                wall_s=self.wall_s if timing.wall_s is None else timing.wall_s,
            ),
            not_observed=generation.not_observed,
            extra=generation.extra,
            error=generation.error,
        )

    def failed(self, error: CachetraceError) -> Request:
        """The description of a request that the engine failed: no output, and why."""
        return replace(
            self._common(),
            exposure=Exposure(prompt_tokens=len(self.planned.prompt_ids), expected_tokens=self.expected),
            stop=StopReason.ERROR,
            timing=Timing(started_at=self.started_at, wall_s=self.wall_s),
            error=RequestError(kind=type(error).__name__, message=str(error)),
        )

    def _prompt_tokens(self, generation: Generation) -> int | None:
        """Where a prompt is kept as text, its ids are no tokens, so only the engine can count them."""
        if "prompt_ids" in generation.not_observed:
            return generation.prompt_tokens
        return len(self.planned.prompt_ids)

    def _common(self) -> Request:
        planned = self.planned
        return Request(
            index=self.index,
            turn=planned.turn,
            step=planned.step,
            prompt_tokens=len(planned.prompt_ids),
            sampling=self.sampling,
            messages_added=planned.messages_added,
            retokenized_at=planned.retokenized_at,
            prefix_break=self.prefix_break,
        )


class RequestWriter:
    """Writes the requests of one arm, each token's bytes once."""

    def __init__(self, writer: TraceWriter, arm: int, piece: Callable[[int], bytes | None]) -> None:
        self._writer = writer
        self._arm = arm
        self._piece = piece
        self._given: set[int] = set()

    def write(self, request: Request, prompt_ids: tuple[int, ...], generation: Generation | None) -> None:
        """Columns first, description last; returns when the request is committed."""
        from tracer.columns import empty_path

        path = empty_path() if generation is None else generation.path
        self._writer.write_request(
            self._arm,
            request,
            prompt_ids=prompt_ids,
            path=path,
            alternatives=None if generation is None else generation.alternatives,
            rows=None if generation is None else generation.rows,
            pieces=self._pieces(prompt_ids, generation),
        )

    def _pieces(self, prompt_ids: tuple[int, ...], generation: Generation | None) -> dict[int, bytes]:
        """Bytes of the token ids of this request that were not given before."""
        ids = set(prompt_ids)
        known: dict[int, bytes] = {}
        if generation is not None:
            ids.update(generation.path.token_ids.tolist())
            if generation.alternatives is not None:
                ids.update(generation.alternatives.ids.ravel().tolist())
            known = generation.pieces
        pieces: dict[int, bytes] = {}
        for token in ids - self._given:
            piece = known.get(token)
            if piece is None and token >= 0:
                piece = self._piece(token)
            if piece is not None:
                pieces[token] = piece
        self._given |= ids
        return pieces


class ArmTotals:
    """The sums that go into an arm's end. What no request observed is left out."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}

    def add(self, request: Request) -> None:
        """Count one written request."""
        timing, exposure = request.timing, request.exposure
        observed = {
            "prompt_tokens": request.prompt_tokens,
            "cached_tokens": exposure.cached_tokens,
            "expected_tokens": exposure.expected_tokens,
            "prompt_cache_tokens": exposure.prompt_cache_tokens,
            "output_tokens": request.output_tokens,
            "prompt_s": timing.prompt_s,
            "decode_s": timing.decode_s,
            "wall_s": timing.wall_s,
        }
        for name, value in observed.items():
            if value is not None:
                self._sums[name] = self._sums.get(name, 0) + value

    def metrics(self) -> dict[str, float]:
        """Sums over the requests of this arm that this run wrote or found written."""
        return dict(self._sums)
