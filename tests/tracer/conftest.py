"""Closes the traces that ``tests.tracer.arm_runs`` opened for a test."""

import pytest

from tests.tracer import arm_runs


@pytest.fixture(autouse=True)
def _close_opened_traces():
    yield
    while arm_runs.OPENED:
        arm_runs.OPENED.pop().close()
