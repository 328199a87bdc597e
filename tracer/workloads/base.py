"""A workload turns a task into requests. It never talks to an engine.

``Workload.start`` gives a fresh ``RequestSource``; rendering and tokenizing are passed in, since
only the engine knows the model's chat template and vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from tracer.episode import Message, WorkloadSpec
from tracer.request_source import RequestSource


class Tokenizer(Protocol):
    """The part of an engine that a workload may use."""

    def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None = None) -> str: ...

    def tokenize(self, text: str) -> list[int]: ...

    def piece(self, token_id: int) -> bytes | None: ...


class Workload(Protocol):
    """A task that can be started again and again from its spec alone."""

    @property
    def spec(self) -> WorkloadSpec:
        """Everything needed to rebuild this workload; it is stored in the trace."""
        ...

    @property
    def episode_id(self) -> str: ...

    def start(self, tokenizer: Tokenizer) -> RequestSource:
        """A fresh episode: nothing is shared with another start."""
        ...


class WorkloadFamily(Protocol):
    """What ``--workload NAME`` names: it lists episodes and rebuilds one from its spec."""

    name: str

    def episodes(self, **options: Any) -> Iterator[Workload]: ...

    def from_spec(self, spec: WorkloadSpec) -> Workload: ...
