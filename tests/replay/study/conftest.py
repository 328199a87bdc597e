"""The benchmark's wheel, kept as `cachetrace bfcl setup` keeps it (fetched when it is not there)."""

from pathlib import Path

import pytest

from tracer.errors import UsageError
from tracer.workloads.bfcl.setup import require_wheel, set_up


@pytest.fixture(scope="session")
def wheel() -> Path:
    try:
        return require_wheel()
    except UsageError:
        return set_up()
