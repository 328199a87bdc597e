"""What the report keeps of a trace file: descriptions and verdicts, no columns."""

from __future__ import annotations

from msgspec import Struct

from replay.verdicts import ArmAssessment, ArmStatus, Comparison, EpisodeAnalysis
from stats.report.configuration import Key
from stats.report.items import ExperimentItems
from stats.report.positions import PositionSample
from tracer.episode import (
    Arm,
    ArmEnd,
    CacheState,
    Carry,
    Episode,
    ExposureSource,
    Identity,
    PrefixBreak,
    Way,
)
from tracer.workloads.gsm8k_answers import JudgedAnswer


class RequestFacts(Struct, frozen=True, kw_only=True):
    """Sums over the requests of one arm; None = not observed in any request."""

    requests: int
    output_tokens: int
    prompt_tokens: int | None
    cached_tokens: int | None
    identities: tuple[Identity, ...]
    sources: tuple[ExposureSource, ...] = ()
    """Who said how many prompt tokens came from a cache."""
    counted_requests: int = 0
    """Requests whose cached tokens were observed."""
    hits: int = 0
    """Of those, how many had any."""
    expectation_known: bool = True
    answers_digest: str | None = None
    """Hash of all output tokens (texts where there are no ids), to compare arms of several files."""
    prompt_not_stored: int = 0
    """Requests whose prompt ids are not in the trace, so that it cannot be replayed."""
    prefix_breaks: tuple[tuple[int, PrefixBreak], ...] = ()
    """Request and break, where a prompt departs from what the request before left."""
    grew_too_long: bool = False
    """The last prompt did not fit into the context."""


class ArmRecord(Struct, frozen=True, kw_only=True):
    """One arm with its assessment."""

    arm: Arm
    configuration: Key
    """Its engine configuration, apart from the caches."""
    end: ArmEnd | None
    assessment: ArmAssessment
    facts: RequestFacts
    answer: JudgedAnswer | None = None
    """What the single answer of a GSM8K arm says."""
    damage: tuple[str, ...] = ()
    """What could not be read of this arm; a damaged arm never counts."""

    @property
    def group_label(self) -> str:
        """The arm's name without its repeat and pass number; a recording says its state.

        A cold recording is a repeat of its cold replays, so it bears their name.
        """
        if self.arm.way is Way.RECORDED:
            return "cold" if self.arm.state is CacheState.COLD else f"recording ({self.arm.state})"
        return self.arm.label.split("#")[0].split("@")[0]

    @property
    def may_count(self) -> bool:
        return (self.assessment.may_count or self.counted_without_expectation) and not self.damage

    @property
    def counted_without_expectation(self) -> bool:
        """An imported arm with a count and cache hits, whose prompts were not stored.

        What its caches should have served cannot be computed, so it is held to the authors' own
        check: every request has the engine's count, and the cache was hit.
        """
        facts = self.facts
        counted = bool(facts.sources) and set(facts.sources) <= {ExposureSource.ENGINE, ExposureSource.USAGE}
        return (
            self.assessment.status is ArmStatus.UNVERIFIED
            and self.arm.state in (CacheState.WARM, CacheState.NO_PROMPT_CACHE)
            and facts.prompt_not_stored == facts.requests == facts.counted_requests
            and not facts.expectation_known
            and facts.hits > 0
            and counted
        )

    @property
    def declared(self) -> bool:
        """Its state stands on the engine's settings alone, and nothing else is wrong with it."""
        return (
            not self.damage
            and self.facts.sources == (ExposureSource.DECLARED,)
            and self.assessment.status in (ArmStatus.UNVERIFIED, ArmStatus.VERIFIED)
        )

    @property
    def why_not(self) -> str:
        """Why the arm does not count, in words; empty when it does."""
        if self.may_count:
            return ""
        if self.damage:
            return f"damaged: {self.damage[0]}"
        if self.declared:
            return "declared: no count of cached tokens was observed, only the engine's settings"
        if self.assessment.status is not ArmStatus.VERIFIED:
            reason = self.assessment.reason
            return f"{self.assessment.status}: {reason}" if reason else str(self.assessment.status)
        return "the cached tokens of its requests were not observed"


class EpisodeRecord(Struct, frozen=True, kw_only=True):
    """One trace file."""

    path: str
    episode: Episode
    arms: tuple[ArmRecord, ...]
    analysis: EpisodeAnalysis
    extra_comparisons: tuple[Comparison, ...] = ()
    """Pairs of arms that were asked for beside those with the baseline."""
    losses: tuple[str, ...] = ()
    """What could not be read of the file."""
    experiment: ExperimentItems | None = None
    """What a trace of ``isolate`` says; such a trace is no episode of any rate."""
    positions: tuple[PositionSample, ...] = ()
    """Compared positions of cold arms against others, when the mechanism was asked for."""

    @property
    def carry(self) -> Carry:
        return self.arms[0].arm.place.carry if self.arms else Carry.EMPTIED

    @property
    def started_at(self) -> float:
        return min((a.arm.started_at for a in self.arms), default=self.episode.created_at)


class Unreadable(Struct, frozen=True, kw_only=True):
    """A file that could not be read at all."""

    path: str
    reason: str


class Collection(Struct, frozen=True, kw_only=True):
    """Everything that a report is made from."""

    episodes: tuple[EpisodeRecord, ...]
    unreadable: tuple[Unreadable, ...] = ()
