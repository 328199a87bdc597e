"""Prompts that break the prefix are told once an episode, with what each costs."""

from pathlib import Path

from msgspec.structs import replace

from stats.renderers.choose import render
from stats.report.build import build_report
from stats.report.collect import CollectOptions, collect
from tests.synthetic import ArmSpec, write_trace
from tracer.episode import PrefixBreak
from tracer.tracefile import TraceReader, TraceWriter


def with_break(source: Path, target: Path) -> None:
    """The same trace, request 1 of every arm marked as if a clock had broken its prefix."""
    found = PrefixBreak(
        position=17,
        reuse_lost_tokens=40,
        cause="clock or date",
        context_before="It is ",
        was="12:00",
        now="12:01",
    )
    with TraceReader.open(source) as trace, TraceWriter.create(target, trace.episode) as writer:
        for arm in trace.arms:
            writer.begin_arm(arm)
            for request in trace.requests(arm):
                marked = replace(request, prefix_break=found if request.index == 1 else None)
                writer.write_request(
                    arm.index,
                    marked,
                    prompt_ids=trace.prompt_ids(arm, request.index),
                    path=trace.path(arm, request.index),
                    alternatives=trace.alternatives(arm, request.index),
                )
            end = trace.end(arm)
            assert end is not None
            writer.end_arm(arm.index, end)


def test_a_break_is_told_once_with_its_cost(tmp_path: Path) -> None:
    write_trace(tmp_path / "plain.msgpack", requests=3, tokens=8, arms=[ArmSpec(), ArmSpec(state="warm")])
    with_break(tmp_path / "plain.msgpack", tmp_path / "broken.msgpack")
    built = build_report(collect([tmp_path / "broken.msgpack"], CollectOptions(), workers=1))
    (table,) = [t for t in built.report.tables if t.name == "prefix_stability"]
    assert len(table.rows) == 1
    keys = [column.key for column in table.columns]
    row = dict(zip(keys, table.rows[0], strict=True))
    assert (row["request"], row["token"], row["lost"]) == (1, 17, 40)
    assert (row["cause"], row["was"], row["now"]) == ("clock or date", "12:00", "12:01")
    assert "clock or date" in render(built, "table", 100)


def test_prompts_that_only_append_have_no_table(tmp_path: Path) -> None:
    write_trace(tmp_path / "plain.msgpack", requests=3, tokens=8, arms=[ArmSpec()])
    built = build_report(collect([tmp_path / "plain.msgpack"], CollectOptions(), workers=1))
    assert all(table.name != "prefix_stability" for table in built.report.tables)
