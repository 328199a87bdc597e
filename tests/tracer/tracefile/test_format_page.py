"""``docs/trace-format.md`` against the real bytes, and the samples of every format version."""

import re
import shutil
from pathlib import Path

import pytest

from tests.tracer.tracefile.mutations import frames_of, reading
from tests.tracer.tracefile.sample import PIECES, write_sample
from tracer.episode import CacheState
from tracer.tracefile import TraceReader, TraceWriter
from tracer.tracefile.frames import FORMAT_VERSION, HEAD_BYTES, Kind
from tracer.tracefile.validation import Level, validate

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "trace-format.md").read_text(encoding="utf-8")
SAMPLES = [ROOT / "fixtures" / f"trace-format-{version}.msgpack" for version in range(1, FORMAT_VERSION + 1)]


def test_every_hex_line_of_the_page_stands_in_the_sample() -> None:
    content = SAMPLES[0].read_bytes()
    blocks = re.findall(r"```hex\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 6
    shown = 0
    for block in blocks:
        for line in block.splitlines():
            offset, values = line.split("  ")
            expected = bytes.fromhex(values)
            assert content[int(offset, 16) :][: len(expected)] == expected, line
            shown += len(expected)
    assert shown > 350


def test_the_table_of_kinds_is_complete() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| ([a-z ]+) \|", PAGE, re.MULTILINE))
    assert {int(code): name.replace(" ", "_").upper() for code, name in rows.items() if int(code) > 0} == {
        int(kind): kind.name for kind in Kind
    }


def test_the_sizes_that_the_page_names() -> None:
    content = SAMPLES[0].read_bytes()
    path = next(raw for raw in frames_of(content) if raw[5] == Kind.PATH)
    table = next(raw for raw in frames_of(content) if raw[5] == Kind.ALTERNATIVES)
    assert len(path) == HEAD_BYTES + 8 + 2 * 29
    assert len(table) == HEAD_BYTES + 8 + 2 * (2 * 8 + 1)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_samples_of_all_versions_are_read(sample: Path) -> None:
    with TraceReader.open(sample) as trace:
        assert trace.check() == ()
        assert trace.episode.episode_id == "sample"
        assert [arm.state for arm in trace.arms] == [CacheState.COLD, CacheState.WARM]
        assert [len(trace.requests(arm)) for arm in trace.arms] == [2, 1]
        ends = [trace.end(arm) for arm in trace.arms]
        assert ends[0] is not None
        assert ends[1] is None
        assert trace.prompt_ids(0, 1).tolist() == [1, 2, 3, 5, 7, 3]
        assert trace.prompt_ids(1, 0).tolist() == [1, 2, 3]
        assert trace.path(0, 0).token_ids.tolist() == [5, 7]
        assert trace.path(1, 0).token_ids.tolist() == [6, 7]
        assert trace.alternatives(1, 0).values.tolist() == [[2.0, 1.75], [1.0, 0.5]]
        assert trace.path(1, 0).fingerprints.tolist() == [[2, 2], [4, 4]]
        assert trace.requests(1)[0].exposure.cached_tokens == 2
        assert {i: trace.piece(i) for i in trace.piece_ids} == PIECES
    assert not validate(sample).broken
    assert [f.level for f in validate(sample).findings] == [Level.WARNING]


def test_the_present_sample_is_what_is_written_now(tmp_path: Path) -> None:
    """By meaning, not by byte: a field with a default may have been added since."""
    write_sample(tmp_path / "now.msgpack")
    with TraceReader.open(tmp_path / "now.msgpack") as now, TraceReader.open(SAMPLES[-1]) as kept:
        assert reading(now) == reading(kept)


def test_a_sample_can_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    shutil.copy(SAMPLES[0], path)
    with TraceWriter.append(path) as writer:
        assert writer.resume_arm(1) == 1
