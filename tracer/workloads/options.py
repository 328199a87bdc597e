"""Options of workloads: what is given on the command line reaches every family."""

from __future__ import annotations

from typing import Any

from tracer.errors import UsageError


def refuse_options(name: str, options: dict[str, Any]) -> None:
    """Raise ``UsageError`` for an option that was given and that this workload does not have."""
    given = sorted(option for option, value in options.items() if value is not None)
    if given:
        raise UsageError(f"the workload {name} has no option {given[0]!r}; leave it out.")
