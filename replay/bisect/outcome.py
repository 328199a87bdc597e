"""What a bisect found, as plain records. ``None`` means not observed, never 0."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from replay.bisect.candidates import Configuration, NotTried
from replay.verdicts import Evidence


class Agreement(StrEnum):
    """What cold against warm shows under one configuration."""

    AGREES = "agrees"
    """Identical by evidence on every request, both states verified."""
    DRIFTS = "drifts"
    """No flip, but other numbers."""
    FLIPS = "flips"
    NOT_VERIFIED = "not verified"
    """A state is not as claimed, or numbers were not observed: says nothing about the setting."""
    REFUSED = "refused"
    """The engine does not take this configuration."""
    FAILED = "failed"
    """The engine took it and a request failed."""


class Found(StrEnum):
    """How a bisect ended."""

    NO_DIVERGENCE = "no divergence"
    SETTING = "setting found"
    NONE = "none found"


class Counts(Struct, frozen=True, kw_only=True):
    """How many requests of a comparison got which verdict, and how far the numbers are apart."""

    requests: int
    identical: int
    drifted: int
    flipped: int
    other: int
    max_drift: float | None = None
    """Natural-log units, over all ids in both top-k lists."""
    evidence: Evidence | None = None
    """The weakest by which a request was compared."""

    @property
    def all_identical(self) -> bool:
        return self.requests > 0 and self.identical == self.requests


class Speed(Struct, frozen=True, kw_only=True):
    """Tokens per second over all requests of one arm."""

    prompt_tokens_s: float | None = None
    """Prompt tokens, cached ones included, per second until the prompt was done."""
    output_tokens_s: float | None = None

    def seconds(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """Time for so many tokens at these speeds."""
        if not self.prompt_tokens_s or not self.output_tokens_s:
            return None
        return prompt_tokens / self.prompt_tokens_s + output_tokens / self.output_tokens_s


class Trial(Struct, frozen=True, kw_only=True):
    """One configuration: its cold arm against its own warm arm."""

    configuration: Configuration
    agreement: Agreement
    reason: str = ""
    file: str | None = None
    cross: Counts | None = None
    """Cold against warm, first repeat."""
    cold_control: Counts | None = None
    """Cold against its own repeat; None = not repeated."""
    warm_control: Counts | None = None
    again: Counts | None = None
    """Cold against warm of the second repeat."""
    wider: Counts | None = None
    """Cold against warm over all requests that the default was looked at over; None = these are all."""
    cold_moved: Counts | None = None
    """This configuration's cold arm against the default's."""
    cold_speed: Speed = Speed()
    warm_speed: Speed = Speed()
    exposed_lengths: tuple[int, ...] = ()
    """Distinct prompt lengths, in tokens, of requests that the warm arm served from a cache."""
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    output_tokens: int = 0
    """Prompt, cached and output tokens of the warm arm, all requests together."""

    @property
    def repeats_itself(self) -> bool | None:
        """Both arms gave the same numbers again; None = not repeated."""
        if self.cold_control is None or self.warm_control is None:
            return None
        return self.cold_control.all_identical and self.warm_control.all_identical

    @property
    def verified(self) -> bool:
        """A second run from a fresh start repeated both arms, and they agreed again, on all requests."""
        agreed = self.again is not None and self.again.all_identical
        agreed = agreed and (self.wider is None or self.wider.all_identical)
        return self.agreement is Agreement.AGREES and bool(self.repeats_itself) and agreed


class BisectResult(Struct, frozen=True, kw_only=True):
    """Everything that a bisect found out."""

    episode_id: str
    engine: str
    model: str | None
    found: Found
    default: Trial
    trials: tuple[Trial, ...] = ()
    """Every candidate, in the order in which they were tried."""
    chosen: Trial | None = None
    """The smallest change that makes the paths agree, verified; None when there is none."""
    told: str = ""
    """The options that set it."""
    not_tried: tuple[NotTried, ...] = ()
    singles: int = 0
    pairs: int = 0
    pairs_possible: int = 0
    requests: tuple[int, ...] = ()
    """Indices, in the recorded arm, of the requests that were asked."""
    requests_recorded: int = 0
    folder: str = ""
