"""A redacted copy can be looked at and counted, and is not replayed: its prompts are not what was asked."""

from pathlib import Path

import pytest

from replay.arm_schedule import ReplayOptions
from replay.replay_run import replay_trace
from tests.synthetic import write_trace
from tracer.engines.choice import EngineChoice
from tracer.errors import UsageError
from tracer.tracefile.redaction import redact


def test_a_redacted_copy_is_refused_in_one_sentence(tmp_path: Path) -> None:
    write_trace(tmp_path / "whole.msgpack", requests=2, tokens=4)
    redact(tmp_path / "whole.msgpack", tmp_path / "shared.msgpack")
    before = (tmp_path / "shared.msgpack").read_bytes()
    with pytest.raises(UsageError, match="redacted copy"):
        replay_trace(tmp_path / "shared.msgpack", EngineChoice(engine="fake"), ReplayOptions())
    assert (tmp_path / "shared.msgpack").read_bytes() == before
