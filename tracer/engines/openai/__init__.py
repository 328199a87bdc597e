"""Engine ``openai``: anything of OpenAI's shape, taking what it gives and saying what it does not.

text_ids  prompts as ids although no tokenizer is known
engine    the adapter that the arm loop talks to
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice
    from tracer.engines.openai.engine import OpenAIEngine


def open_openai(choice: EngineChoice) -> OpenAIEngine:
    """Attach to ``choice.url``. Raises ``UsageError`` without one, ``EngineMissing`` when nobody answers."""
    from tracer.engines.openai.engine import attach

    return attach(choice)
