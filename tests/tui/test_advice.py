"""First-run help: each kind of trace says what it is and what to do next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.synthetic import ArmSpec, write_trace
from tracer.episode import Episode, WorkloadSpec
from tracer.tracefile import TraceWriter
from tui.advice import advice_for
from tui.app import TraceApp
from tui.screens.advice import AdviceScreen
from tui.screens.trace import TraceScreen
from tui.trace_model import TraceModel

COLD, AGAIN = ArmSpec(), ArmSpec(state="cold", repeat=1)
KINDS = {
    "single arm": ([COLD], "one arm only", "cachetrace replay"),
    "identical": ([COLD, AGAIN, ArmSpec(state="warm")], "Nothing differs", "no-prompt-cache"),
    "unverified": (
        [ArmSpec(source="declared"), ArmSpec(state="warm", source="not-observed")],
        "No arm of this trace is verified",
        "cachetrace doctor",
    ),
}


def written(tmp_path: Path, arms: list[ArmSpec], **options: object) -> Path:
    path = tmp_path / "trace.msgpack"
    write_trace(path, requests=3, tokens=12, arms=arms, **options)
    return path


def advice(path: Path):
    model = TraceModel.open(path)
    try:
        return advice_for(model)
    finally:
        model.close()


@pytest.mark.parametrize("kind", ["single arm", "identical", "unverified"])
def test_what_it_is_and_what_to_do_next(tmp_path, kind) -> None:
    arms, title, step = KINDS[kind]
    found = advice(written(tmp_path, arms))
    assert found is not None
    assert title in found.title
    assert found.what
    assert any(step in one for one in found.next_steps)


def test_a_warm_arm_that_met_no_warm_cache(tmp_path) -> None:
    path = tmp_path / "trace.msgpack"
    write_trace(path, requests=1, tokens=12, arms=[COLD, AGAIN, ArmSpec(state="warm")])
    found = advice(path)
    assert found is not None
    assert "never met a warm cache" in found.title


def test_a_trace_with_a_flip_needs_no_advice(flipped) -> None:
    assert advice(flipped) is None


def test_arms_that_may_not_be_compared(tmp_path) -> None:
    arms = [COLD, ArmSpec(state="warm", drift=1e-2, engine={"model_hash": "sha256:" + "2" * 64})]
    found = advice(written(tmp_path, arms))
    assert found is not None
    assert "may not be compared" in found.title
    assert any("model" in reason for reason in found.what)


async def test_an_empty_trace(tmp_path) -> None:
    path = tmp_path / "empty.msgpack"
    episode = Episode(episode_id="e", workload=WorkloadSpec(name="office"), created_at=0.0, writer="t")
    TraceWriter.create(path, episode).close()
    found = advice(path)
    assert found is not None
    assert found.title == "This trace is empty"
    app = TraceApp(path, out=tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert isinstance(app.screen, AdviceScreen)
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, AdviceScreen)


async def test_an_arm_without_a_request(tmp_path) -> None:
    path = written(tmp_path, [COLD, ArmSpec(state="warm", requests=0, complete=False)])
    app = TraceApp(path, out=tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(
            "enter", "a", "b", "b", "n", "m", "right", "down", "G", "f", "f", "y", "e", "p", "escape"
        )
        await pilot.pause()
        assert isinstance(app.screen, TraceScreen)


async def test_a_damaged_trace_names_its_losses_and_goes_on(tmp_path, flipped) -> None:
    path = tmp_path / "damaged.msgpack"
    raw = bytearray(flipped.read_bytes())
    raw[len(raw) // 2] ^= 0x55
    path.write_bytes(bytes(raw[:-40]))
    found = advice(path)
    assert found is not None
    assert "damaged" in found.title
    assert any("cachetrace validate" in step for step in found.next_steps)
    app = TraceApp(path, out=tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert isinstance(app.screen, AdviceScreen)
        await pilot.press("enter", "n", "right", "right_square_bracket", "a")
        await pilot.pause()
        assert isinstance(app.screen, TraceScreen)


@pytest.mark.parametrize(
    "content", [b"", b"not a trace at all", b"\x00" * 4096], ids=["empty", "text", "zeros"]
)
async def test_a_file_that_is_no_trace(tmp_path, content) -> None:
    path = tmp_path / "[bold]strange.msgpack"
    path.write_bytes(content)
    app = TraceApp(path, out=tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert isinstance(app.screen, AdviceScreen)
        assert "cannot be opened" in app.screen.advice.title
        await pilot.press("enter", "escape")
        await pilot.pause()
        assert isinstance(app.screen, AdviceScreen), "there is nothing to go on to"
        await pilot.press("q")
    assert app.return_code == 0


async def test_an_unknown_arm_is_said_in_one_sentence(tmp_path, flipped) -> None:
    from tui.app import Opening

    app = TraceApp(flipped, opening=Opening(arm="nonsense"), out=tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert isinstance(app.screen, AdviceScreen)
        assert "no arm 'nonsense'" in app.screen.advice.what[0]
