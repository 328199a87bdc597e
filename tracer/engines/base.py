"""What the arm loop asks of an engine. Token ids in, token ids and numbers out.

An adapter never decides what a state means: it offers the few operations below, and
``tracer.cache_states`` combines them. It never retries (a retry would change the cache).
Must not import numpy at module level, see ``tracer.episode``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tracer.episode import (
    DEFAULT_TOP_K,
    Capabilities,
    EngineInfo,
    ExposureSource,
    Identity,
    Message,
    RequestError,
    Sampling,
    Scale,
    StopReason,
    Timing,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tracer.columns import Alternatives, PathColumns
    from tracer.http_body import HttpBody

PromptProgress = Callable[[int, int], None]
"""Called with (prompt tokens done, prompt tokens to compute)."""


@dataclass(frozen=True, slots=True)
class GenerateCall:
    """One request as the arm loop gives it to an engine."""

    prompt_ids: tuple[int, ...]
    sampling: Sampling
    top_k: int = DEFAULT_TOP_K
    use_cache: bool = True
    """False: no prompt token may come from any layer."""
    forced_ids: tuple[int, ...] | None = None
    """Decode exactly these tokens one at a time instead of choosing (way ``forced``)."""
    keep_rows: bool = False
    body: HttpBody | None = None
    """Send this instead of the ids, with our additions and only its cache fields changed (way ``body``)."""
    on_prompt_progress: PromptProgress | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """What an engine answered to one call."""

    path: PathColumns
    alternatives: Alternatives | None
    scale: Scale | None
    stop: StopReason
    text: str
    identity: Identity = Identity.TOKEN_ID
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    exposure_source: ExposureSource = ExposureSource.NOT_OBSERVED
    exposure_note: str | None = None
    prompt_cache_tokens: int | None = None
    pieces: dict[int, bytes] = field(default_factory=dict)
    """Bytes of token ids that the answer itself named (engines that cannot be asked later)."""
    rows: NDArray[np.float32] | None = None
    """float32[n, vocabulary], only with ``keep_rows``."""
    timing: Timing = field(default_factory=Timing)
    not_observed: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    error: RequestError | None = None
    """The answer broke off. What had arrived is in the columns, and ``stop`` is ERROR."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """Handle of a sequence state that an engine of this run saved. Never comes from a trace."""

    token_ids: tuple[int, ...]
    """The tokens whose keys and values the state holds."""
    size_bytes: int
    payload: object
    """Adapter's own: bytes in memory, or the name of a file that this run wrote."""


@runtime_checkable
class Engine(Protocol):
    """An engine under our control. Adapters document which operations they refuse.

    Refusals raise ``StateRefused``; a failing request raises ``EngineError`` or a subclass.
    """

    @property
    def info(self) -> EngineInfo:
        """Effective configuration, as far as it is known now."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What can be observed and controlled with this configuration."""
        ...

    def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None = None) -> str:
        """The chat template's text for these messages, ending in the generation prompt."""
        ...

    def tokenize(self, text: str) -> list[int]:
        """Ids of a rendered prompt or a piece of one; special tokens in the text are parsed."""
        ...

    def piece(self, token_id: int) -> bytes | None:
        """The token's bytes, None when they cannot be known."""
        ...

    def set_layers(self, *, prefix_cache: bool, prompt_cache: bool) -> None:
        """Switch the two cache layers for the next arm; a launched server may restart here."""
        ...

    def reset(self) -> None:
        """Empty every layer and verify it where that is possible."""
        ...

    def held_ids(self) -> tuple[int, ...] | None:
        """Tokens whose keys and values the first layer holds now; None when not known."""
        ...

    def generate(self, call: GenerateCall) -> Generation:
        """Serve one request."""
        ...

    def cut(self, tokens: int) -> None:
        """Keep only the first ``tokens`` tokens of the first layer (in process)."""
        ...

    def decode_into_cache(self, token_ids: Sequence[int]) -> None:
        """Decode these tokens one at a time after what is held, as generation would."""
        ...

    def save_state(self) -> SavedState:
        """Save the state of the sequence."""
        ...

    def restore_state(self, state: SavedState) -> None:
        """Empty the caches and set the sequence to a state that this run saved."""
        ...

    def close(self) -> None:
        """Release everything; stop what was launched."""
        ...
