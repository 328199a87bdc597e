"""The workload families by name. Each is imported only when it is asked for."""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, cast, runtime_checkable

from tracer.episode import WorkloadSpec
from tracer.errors import UsageError
from tracer.workloads.base import Workload, WorkloadFamily
from tracer.workloads.options import refuse_options

_FAMILIES = {
    "office": ("tracer.workloads.office", "OfficeFamily"),
    "chat": ("tracer.workloads.chat", "ChatFamily"),
    "bfcl": ("tracer.workloads.bfcl", "BfclFamily"),
    "gsm8k": ("tracer.workloads.gsm8k", "Gsm8kFamily"),
}

WORKLOADS = tuple(_FAMILIES)


@runtime_checkable
class ChecksOptions(Protocol):
    """A family that knows which values of its options cannot be, before any episode is listed."""

    def check_options(self, **options: Any) -> None:
        """Raise ``UsageError`` for values that cannot be, alone or together; others are passed over."""
        ...


def family(name: str) -> WorkloadFamily:
    """The family that ``--workload NAME`` names; raises ``UsageError`` if there is none."""
    module, attribute = _FAMILIES.get(name, (None, ""))
    if module is None or find_spec(module) is None:
        raise UsageError(f"there is no workload {name!r}; choose one of {', '.join(WORKLOADS)}.")
    return cast(WorkloadFamily, getattr(import_module(module), attribute)())


def check_options(name: str, options: dict[str, Any]) -> None:
    """Raise ``UsageError`` for options that the workload would refuse or not heed. None = not given."""
    found = family(name)
    own = inspect.signature(found.episodes).parameters
    refuse_options(name, {option: value for option, value in options.items() if option not in own})
    if isinstance(found, ChecksOptions):
        found.check_options(**options)


def workload_from_spec(spec: WorkloadSpec) -> Workload:
    """The recorded task again, for closed-loop replay and for resuming."""
    return family(spec.name).from_spec(spec)
