"""THE loop that executes an arm. Recording and every kind of replay call it, nothing else serves requests.

For each request of the source: bring the cache to the arm's state, compute the exposure to expect,
let the engine serve it, let the agent digest the answer, and write the request. ``serve_again``
runs a recorded arm once more without writing, holding each request to its record; it is how a
reference arm's states are made anew for ``snapshot``.

What is on disk after a hard kill: every request whose ``write_request`` returned. The arm then has
no end and is incomplete; ``execute_arm(…, committed=…)`` takes it up again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracer import cache_states
from tracer.arm_plan import ArmPlan, StartFrom
from tracer.engines.base import Engine, GenerateCall, Generation
from tracer.episode import (
    Arm,
    ArmEnd,
    CacheState,
    Outcome,
    StopReason,
    Way,
)
from tracer.errors import CachetraceError, EngineDied, UsageError
from tracer.prefix_break import PreviousRequest, find_prefix_break
from tracer.progress import ArmProgress, Silent
from tracer.request_source import Answer, AnswerDigest, PlannedRequest, RequestSource
from tracer.resume import (
    CommittedArm,
    CommittedRequest,
    check_same_answer,
    check_same_engine,
    check_same_prompt,
)
from tracer.served import ArmTotals, RequestWriter, Served

if TYPE_CHECKING:
    from tracer.tracefile import TraceWriter

__all__ = ["ArmPlan", "StartFrom", "execute_arm", "serve_again"]


def execute_arm(
    engine: Engine,
    plan: ArmPlan,
    source: RequestSource,
    writer: TraceWriter,
    progress: ArmProgress | None = None,
    *,
    committed: CommittedArm | None = None,
) -> ArmEnd:
    """Run one arm to its end and write it; returns the end that was written.

    A request that the engine fails is written with its error and ends the arm as failed
    (``completed=False``, one sentence in ``reason``); the earlier requests stay. Before the arm is
    begun ``StateRefused`` and ``EngineError`` are raised and nothing is written. On Ctrl-C the arm
    stays without an end and ``KeyboardInterrupt`` goes on. With ``committed`` that arm is taken up
    after its last request instead of beginning a new one; raises ``UsageError`` if that cannot
    give the arm that an undisturbed run would have given.
    """
    progress = progress or Silent()
    run = _Run(engine, plan, source, progress)
    run.make_ready(committed)
    started = time.monotonic()
    arm = writer.begin_arm(run.arm()) if committed is None else _taken_up(writer, committed)
    progress.arm_started(arm.label, source.planned)
    totals = ArmTotals()
    if committed is not None:
        run.catch_up(committed, totals)
    requests = RequestWriter(writer, arm.index, engine.piece)
    failure = None
    try:
        failure = run.serve_rest(requests, totals)
    except KeyboardInterrupt:
        progress.note(f"{arm.label}: stopped; requests 0 to {run.index - 1} are kept, the arm is incomplete.")
        raise
    metrics = totals.metrics()
    if committed is not None:
        metrics["resumed_at"] = len(committed.requests)
    end = ArmEnd(
        requests=run.index,
        completed=failure is None,
        outcome=run.outcome() if failure is None else None,
        reason=failure,
        elapsed_s=time.monotonic() - started,
        metrics=metrics,
    )
    writer.end_arm(arm.index, end)
    progress.arm_ended(arm.label, failure or f"{run.index} requests")
    return end


def _taken_up(writer: TraceWriter, committed: CommittedArm) -> Arm:
    kept = writer.resume_arm(committed.arm.index)
    if kept != len(committed.requests):
        raise UsageError(f"arm {committed.arm.label} changed while it was being taken up; try again.")
    return committed.arm


def serve_again(
    engine: Engine,
    plan: ArmPlan,
    source: RequestSource,
    committed: CommittedArm,
    progress: ArmProgress | None = None,
) -> None:
    """Serve a recorded arm again without writing; fills ``plan.keep_states``.

    The plan says state, priming and way (for a recorded reference arm: its state, ``lockstep`` or
    its own priming). Raises ``UsageError`` if any request gives other tokens or other numbers than
    its record; whether the two engines are configured alike is the caller's guard.
    """
    progress = progress or Silent()
    run = _Run(engine, plan, source, progress)
    run.make_ready(None)
    progress.arm_started(f"{committed.arm.label} again", len(committed.requests))
    for each in committed.requests:
        run.repeat(each)
    progress.arm_ended(f"{committed.arm.label} again", "every request repeated its record")


class _Run:
    """One execution of an arm: the engine, the plan, the source, and how far it has come."""

    def __init__(self, engine: Engine, plan: ArmPlan, source: RequestSource, progress: ArmProgress) -> None:
        self._engine = engine
        self._plan = plan
        self._source = source
        self._progress = progress
        self._previous: PreviousRequest | None = None
        self.index = 0

    def make_ready(self, committed: CommittedArm | None) -> None:
        """Refuse what cannot be done, set the layers, empty them, serve the sentinel."""
        engine, plan = self._engine, self._plan
        cache_states.refuse_impossible(engine.capabilities, engine.info, plan.state, plan.priming, plan.way)
        if committed is not None and plan.start_from is StartFrom.AS_LEFT:
            raise UsageError(
                f"arm {committed.arm.label} began on caches that an earlier arm had left, so it cannot be "
                "taken up again; run its passes anew."
            )
        cache_states.switch_layers(engine, plan.state)
        if committed is not None:
            check_same_engine(committed.arm, engine.info)
        if plan.start_from is StartFrom.FRESH and engine.capabilities.reset:
            engine.reset()
        if plan.sentinel_ids is not None:
            sampling = replace(plan.sampling, max_new_tokens=1)
            engine.generate(GenerateCall(plan.sentinel_ids, sampling, top_k=plan.top_k))

    def arm(self) -> Arm:
        """The description to write; the writer sets its index."""
        plan = self._plan
        return Arm(
            index=0,
            state=plan.state,
            priming=plan.priming,
            way=plan.way,
            engine=self._engine.info,
            capabilities=self._engine.capabilities,
            sampling=plan.sampling,
            place=plan.place,
            started_at=time.time(),
            repeat=plan.repeat,
            pass_index=plan.pass_index,
            source_arm=plan.source_arm,
            reference_arm=plan.reference_arm,
            requests_planned=self._source.planned,
            top_k=plan.top_k,
            environment=plan.environment or {},
            command=plan.command,
            note=plan.note,
        )

    def serve_rest(self, requests: RequestWriter, totals: ArmTotals) -> str | None:
        """Serve and write until the source ends; the sentence of the failure, None if there was none."""
        while (planned := self._source.next_request()) is not None:
            served, generation, error = self._serve(planned)
            if generation is None:
                assert error is not None
                request = served.failed(error)
                requests.write(request, planned.prompt_ids, None)
                totals.add(request)
                self.index += 1
                return _failure(served.index, error)
            digest, error = self._digest(generation)
            request = served.request(generation, digest)
            requests.write(request, planned.prompt_ids, generation)
            totals.add(request)
            self._progress.request_ended(self.index, generation.cached_tokens, len(generation.path))
            self.index += 1
            if generation.error is not None:
                return f"the answer to request {served.index} broke off: {generation.error.message}"
            if error is None:
                error = self._prime_next(planned, generation)
            if error is not None:
                return _failure(served.index, error)
        return None

    def catch_up(self, committed: CommittedArm, totals: ArmTotals) -> None:
        """Bring source and cache to where an incomplete arm stopped."""
        again = cache_states.depends_on_history(self._plan.state)
        if again:
            self._progress.note(
                f"serving {len(committed.requests)} recorded requests again to rebuild the cache"
            )
        for each in committed.requests:
            if each.request.error is not None:
                raise UsageError(
                    f"request {each.request.index} of this arm failed: {each.request.error.message}"
                )
            if again:
                self.repeat(each)
            else:
                planned = self._next_like(each)
                self._source.digest(each.answer)
                self._previous = PreviousRequest(planned.prompt_ids, each.answer.token_ids)
                self.index += 1
            totals.add(each.request)

    def repeat(self, committed: CommittedRequest) -> None:
        """Serve one recorded request again, unwritten; it must give what was recorded."""
        planned = self._next_like(committed)
        _, generation, error = self._serve(planned)
        if generation is None:
            assert error is not None
            raise error
        check_same_answer(committed, generation)
        self._source.digest(committed.answer)
        self._progress.request_ended(self.index, generation.cached_tokens, len(generation.path))
        self.index += 1
        error = self._prime_next(planned, generation)
        if error is not None:
            raise error

    def outcome(self) -> Outcome | None:
        """How the task ended, as the source scores it."""
        return self._source.outcome()

    def _next_like(self, committed: CommittedRequest) -> PlannedRequest:
        planned = self._source.next_request()
        if planned is None:
            raise UsageError(f"the task ended before request {committed.request.index}, which is recorded.")
        check_same_prompt(committed, planned)
        return planned

    def _serve(self, planned: PlannedRequest) -> tuple[Served, Generation | None, CachetraceError | None]:
        """Bring the cache to the arm's state and let the engine serve one request."""
        engine, plan = self._engine, self._plan
        sampling = planned.sampling or plan.sampling
        if planned.max_new_tokens is not None:
            sampling = replace(sampling, max_new_tokens=planned.max_new_tokens)
        call = GenerateCall(
            prompt_ids=planned.prompt_ids,
            sampling=sampling,
            top_k=plan.top_k,
            use_cache=plan.state is not CacheState.COLD,
            forced_ids=planned.forced_ids if plan.way is Way.FORCED else None,
            keep_rows=plan.keep_rows,
            body=planned.body if plan.way is Way.BODY else None,
            on_prompt_progress=self._progress.prompt_progress,
        )
        self._progress.request_started(self.index, len(planned.prompt_ids))
        expected = brought = None
        generation: Generation | None = None
        failure: CachetraceError | None = None
        started_at, clock = time.time(), time.monotonic()
        try:
            self._bring_about(call)
            brought = cache_states.bring_back(engine, plan.state, planned.prompt_ids)
            expected = cache_states.expected_now(engine, plan.state, planned.prompt_ids)
            self._keep_state()
            started_at, clock = time.time(), time.monotonic()
            generation = engine.generate(call)
        except CachetraceError as error:
            failure = error
        served = Served(
            index=self.index,
            planned=planned,
            sampling=sampling,
            started_at=started_at,
            wall_s=time.monotonic() - clock,
            expected=expected,
            prompt_cache_tokens=brought,
            restored=plan.state is CacheState.SNAPSHOT,
            prefix_break=find_prefix_break(self._previous, planned.prompt_ids, engine.piece),
        )
        return served, generation, failure

    def _bring_about(self, call: GenerateCall) -> None:
        plan = self._plan
        met = None
        if plan.state is CacheState.SNAPSHOT:
            if plan.states_met is None:
                raise UsageError("a snapshot arm needs the states that a reference warm arm met.")
            met = plan.states_met.get(self.index)
        cache_states.before_request(self._engine, plan.state, plan.priming, call, met)

    def _keep_state(self) -> None:
        shelf = self._plan.keep_states
        if shelf is not None:
            shelf.put(self.index, self._engine.save_state() if self._engine.held_ids() else None)

    def _digest(self, generation: Generation) -> tuple[AnswerDigest, CachetraceError | None]:
        """What the agent made of the answer. A workload that fails must not lose the answer."""
        answer = Answer(
            token_ids=tuple(generation.path.token_ids.tolist()),
            text=generation.text,
            stopped_by_length=generation.stop is StopReason.LENGTH,
        )
        try:
            return self._source.digest(answer), None
        except CachetraceError as error:
            return AnswerDigest(), error

    def _prime_next(self, planned: PlannedRequest, generation: Generation) -> CachetraceError | None:
        output = tuple(generation.path.token_ids.tolist())
        self._previous = PreviousRequest(planned.prompt_ids, output)
        try:
            cache_states.after_request(
                self._engine, self._plan.priming, planned.prompt_ids, output, planned.recorded_output_ids
            )
        except CachetraceError as error:
            return error
        return None


def _failure(index: int, error: CachetraceError) -> str:
    """The sentence that an arm ends with."""
    what = "the engine died while serving" if isinstance(error, EngineDied) else "stopped at"
    return f"{what} request {index}: {error}"
