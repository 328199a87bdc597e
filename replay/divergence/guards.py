"""Guards: what must be equal before two arms may be compared. Each mismatch is named.

A fact that neither arm knows is no mismatch (an endpoint hides it from both alike); a fact that only
one of them knows is one.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.divergence.readable import Side
from replay.engine_guard import MUST_AGREE
from tracer.clean_text import clean
from tracer.episode import Arm, Priming, Request, Way
from tracer.resolved import resolved_otherwise
from tracer.tracefile.arm_index import LOST

FOLLOWING = (Way.FIXED, Way.FORCED, Way.BODY)
"""Ways whose prompts do not depend on the arm's own answers."""
_REPRODUCTIONS = frozenset({Priming.OWN, Priming.LOCKSTEP})
"""Lockstep decodes what the recorded arm decoded itself, so it claims to meet the same state."""


def mismatches(a: Side, b: Side) -> tuple[str, ...]:
    """Every guard that does not hold between two arms, in words; empty when they may be compared."""
    return (*_arm_mismatches(a, b), *_prompt_mismatches(a, b))


def same_prompt(a: Side, b: Side, request_a: Request, request_b: Request) -> bool | None:
    """Whether both arms sent the same prompt; None when that was not observed in one of them."""
    if request_a.prompt_hash is not None and request_b.prompt_hash is not None:
        if request_a.prompt_hash == request_b.prompt_hash:
            return True
        kind_a, kind_b = (r.prompt_hash.partition(":")[0] for r in (request_a, request_b) if r.prompt_hash)
        if kind_a == kind_b:
            return False
    ids_a = a.trace.prompt_ids(a.index, request_a.index)
    ids_b = b.trace.prompt_ids(b.index, request_b.index)
    if ids_a is None or ids_b is None:
        return None
    return len(ids_a) == len(ids_b) and bool((ids_a == ids_b).all())


def _arm_mismatches(a: Side, b: Side) -> Iterator[str]:
    one, two = a.arm, b.arm
    if a.trace.episode.episode_id != b.trace.episode.episode_id:
        yield _differ("episode", a.trace.episode.episode_id, b.trace.episode.episode_id)
    for field, name in MUST_AGREE:
        value_a, value_b = getattr(one.engine, field), getattr(two.engine, field)
        if value_a != value_b:
            yield _differ(name, value_a, value_b)
    for name, *values in resolved_otherwise(one.engine, two.engine):
        yield _differ(name, *values)
    if one.sampling != two.sampling:
        yield _differ("sampling", one.sampling.described, two.sampling.described)
    if one.top_k != two.top_k:
        yield _differ("k", one.top_k, two.top_k)
    if not _primings_agree(one, two):
        yield _differ("priming", one.priming, two.priming)
    if not _ways_agree(a, b):
        yield _differ("way", one.way, two.way)


def _prompt_mismatches(a: Side, b: Side) -> Iterator[str]:
    """The first prompt; every prompt when one arm follows the other's (or the same) recorded prompts."""
    pairs = list(zip(a.trace.requests(a.index), b.trace.requests(b.index), strict=False))
    closed = Way.CLOSED_LOOP in (a.arm.way, b.arm.way)
    follows = a.arm.way in FOLLOWING or b.arm.way in FOLLOWING
    for request_a, request_b in pairs if follows and not closed else pairs[:1]:
        if _is_lost(request_a) or _is_lost(request_b):
            continue  # nothing of it is known; its verdict says so
        if request_a.identity is not request_b.identity:
            yield _differ(
                f"token identity of request {request_a.index}", request_a.identity, request_b.identity
            )
        if request_a.sampling != request_b.sampling:
            yield f"sampling of request {request_a.index}: differs"
        if same_prompt(a, b, request_a, request_b) is False:
            yield f"prompt of request {request_a.index}: differs"


def _is_lost(request: Request) -> bool:
    return request.error is not None and request.error.kind == LOST


def _primings_agree(a: Arm, b: Arm) -> bool:
    """Caches that both arms filled by serving must have been filled in one way.

    An arm without a cache, and one whose states were restored, stand beside any other.
    """
    served = {a.priming, b.priming} - {Priming.NONE, Priming.RESTORED}
    return len(served) < 2 or served == _REPRODUCTIONS


def _ways_agree(a: Side, b: Side) -> bool:
    """Forced tokens were not chosen, so they only stand beside other forced ones or their source."""
    forced_a, forced_b = a.arm.way is Way.FORCED, b.arm.way is Way.FORCED
    if forced_a == forced_b:
        return True
    follower, other = (a, b) if forced_a else (b, a)
    return follower.trace is other.trace and follower.arm.source_arm == other.index


def _differ(name: str, a: object, b: object) -> str:
    return f"{name}: {_said(a)} against {_said(b)}"


def _said(value: object) -> str:
    return "not known" if value is None else clean(str(value))
