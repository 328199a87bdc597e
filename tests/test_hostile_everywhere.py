"""The 5,000 hostile tokens of the screen's tests, through ``show`` and ``report`` in every format."""

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cachetrace import build_app
from stats.renderers.choose import render
from stats.report.build import Built, build_report
from stats.report.collect import CollectOptions, collect
from tests.tui.test_hostile_text import CASES, FORBIDDEN, pieces
from tracer.columns import Alternatives, PathColumns, PositionFlag
from tracer.episode import (
    Arm,
    ArmEnd,
    CacheState,
    Capabilities,
    EngineInfo,
    Episode,
    Exposure,
    ExposureSource,
    Priming,
    Request,
    RunPlace,
    Sampling,
    Scale,
    StopReason,
    Way,
    WorkloadSpec,
)
from tracer.tracefile import TraceWriter

pytestmark = pytest.mark.slow

FLAGS = np.full(1, PositionFlag.VALUE | PositionFlag.ALTERNATIVES, np.uint8)


def write_hostile(path: Path) -> None:
    """2,500 requests of one token; every token of either arm is another hostile piece, and each flips."""
    hostile = dict(enumerate(pieces(CASES)))
    episode = Episode(
        episode_id="\x1b[31m=hostile", workload=WorkloadSpec(name="chat"), created_at=1.0, writer="test"
    )
    with TraceWriter.create(path, episode) as writer:
        for index, state in enumerate((CacheState.COLD, CacheState.WARM)):
            cached = 0 if state is CacheState.COLD else 8
            arm = writer.begin_arm(
                Arm(
                    index=index,
                    state=state,
                    priming=Priming.NONE if state is CacheState.COLD else Priming.OWN,
                    way=Way.FIXED,
                    engine=EngineInfo(engine="fake", model_name="<script>alert(1)</script>\u202e"),
                    capabilities=Capabilities(top_k=2, token_ids=True),
                    sampling=Sampling(max_new_tokens=1),
                    place=RunPlace(run_id="r"),
                    started_at=1.0,
                    top_k=2,
                )
            )
            for number in range(CASES // 2):
                pair = np.array([2 * number, 2 * number + 1], np.int32)
                chosen = pair if index == 0 else pair[::-1]
                values = np.array([[1.0, 0.5]], np.float32)
                writer.write_request(
                    arm.index,
                    Request(
                        index=number,
                        scale=Scale.LOGIT,
                        sampling=arm.sampling,
                        stop=StopReason.LENGTH,
                        text=hostile[int(chosen[0])].decode("utf-8", "replace"),
                        exposure=Exposure(
                            prompt_tokens=9,
                            cached_tokens=cached,
                            expected_tokens=cached,
                            source=ExposureSource.ENGINE,
                        ),
                    ),
                    prompt_ids=np.arange(9, dtype=np.int32),
                    path=PathColumns(chosen[:1].copy(), FLAGS, values[0, :1].copy(), np.ones(1, np.float32)),
                    alternatives=Alternatives(chosen[None, :].copy(), values, np.full(1, 2, np.uint8)),
                    pieces=hostile if number == 0 and index == 0 else None,
                )
            writer.end_arm(arm.index, ArmEnd(requests=CASES // 2, completed=True))


@pytest.fixture(scope="module")
def hostile_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "hostile.msgpack"
    write_hostile(path)
    return path


@pytest.fixture(scope="module")
def report(hostile_trace: Path) -> Built:
    return build_report(collect([hostile_trace], CollectOptions(), workers=1))


def forbidden(text: str) -> list[str]:
    """Control, bidirectional and invisible characters, but for the ends of lines."""
    return FORBIDDEN.findall(text.replace("\n", ""))


@pytest.mark.parametrize("name", ["table", "md", "csv", "json", "latex", "html"])
def test_every_format_of_the_report(report: Built, name: str) -> None:
    text = render(report, name, 120)
    assert len(text) > 100_000, "the flips are in it"
    assert forbidden(text) == []
    {"csv": no_formula, "json": json.loads, "html": no_element, "latex": balanced}.get(name, len)(text)


def no_formula(text: str) -> None:
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            assert not re.match(r"[=+\-@\t\r](?![\d.–])", cell), cell


def no_element(text: str) -> None:
    seen = set[str]()

    class Elements(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.add(tag)
            assert not any(name.startswith("on") or "javascript" in (value or "") for name, value in attrs)

    parser = Elements()
    parser.feed(text)
    assert not seen & {"script", "img", "iframe", "a", "object", "link"}


def balanced(text: str) -> None:
    bare = re.sub(r"\\[{}\\]", "", text)
    assert bare.count("{") == bare.count("}")


@pytest.mark.parametrize("more", [(), ("--tokens", "--arm", "cold"), ("--json",), ("--request", "7")])
def test_show(hostile_trace: Path, more: tuple[str, ...]) -> None:
    done = CliRunner().invoke(build_app(), ["show", str(hostile_trace), *more])  # type: ignore[arg-type]
    assert done.exit_code == 0, done.output[-500:]
    assert forbidden(done.stdout) == []
