"""What a comparison of two arms says: frozen records, computed in ``replay``, shown elsewhere.

Side ``a`` is the baseline, side ``b`` the other arm. Values are on the scale of the requests;
drift is in natural-log units of normalised values (see ``RequestVerdict.max_drift``).
"""

from enum import StrEnum

from msgspec import Struct

from tracer.episode import Exposure, Scale
from tracer.exposure import ExposureVerdict as ExposureVerdict


class Verdict(StrEnum):
    """The verdict of one request."""

    IDENTICAL = "identical"
    DRIFTED = "drifted"
    FLIPPED = "flipped"
    DOWNSTREAM = "downstream"
    PROMPT_CHANGED = "prompt-changed"
    UNOBSERVED = "unobserved"
    FAILED = "failed"
    INCOMPLETE = "incomplete"


class Evidence(StrEnum):
    """By what two requests were compared, strongest first."""

    ROW = "row"
    TOP_K = "top-k"
    CHOSEN = "chosen"
    TOKENS = "tokens"
    STRINGS = "strings"


class DriftFrom(StrEnum):
    """Over which ids a drift was taken."""

    TOP_K = "top-k"
    """Over all ids in both top-k lists, as the design defines drift."""
    CHOSEN = "chosen"
    """Over the chosen token alone: the lists were not observed, or not read. Never larger."""

    @property
    def of(self) -> str:
        """What has to follow the name of such a drift: "largest drift" + this."""
        return " of the chosen token" if self is DriftFrom.CHOSEN else ""


class EvidenceClass(StrEnum):
    """How an arm's cache state is known. Rates come from COUNTED and METRICS only."""

    COUNTED = "counted"
    METRICS = "metrics"
    DECLARED = "declared"


class ArmStatus(StrEnum):
    """Whether an arm may count, and if not, why."""

    VERIFIED = "verified"
    VACUOUS = "vacuous"
    """A warm arm whose expected exposure is 0 throughout."""
    STATE_NOT_AS_CLAIMED = "state not as claimed"
    UNVERIFIED = "unverified"
    INCOMPLETE = "incomplete"
    NOT_GREEDY = "not greedy"
    FAILED = "failed"


class Triage(StrEnum):
    """A flip's margin held against the reference drift of the other requests."""

    WITHIN_DRIFT = "within drift"
    UNEXPLAINED = "unexplained"
    SUSPECTED_CORRUPTION = "suspected corruption"
    TOO_FEW_POSITIONS = "too few positions"


class ReferenceDrift(Struct, frozen=True, kw_only=True):
    """Quantiles of drift over agreeing positions of the OTHER requests of the arm pair."""

    positions: int
    requests: int = 0
    """How many other requests the positions come from."""
    drift_from: DriftFrom | None = None
    """``CHOSEN`` as soon as one of these requests has no other: the quantiles bound the drift from below."""
    q50: float | None = None
    q95: float | None = None
    q99: float | None = None
    largest: float | None = None

    @property
    def caveat(self) -> str:
        """What has to be said beside the quantiles; "" where they are of the drift over the lists."""
        return "some by the chosen token alone" if self.drift_from is DriftFrom.CHOSEN else ""


class FlipSide(Struct, frozen=True, kw_only=True):
    """One arm's view of the flipped position. None = not observed, or past this arm's end."""

    token_id: int | None
    piece: bytes | None = None
    value: float | None = None
    """This arm's value of its own token."""
    rank: int | None = None
    """Rank of its own token in its own list, from 0."""
    other_value: float | None = None
    """This arm's value of the OTHER arm's token."""
    other_rank: int | None = None
    margin: float | None = None
    exact_tie: bool = False
    forced: bool = False
    why_no_margin: str | None = None


class Flip(Struct, frozen=True, kw_only=True):
    """The first output position at which the two arms chose different tokens."""

    position: int
    a: FlipSide
    b: FlipSide
    scale: Scale | None
    length_difference: bool = False
    drift_at: float | None = None
    drift_before: float | None = None
    """Largest drift at the positions before the flip."""
    drift_from: DriftFrom | None = None
    """Of ``drift_before``; ``drift_at`` is always over the lists, the chosen tokens being different."""
    gap_change: float | None = None
    """Change of the gap between the baseline's two best tokens, b minus a."""
    raw_change: float | None = None
    """Largest raw logit change, only with full rows."""
    near_tie: bool | None = None
    reference: ReferenceDrift | None = None
    triage: Triage = Triage.TOO_FEW_POSITIONS
    triage_reason: str = ""
    least_drift: float | None = None
    """Half of what the two tokens' values moved against each other: the least drift of a single
    token that makes this flip. When ``least_drift_is_bound``, it is at least this much."""
    least_drift_is_bound: bool = False
    sentence: str = ""


class RequestVerdict(Struct, frozen=True, kw_only=True):
    """The comparison of one request in two arms."""

    request: int
    verdict: Verdict
    evidence: Evidence | None = None
    compared_positions: int = 0
    """Positions at which all tokens before agree, so that numbers can be compared."""
    first_drift: int | None = None
    max_drift: float | None = None
    """max over positions of max over ids in both lists of |Δ(value − log-sum-exp)|, else of |Δ logprob|."""
    median_drift: float | None = None
    drift_from: DriftFrom | None = None
    max_gap_change: float | None = None
    flip: Flip | None = None
    attributable: bool | None = None
    """True: both arms repeat themselves here, both states are verified, and they differ."""
    attribution_reason: str = ""
    exposure_a: Exposure | None = None
    exposure_b: Exposure | None = None
    reason: str = ""


class Comparison(Struct, frozen=True, kw_only=True):
    """All requests of one arm against its baseline arm."""

    baseline: int
    arm: int
    within_arm: bool
    """The two are repeats of one state: a control, not a finding."""
    requests: tuple[RequestVerdict, ...]
    mismatches: tuple[str, ...] = ()
    """Guards that do not hold; without ``anyway`` they refuse the comparison (requests empty)."""

    @property
    def refused(self) -> bool:
        return bool(self.mismatches) and not self.requests

    @property
    def differs(self) -> bool | None:
        """Whether any request of the episode changed its tokens or its prompt; None = not known."""
        kinds = {r.verdict for r in self.requests}
        if kinds & {Verdict.FLIPPED, Verdict.PROMPT_CHANGED, Verdict.DOWNSTREAM}:
            return True
        if not kinds or kinds & {Verdict.FAILED, Verdict.INCOMPLETE}:
            return None
        return False

    @property
    def first_flip(self) -> RequestVerdict | None:
        return next((r for r in self.requests if r.flip is not None), None)


class ArmAssessment(Struct, frozen=True, kw_only=True):
    """Whether one arm's cache state was what it claims, request by request."""

    arm: int
    status: ArmStatus
    evidence_class: EvidenceClass
    exposures: tuple[ExposureVerdict, ...]
    reason: str = ""

    @property
    def may_count(self) -> bool:
        return self.status is ArmStatus.VERIFIED and self.evidence_class is not EvidenceClass.DECLARED


class EpisodeAnalysis(Struct, frozen=True, kw_only=True):
    """Everything that one trace file says: what the report counts and the screen shows."""

    baseline: int | None
    assessments: tuple[ArmAssessment, ...]
    comparisons: tuple[Comparison, ...]
    """Cross-arm and recording comparisons against the baseline, repeat i with repeat i."""
    controls: tuple[Comparison, ...]
    """Within-arm: repeat i > 0 (or pass i > 0) of an arm against its repeat 0."""
    near_tie_threshold: float
