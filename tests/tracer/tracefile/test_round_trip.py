"""What is written is read back, whatever is absent."""

import math
import struct
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.synthetic import ArmSpec, write_trace
from tests.tracer.tracefile.mutations import frames_of
from tracer.columns import Alternatives, PathColumns, PositionFlag
from tracer.episode import (
    Arm,
    ArmEnd,
    CacheState,
    Capabilities,
    EngineInfo,
    Episode,
    Exposure,
    Identity,
    Message,
    Outcome,
    PrefixBreak,
    Priming,
    Request,
    RequestError,
    RunPlace,
    Sampling,
    Scale,
    ToolCall,
    Way,
    WorkloadSpec,
)
from tracer.tracefile import TraceReader, TraceWriter, read_header
from tracer.tracefile.frames import HEAD_BYTES, Kind, parse_head

EPISODE = Episode(episode_id="e", workload=WorkloadSpec(name="office"), created_at=1.5, writer="test")
ARM = Arm(
    index=0,
    state=CacheState.WARM,
    priming=Priming.OWN,
    way=Way.RECORDED,
    engine=EngineInfo(engine="fake", flags={"a": "b"}),
    capabilities=Capabilities(token_ids=True, states=(CacheState.COLD,)),
    sampling=Sampling(),
    place=RunPlace(run_id="r"),
    started_at=2.0,
)

names = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), names),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)
floats32 = st.floats(width=32)  # NaN and infinities too: engines give them


@st.composite
def columns(draw: st.DrawFn) -> tuple[PathColumns | None, Alternatives | None, np.ndarray | None]:
    n = draw(st.integers(0, 5))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)

    def raw(dtype: str, *shape: int) -> Any:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer(rng.bytes(size), dtype).reshape(shape)

    path = alternatives = rows = None
    if draw(st.booleans()):
        observed = [draw(st.booleans()) for _ in range(3)]
        path = PathColumns(
            raw("<i4", n),
            raw("u1", n),
            raw("<f4", n) if observed[0] else None,
            raw("<f4", n) if observed[1] else None,
            raw("<u8", n, 2) if observed[2] else None,
        )
        if draw(st.booleans()):
            k = draw(st.integers(0, 4))
            counts = rng.integers(0, k + 1, n).astype(np.uint8)
            alternatives = Alternatives(raw("<i4", n, k), raw("<f4", n, k), counts)
        if draw(st.booleans()):
            rows = raw("<f4", n, 7)
    return path, alternatives, rows


descriptions = st.fixed_dictionaries(
    {
        "turn": st.integers(0, 9),
        "identity": st.sampled_from(list(Identity)),
        "scale": st.sampled_from([None, *Scale]),
        "text": names,
        "exposure": st.builds(
            lambda a, b: Exposure(prompt_tokens=a, cached_tokens=b),
            st.none() | st.integers(0, 9),
            st.none() | st.just(0),
        ),
        "messages_added": st.lists(
            st.builds(lambda a, b: Message(role=a, content=b), names, names), max_size=2
        ).map(tuple),
        "tool_calls": st.lists(
            st.builds(lambda a, b: ToolCall(name=a, arguments=b), names, names), max_size=2
        ).map(tuple),
        "prefix_break": st.none() | st.just(PrefixBreak(position=3, reuse_lost_tokens=1, was="a", now="b")),
        "error": st.none() | st.builds(lambda a: RequestError(kind="k", message=a), names),
        "http_body": st.none() | st.binary(max_size=9),
        "extra": st.dictionaries(names, plain, max_size=3),
    }
)
some_pieces = st.dictionaries(st.integers(0, 9), st.binary(max_size=4))
prompts = st.none() | st.lists(st.integers(-(2**31), 2**31 - 1), max_size=12)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            descriptions, prompts, columns(), st.dictionaries(st.integers(0, 9), st.binary(max_size=4))
        ),
        max_size=4,
    ),
    st.booleans(),
)
def test_everything_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, written: list[Any], finished: bool
) -> None:
    path = tmp_path_factory.mktemp("trace") / "t.msgpack"
    pieces: dict[int, bytes] = {}
    stored: list[Request] = []
    with TraceWriter.create(path, EPISODE) as writer:
        arm = writer.begin_arm(ARM)
        for i, (description, prompt, (its_path, table, rows), its_pieces) in enumerate(written):
            request = Request(index=i, **description)
            stored.append(
                writer.write_request(
                    0,
                    request,
                    prompt_ids=prompt,
                    path=its_path,
                    alternatives=table,
                    rows=rows,
                    pieces=its_pieces,
                )
            )
            pieces = its_pieces | pieces  # the first bytes of an id stand
        end = ArmEnd(
            requests=len(written), completed=True, outcome=Outcome(score=0.5, details={"a": [1, None]})
        )
        if finished:
            writer.end_arm(0, end)
    with TraceReader.open(path) as trace:
        assert trace.check() == ()
        assert trace.episode == EPISODE
        assert trace.arms == (arm,)
        assert trace.requests(arm) == tuple(stored)
        assert trace.end(0) == (end if finished else None)
        assert {i: trace.piece(i) for i in trace.piece_ids} == pieces
        for i, (_, prompt, (its_path, table, rows), _) in enumerate(written):
            ids = trace.prompt_ids(0, i)
            assert (None if ids is None else ids.tolist()) == prompt
            _same_columns(trace, i, its_path, table, rows)
    assert read_header(path).arms[0].requests == len(written)
    assert read_header(path).complete is finished


def _same_columns(
    trace: TraceReader, i: int, path: PathColumns | None, table: Alternatives | None, rows: np.ndarray | None
) -> None:
    assert trace.has_path(0, i) == (path is not None)
    assert trace.has_alternatives(0, i) == (table is not None)
    assert trace.has_rows(0, i) == (rows is not None)
    if path is not None:
        got = trace.path(0, i)
        for name in ("token_ids", "flags", "chosen_values", "log_sum_exp", "fingerprints"):
            assert _bits(getattr(got, name)) == _bits(getattr(path, name))
    if table is not None:
        got_table = trace.alternatives(0, i)
        assert got_table is not None
        for name in ("ids", "values", "counts"):
            assert _bits(getattr(got_table, name)) == _bits(getattr(table, name))
    assert _bits(trace.rows(0, i)) == _bits(rows)


def _bits(column: np.ndarray | None) -> tuple[Any, ...] | None:
    return None if column is None else (column.dtype.str, column.shape, column.tobytes())


def test_absent_columns_take_no_room_and_are_none(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    with TraceWriter.create(path, EPISODE) as writer:
        writer.begin_arm(ARM)
        ids = np.arange(1000, dtype=np.int32)
        writer.write_request(0, Request(index=0), path=PathColumns(ids, np.zeros(1000, np.uint8)))
    raw = next(f for f in frames_of(path.read_bytes()) if f[5] == Kind.PATH)
    assert len(raw) == HEAD_BYTES + 8 + 1000 * 5
    with TraceReader.open(path) as trace:
        got = trace.path(0, 0)
        assert got.chosen_values is None
        assert got.log_sum_exp is None
        assert got.fingerprints is None
        assert trace.alternatives(0, 0) is None
        assert trace.prompt_ids(0, 0) is None


@pytest.mark.parametrize("tokens", [8, 64, 500])
def test_columns_cost_at_most_200_bytes_a_token_with_their_framing(tmp_path: Path, tokens: int) -> None:
    path = tmp_path / "t.msgpack"
    write_trace(path, requests=3, tokens=tokens, k=20)
    column_frames = [f for f in frames_of(path.read_bytes()) if f[5] in (Kind.PATH, Kind.ALTERNATIVES)]
    assert len(column_frames) == 6
    assert sum(map(len, column_frames)) <= 200 * 3 * tokens


def test_any_msgpack_reader_can_walk_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    write_trace(path, requests=2, tokens=4)
    content = path.read_bytes()
    unpacker = msgpack.Unpacker(raw=False)
    unpacker.feed(content)
    walked = [(ext.code, len(ext.data)) for ext in unpacker]
    assert walked == [(f[5], struct.unpack(">I", f[1:5])[0]) for f in frames_of(content)]
    header = msgpack.unpackb(content[HEAD_BYTES : len(frames_of(content)[0])])
    assert header["magic"] == "cachetrace"
    assert header["format"] == 1


def test_prompts_are_stored_as_reference_and_tail(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    write_trace(
        path,
        requests=4,
        tokens=8,
        prompt_tokens=100,
        prompt_growth=10,
        arms=[ArmSpec(), ArmSpec(state="warm"), ArmSpec(state="warm", way="closed-loop", flips={1: 3})],
    )
    with TraceReader.open(path) as trace:
        tails = [[r.prompt.tail_tokens for r in trace.requests(arm) if r.prompt] for arm in trace.arms]
        bases = [[r.prompt.base_arm for r in trace.requests(arm) if r.prompt] for arm in trace.arms]
    assert tails == [[100, 18, 18, 18], [0, 0, 0, 0], [0, 0, 15, 18]]
    assert bases[1] == [0, 0, 0, 0]


def test_lone_surrogates_do_not_stop_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    with TraceWriter.create(path, EPISODE) as writer:
        writer.begin_arm(ARM)
        writer.write_request(0, Request(index=0, text="a\ud800b", extra={"k\udfff": ["\udc80"]}))
    with TraceReader.open(path) as trace:
        assert trace.requests(0)[0].text == "a\ufffdb"
        assert trace.losses == ()


def test_values_that_are_no_numbers_survive(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    values = np.array([math.nan, math.inf, -math.inf, -0.0], np.float32)
    with TraceWriter.create(path, EPISODE) as writer:
        writer.begin_arm(ARM)
        flags = np.full(4, PositionFlag.VALUE, np.uint8)
        writer.write_request(
            0, Request(index=0), path=PathColumns(np.arange(4, dtype=np.int32), flags, values)
        )
    with TraceReader.open(path) as trace:
        got = trace.path(0, 0).chosen_values
    assert got is not None
    assert got.tobytes() == values.tobytes()


def test_columns_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    with TraceWriter.create(tmp_path / "t.msgpack", EPISODE) as writer:
        writer.begin_arm(ARM)
        with pytest.raises(ValueError, match="one entry a position"):
            writer.write_request(
                0, Request(index=0), path=PathColumns(np.zeros(3, np.int32), np.zeros(2, np.uint8))
            )
        with pytest.raises(ValueError, match="same positions"):
            writer.write_request(
                0,
                Request(index=0),
                alternatives=Alternatives(
                    np.zeros((2, 3), np.int32), np.zeros((2, 2), np.float32), np.zeros(2, np.uint8)
                ),
            )
        writer.write_request(0, Request(index=0))
    with TraceReader.open(tmp_path / "t.msgpack") as trace:
        assert trace.check() == ()
        assert len(trace.requests(0)) == 1


def test_unknown_fields_of_later_writers_are_ignored() -> None:
    raw = msgspec.to_builtins(Request(index=3)) | {"field_of_2030": [1, 2]}
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(raw), type=Request) == Request(index=3)


def test_heads_are_covered_bit_by_bit(tmp_path: Path) -> None:
    path = tmp_path / "t.msgpack"
    write_trace(path, requests=1, tokens=2)
    head = frames_of(path.read_bytes())[2][:HEAD_BYTES]
    assert parse_head(head, 0) is not None
    for bit in range(8 * HEAD_BYTES):
        changed = bytearray(head)
        changed[bit // 8] ^= 1 << bit % 8
        assert parse_head(bytes(changed), 0) is None
