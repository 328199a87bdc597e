"""Traces for the screen, each written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.synthetic import ArmSpec, write_trace


@pytest.fixture(scope="session", autouse=True)
def _no_animations() -> None:
    """Set before any application of these tests is made: pictures and timing must not depend on it."""
    import os

    os.environ["TEXTUAL_ANIMATIONS"] = "none"


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("screen")


@pytest.fixture(scope="session")
def flipped(traces: Path) -> Path:
    """Recording (cold), cold, warm with flips in requests 2 and 5, snapshot with one in 4."""
    path = traces / "flipped.msgpack"
    arms = [
        ArmSpec(),
        ArmSpec(state="cold", repeat=1),
        ArmSpec(state="warm", drift=1e-2, flips={2: 5, 5: 20}),
        ArmSpec(state="snapshot", drift=1e-3, flips={4: 11}),
    ]
    write_trace(path, requests=8, tokens=32, arms=arms, prompt_tokens=200)
    return path
