"""What an engine made of an open setting tells configurations apart only where both were seen to have it."""

import pytest
from msgspec.structs import replace

from replay.divergence import analyse, arm_groups, compare_arms
from replay.engine_guard import engine_mismatches, same_configuration
from tests.replay.memory_trace import MemoryTrace, served
from tracer.episode import EngineInfo, Way
from tracer.errors import UsageError
from tracer.resolved import FLASH_ATTENTION
from tracer.resume import check_same_engine

SILENT = EngineInfo(
    engine="llama", model_hash="sha256:a", threads=2, flash_attention="auto", flags={"greedy": "x"}
)
ON, OFF = (replace(SILENT, flags={**SILENT.flags, FLASH_ATTENTION: said}) for said in ("enabled", "disabled"))
WORDS = "flash attention as the engine resolved it"


def one():
    return served([7], values=[1.0], lse=[2.0], prints=[1])


def two_cold_arms(first: EngineInfo, second: EngineInfo) -> MemoryTrace:
    trace = MemoryTrace()
    trace.add_arm([one()], engine=first)
    trace.add_arm([one()], engine=second, way=Way.FIXED)
    return trace


@pytest.mark.parametrize("pair", [(SILENT, ON), (ON, SILENT), (OFF, OFF)])
def test_what_one_side_was_not_seen_to_say_is_no_difference(pair):
    trace = two_cold_arms(*pair)
    check_same_engine(trace.arms[0], pair[1])
    assert same_configuration(*pair)
    assert engine_mismatches(*pair) == ()
    assert [group.arms for group in arm_groups(trace)] == [(0, 1)]
    assert [c.differs for c in analyse(trace).controls] == [False]


def test_two_known_outcomes_are_told_apart_in_words():
    trace = two_cold_arms(ON, OFF)
    with pytest.raises(UsageError, match=FLASH_ATTENTION):
        check_same_engine(trace.arms[0], OFF)
    assert not same_configuration(ON, OFF)
    assert engine_mismatches(ON, OFF) == (f"{WORDS} (enabled when recorded, disabled now)",)
    assert compare_arms(trace, 0, 1).mismatches == (f"{WORDS}: enabled against disabled",)


def test_other_flags_still_count():
    other = replace(ON, flags={**ON.flags, "greedy": "y"})
    assert not same_configuration(SILENT, other)
    with pytest.raises(UsageError, match="begun with flags"):
        check_same_engine(two_cold_arms(SILENT, other).arms[0], other)
