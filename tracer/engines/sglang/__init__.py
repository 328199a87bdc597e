"""Engine ``sglang``: SGLang's own routes over HTTP, attached. Made from its documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice
    from tracer.engines.sglang.engine import SglangEngine


def open_sglang(choice: EngineChoice) -> SglangEngine:
    """Attach to ``choice.url``. Raises ``UsageError`` without one, ``EngineMissing`` when nobody answers."""
    from tracer.engines.sglang.engine import attach

    return attach(choice)
