"""The workload families by name. Each is imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import cast

from tracer.episode import WorkloadSpec
from tracer.errors import UsageError
from tracer.workloads.base import Workload, WorkloadFamily

_FAMILIES = {
    "office": ("tracer.workloads.office", "OfficeFamily"),
    "chat": ("tracer.workloads.chat", "ChatFamily"),
    "bfcl": ("tracer.workloads.bfcl", "BfclFamily"),
    "gsm8k": ("tracer.workloads.gsm8k", "Gsm8kFamily"),
}

WORKLOADS = tuple(_FAMILIES)


def family(name: str) -> WorkloadFamily:
    """The family that ``--workload NAME`` names; raises ``UsageError`` if there is none."""
    module, attribute = _FAMILIES.get(name, (None, ""))
    if module is None or find_spec(module) is None:
        raise UsageError(f"there is no workload {name!r}; choose one of {', '.join(WORKLOADS)}.")
    return cast(WorkloadFamily, getattr(import_module(module), attribute)())


def workload_from_spec(spec: WorkloadSpec) -> Workload:
    """The recorded task again, for closed-loop replay and for resuming."""
    return family(spec.name).from_spec(spec)
