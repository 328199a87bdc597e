"""Every error that cachetrace raises on purpose.

CachetraceError
├── UsageError          the command cannot be done as asked
├── TraceFormatError    a trace file cannot be read, or not wholly
├── EngineError         an engine said no, or said nothing
│   ├── EngineMissing   the library, binary or model is not there
│   ├── PromptTooLong   the prompt does not fit into the context
│   └── EngineDied      the engine ended while a request was running
├── StateRefused        an adapter cannot produce the cache state asked for
├── NothingToCompute    no arm may count for what was asked
└── GateFailed          a gate was computed and did not hold

The message is one sentence for the user that says what to do. Only the front door turns an
error into an exit code; the code itself stands on the class.
"""

from typing import ClassVar


class CachetraceError(Exception):
    """Base of all errors that are shown to the user as one sentence, without a traceback."""

    exit_code: ClassVar[int] = 2


class UsageError(CachetraceError):
    """The command, an option or a settings file asks for something that cannot be done."""


class TraceFormatError(CachetraceError):
    """A trace file is damaged, truncated, too new, or is no trace file at all."""


class EngineError(CachetraceError):
    """An engine refused a request or answered with an error."""


class EngineMissing(EngineError):
    """The engine's library, binary or model file is missing or cannot be loaded."""


class PromptTooLong(EngineError):
    """Prompt and new tokens do not fit into the engine's context."""


class EngineDied(EngineError):
    """The engine process ended, or its connection broke, while a request was running."""


class StateRefused(CachetraceError):
    """This engine cannot produce the cache state, priming or way that was asked for."""


class NothingToCompute(CachetraceError):
    """No verified arm or no comparable pair is there for what was asked."""


class GateFailed(CachetraceError):
    """A gate was computed from verified arms and does not hold."""

    exit_code: ClassVar[int] = 1
