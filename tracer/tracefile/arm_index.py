"""What the frames of a file add up to: arms, their requests, and what is lost of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tracer.episode import (
    Arm,
    ArmEnd,
    CacheState,
    Capabilities,
    EngineInfo,
    Priming,
    Request,
    RequestError,
    RunPlace,
    Sampling,
    StopReason,
    Way,
)
from tracer.errors import TraceFormatError
from tracer.tracefile.frames import KNOWN_KINDS, Frame, Kind
from tracer.tracefile.losses import Loss, LossKind

MOST_ARMS = 4096
MOST_REQUESTS_IN_A_GAP = 1000
MOST_LOSSES = 10_000
LOST = "lost"
"""``RequestError.kind`` of a request that stands in the place of one that cannot be read."""


@dataclass(slots=True)
class ArmIndex:
    """One arm of a file: its description, its requests, where their columns lie."""

    arm: Arm | None = None
    end: ArmEnd | None = None
    commits: dict[int, Request] = field(default_factory=dict)
    commit_sequence: dict[int, int] = field(default_factory=dict)
    manifests: dict[int, dict[int, int]] = field(default_factory=dict)
    """Request → kind of column frame → checksum of its payload, as its commit says."""
    frames: dict[int, dict[int, Frame]] = field(default_factory=dict)
    damaged_commits: set[int] = field(default_factory=set)
    highest_request: int = -1
    """Largest index of a commit, read or damaged."""
    _listed: tuple[Request, ...] = ()
    _listed_for: tuple[int, int] = (-1, -1)

    def known_requests(self) -> int:
        """How many requests the arm has, lost ones included."""
        return max(self.highest_request + 1, self.end.requests if self.end is not None else 0)

    def lost_requests(self) -> list[int]:
        """Indices of requests that were there and cannot be read."""
        known = self.known_requests()
        if known - len(self.commits) > MOST_REQUESTS_IN_A_GAP:
            raise TraceFormatError(f"{known - len(self.commits)} requests of one arm are missing.")
        return [i for i in range(known) if i not in self.commits]

    def requests(self) -> tuple[Request, ...]:
        """All requests; position i holds request i, with a failed one in the place of a lost one."""
        key = (len(self.commits), self.known_requests())
        if key != self._listed_for:
            lost = set(self.lost_requests())
            self._listed = tuple(lost_request(i) if i in lost else self.commits[i] for i in range(key[1]))
            self._listed_for = key
        return self._listed

    def losses(self, number: int) -> list[Loss]:
        """What is missing of this arm, by name."""
        found: list[Loss] = []
        if self.arm is None:
            sentence = f"the description of arm {number} is damaged or missing; its requests cannot count."
            found.append(Loss(kind=LossKind.ARM, sentence=sentence, arm=number))
        lost = self.lost_requests()
        for i in lost:
            why = "its description is damaged" if i in self.damaged_commits else "its frames are missing"
            sentence = f"arm {number}, request {i} is lost: {why}."
            found.append(Loss(kind=LossKind.REQUEST, sentence=sentence, arm=number, request=i))
        for i, manifest in self.manifests.items():
            found += self._column_losses(number, i, manifest)
        known = self.known_requests()
        for i, frames in self.frames.items():
            if i >= known or i < 0:
                offset = min(frame.offset for frame in frames.values())
                sentence = f"arm {number}, request {i} has columns but no description: it was not finished."
                kind = LossKind.UNCOMMITTED
                found.append(
                    Loss(kind=kind, sentence=sentence, arm=number, request=i, offset=offset, at_end=True)
                )
        return found

    def _column_losses(self, number: int, request: int, manifest: dict[int, int]) -> list[Loss]:
        found: list[Loss] = []
        frames = self.frames.get(request, {})
        for kind, checksum in manifest.items():
            frame = frames.get(kind)
            if frame is not None and frame.payload_crc == checksum:
                continue
            name = Kind(kind).name.lower() if kind in KNOWN_KINDS else f"kind {kind}"
            why = "are damaged or missing" if frame is None else "are not those that were committed"
            sentence = f"arm {number}, request {request}: the {name} columns {why}."
            found.append(
                Loss(kind=LossKind.COLUMN, sentence=sentence, arm=number, request=request, column=name)
            )
            frames.pop(kind, None)
        return found

    def described(self, index: int) -> Arm:
        """The arm, or a stand-in that can never count when its description is lost."""
        return self.arm if self.arm is not None else lost_arm(index)


def lost_request(index: int) -> Request:
    """Stands in the place of a request that cannot be read, so that positions stay indices."""
    message = "this request was recorded but its frames are damaged or missing"
    return Request(index=index, stop=StopReason.ERROR, error=RequestError(kind=LOST, message=message))


def lost_arm(index: int) -> Arm:
    """Stands in the place of an arm whose description cannot be read. It can never count."""
    return Arm(
        index=index,
        state=CacheState.AS_SERVED,
        priming=Priming.NONE,
        way=Way.FIXED,
        engine=EngineInfo(engine=LOST),
        capabilities=Capabilities(),
        sampling=Sampling(),
        place=RunPlace(run_id=LOST),
        started_at=0.0,
        note="the description of this arm is damaged or missing",
    )
