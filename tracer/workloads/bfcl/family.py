"""Which episodes there are, and how one is rebuilt from a trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tracer.episode import WorkloadSpec
from tracer.errors import UsageError
from tracer.request_source import RequestSource
from tracer.workloads.base import Tokenizer, Workload
from tracer.workloads.bfcl import dataset
from tracer.workloads.bfcl.setup import PACKAGE, VERSION, WHEEL_SHA256, require_wheel
from tracer.workloads.options import refuse_options

NAME = "bfcl"
Subset = Literal["paper", "all", "cpu8"]
SUBSETS: tuple[Subset, ...] = ("paper", "all", "cpu8")
CPU8_NEW_TOKENS = 64
CPU8_CONTEXT_TOKENS = 6144
_SUBSET_NOTE = {
    "cpu8": "8 file-system episodes, teacher-forced, 64 new tokens: a subset, not the paper's figure"
}


@dataclass(frozen=True, slots=True)
class BfclEpisode:
    """One multi-turn episode; ``agent = oracle`` puts the ground truth into the history."""

    spec: WorkloadSpec

    @property
    def episode_id(self) -> str:
        return str(self.spec.params["episode"])

    def start(self, tokenizer: Tokenizer) -> RequestSource:
        from tracer.workloads.bfcl.source import ClosedLoop, TeacherForced

        kind = TeacherForced if self.spec.agent == "oracle" else ClosedLoop
        return kind(require_wheel(), self.spec, tokenizer)


class BfclFamily:
    """Multi-turn base of the Berkeley Function Calling Leaderboard, by ascending number."""

    name = NAME

    def episodes(
        self,
        *,
        subset: str | None = None,
        agent: Literal["model", "oracle"] | None = None,
        history: Literal["ids", "messages"] | None = None,
        turns: int | None = None,
        **options: Any,
    ) -> Iterator[Workload]:
        """The paper's first 80, all 200, or the 8 that fit a CPU (those only teacher-forced).

        ``turns``: only the first user turns of each; such an episode is not scored.
        """
        refuse_options(NAME, options)
        self.check_options(subset=subset, agent=agent)
        subset = subset or "paper"
        entries = dataset.read_entries(require_wheel())
        if subset == "paper":
            entries = entries[: dataset.PAPER_EPISODES]
        elif subset == "cpu8":
            entries = dataset.file_system_episodes(entries)[: dataset.CPU8_EPISODES]
        chosen = agent or ("oracle" if subset == "cpu8" else "model")
        for entry in entries:
            yield BfclEpisode(episode_spec(entry.episode_id, subset, chosen, history or "ids", turns))

    def check_options(self, *, subset: str | None = None, agent: str | None = None, **_: Any) -> None:
        """Raise ``UsageError`` for a subset that there is not, or that the agent cannot be asked for."""
        if subset is not None and subset not in SUBSETS:
            raise UsageError(f"workload {NAME} has no subset {subset!r}; choose from {', '.join(SUBSETS)}.")
        if subset == "cpu8" and agent == "model":
            raise UsageError("the subset cpu8 is for models that cannot call these tools: only agent oracle.")

    def from_spec(self, spec: WorkloadSpec) -> Workload:
        """The episode that a trace describes; needs the same wheel, kept by ``cachetrace bfcl setup``."""
        recorded = spec.params.get("wheel_sha256")
        if recorded != WHEEL_SHA256:
            raise UsageError(
                f"this episode was recorded with another {PACKAGE} (sha256 {recorded}); this cachetrace uses "
                f"{VERSION}; replay it with the recorded prompts instead."
            )
        if "episode" not in spec.params:
            raise UsageError(f"the recorded {NAME} workload does not say which episode it is.")
        turns = spec.params.get("turns", 1)
        if not isinstance(turns, int) or turns < 1:
            raise UsageError(f"the recorded {NAME} workload names a number of turns that cannot be.")
        return BfclEpisode(spec)


def episode_spec(
    episode_id: str,
    subset: str,
    agent: Literal["model", "oracle"],
    history: Literal["ids", "messages"],
    turns: int | None = None,
) -> WorkloadSpec:
    """What a trace stores about the task: enough to start it again with the kept wheel."""
    params: dict[str, Any] = {"episode": episode_id, "subset": subset, "wheel_sha256": WHEEL_SHA256}
    if turns is not None:
        params["turns"] = turns
    if subset in _SUBSET_NOTE:
        params["note"] = _SUBSET_NOTE[subset]
    return WorkloadSpec(
        name=NAME, params=params, history=history, agent=agent, version=f"{PACKAGE} {VERSION}"
    )
