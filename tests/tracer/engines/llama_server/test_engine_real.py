"""The adapter against the real server: what it says, what it holds, how it fails."""

import os
import signal
import threading
import time

import pytest

from tests.tracer.engines.conftest import OpenServer
from tests.tracer.engines.llama_server.prompts import QUESTIONS, ask, chatml, identical, tokens
from tracer.engines.base import GenerateCall
from tracer.engines.choice import EngineChoice
from tracer.engines.http.recognise import recognise
from tracer.engines.llama_server.engine import PROGRESS_FROM_TOKENS, LlamaServerEngine
from tracer.engines.registry import open_engine
from tracer.episode import CacheState, Identity, Message, Sampling
from tracer.errors import EngineDied, EngineError, EngineMissing, PromptTooLong, StateRefused, UsageError
from tracer.model_store import MODEL_SHA256

pytestmark = pytest.mark.llama_server


@pytest.fixture
def engine(open_server: OpenServer) -> LlamaServerEngine:
    opened = open_server()
    opened.set_layers(prefix_cache=True, prompt_cache=False)
    return opened


def test_it_says_what_it_is(engine: LlamaServerEngine) -> None:
    info = engine.info
    assert info.engine == "llama-server"
    assert info.model_hash == f"sha256:{MODEL_SHA256}"
    assert info.weight_format == "Q4_1"
    assert info.vocabulary_tokens == 49152
    assert (info.threads, info.batch_tokens, info.ubatch_tokens, info.slots) == (1, 2048, 512, 1)
    assert (info.prefix_cache, info.prompt_cache_bytes) == (True, 0)
    assert info.build is not None
    assert info.device_features is not None
    assert info.template_hash is not None
    assert CacheState.SNAPSHOT in engine.capabilities.states


def test_text_tokens_and_pieces(engine: LlamaServerEngine) -> None:
    text = engine.render([Message(role="system", content="Be brief."), Message(role="user", content="é🙂?")])
    assert text.endswith("<|im_start|>assistant\n")
    ids = engine.tokenize(text)
    spelled = [engine.piece(token) for token in ids]
    assert None not in spelled
    assert b"".join(piece for piece in spelled if piece is not None) == text.encode()
    assert engine.piece(2) == b"<|im_end|>"


def test_streamed_and_whole_answers_are_the_same(engine: LlamaServerEngine) -> None:
    ids = tuple((engine.tokenize(chatml(QUESTIONS[5], 60)))[: PROGRESS_FROM_TOKENS + 200])
    seen: list[tuple[int, int]] = []
    sampling = Sampling(max_new_tokens=8)
    streamed = engine.generate(
        GenerateCall(
            ids, sampling, top_k=5, use_cache=False, on_prompt_progress=lambda a, b: seen.append((a, b))
        )
    )
    whole = engine.generate(GenerateCall(ids, sampling, top_k=5, use_cache=False))
    assert identical(streamed, whole)
    assert seen[-1] == (len(ids), len(ids))
    assert streamed.timing.first_token_s is not None
    assert streamed.text == whole.text


def test_what_the_slot_holds_is_known_and_expected(engine: LlamaServerEngine) -> None:
    ids = engine.tokenize(chatml(QUESTIONS[0], 1))
    answer = ask(engine, ids, 12)
    assert engine.held_ids() == (*ids, *tokens(answer)[:-1])
    longer = [*ids, *tokens(answer), *engine.tokenize("\nMore.")]
    assert ask(engine, longer, 2).cached_tokens == len(ids) + len(answer.path) - 1


def test_the_depth_moves_last_digits_only(engine: LlamaServerEngine) -> None:
    ids = tuple(engine.tokenize(chatml(QUESTIONS[1], 1)))
    few, many = (
        engine.generate(GenerateCall(ids, Sampling(max_new_tokens=12), top_k=k, use_cache=False))
        for k in (1, 20)
    )
    assert tokens(few) == tokens(many)
    assert few.path.chosen_values is not None
    assert many.path.chosen_values is not None
    assert abs(few.path.chosen_values - many.path.chosen_values).max() < 1e-3


def test_a_prompt_that_is_too_long_is_refused_and_the_server_lives(engine: LlamaServerEngine) -> None:
    with pytest.raises(PromptTooLong):
        engine.generate(GenerateCall((2683,) * 5000, Sampling(max_new_tokens=1)))
    with pytest.raises(EngineError, match="refused the request"):
        engine.generate(GenerateCall((49152 + 7,), Sampling(max_new_tokens=1)))
    assert ask(engine, "Hello", 2).cached_tokens == 0


def test_slot_files_that_are_not_as_saved_never_reach_the_server(engine: LlamaServerEngine) -> None:
    ids = engine.tokenize(chatml(QUESTIONS[2], 1))
    ask(engine, ids, 4)
    state = engine.save_state()
    folder = engine._backend.slot_folder
    assert folder is not None
    path = folder.path / state.payload.name  # type: ignore[attr-defined]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StateRefused, match="bytes instead of"):
        engine.restore_state(state)
    path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(StateRefused, match="was changed"):
        engine.restore_state(state)
    path.unlink()
    with pytest.raises(StateRefused, match="no longer there"):
        engine.restore_state(state)
    path.write_bytes(whole)
    engine.restore_state(state)
    assert ask(engine, [*ids, 30], 2).cached_tokens == len(ids)


def test_a_server_that_refuses_a_restore_leaves_an_unknown_slot(engine: LlamaServerEngine) -> None:
    ids = engine.tokenize(chatml(QUESTIONS[2], 1))
    ask(engine, ids, 4)
    state = engine.save_state()
    folder = engine._backend.slot_folder
    assert folder is not None
    folder.check = lambda *_: None  # type: ignore[method-assign]
    (folder.path / state.payload.name).unlink()  # type: ignore[attr-defined]
    with pytest.raises(EngineError, match="while restoring"):
        engine.restore_state(state)
    assert engine.held_ids() is None
    assert ask(engine, ids, 2).cached_tokens == 0  # the server emptied the live slot


def test_a_truncated_file_kills_the_server_and_the_cause_is_named(engine: LlamaServerEngine) -> None:
    ids = engine.tokenize(chatml(QUESTIONS[2], 1))
    ask(engine, ids, 4)
    state = engine.save_state()
    folder = engine._backend.slot_folder
    assert folder is not None
    folder.check = lambda *_: None  # type: ignore[method-assign]
    path = folder.path / state.payload.name  # type: ignore[attr-defined]
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(EngineError, match=r"while restoring the state state-1\.bin"):
        engine.restore_state(state)
    engine.reset()
    assert ask(engine, ids, 2).cached_tokens == 0


def test_a_killed_server_names_its_request_and_a_fresh_one_serves_on(engine: LlamaServerEngine) -> None:
    ids = engine.tokenize(chatml(QUESTIONS[3], 1))
    ask(engine, ids, 2)
    process = engine._backend._server._process  # type: ignore[attr-defined]
    killer = threading.Timer(0.3, os.kill, (process.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(
        EngineDied, match=rf"while serving a request of {len(ids)} prompt tokens \(signal SIGKILL"
    ):
        ask(engine, ids, 2000)
    with pytest.raises(EngineDied):
        ask(engine, ids, 2)
    engine.reset()
    assert ask(engine, ids, 2).cached_tokens == 0


def test_an_attached_server_is_used_and_never_emptied(
    engine: LlamaServerEngine, open_server: OpenServer
) -> None:
    url = engine._backend.endpoint.url
    attached = open_server(url=url)
    ids = attached.tokenize(chatml(QUESTIONS[4], 1))
    assert attached.info.flags["prompt_cache_seen"] == "off"
    assert attached.info.prompt_cache_bytes == 0
    assert CacheState.NO_PROMPT_CACHE in attached.capabilities.states
    assert CacheState.SNAPSHOT not in attached.capabilities.states
    first = ask(attached, ids, 4)
    assert first.cached_tokens == 0
    assert attached.held_ids() == (*ids, *tokens(first)[:-1])
    assert ask(attached, ids, 4, cached=False).cached_tokens == 0
    attached.reset()
    assert ask(attached, ids, 4).cached_tokens == 0
    with pytest.raises(StateRefused):
        attached.save_state()
    ask(engine, "Somebody else asks this.", 2)
    again = ask(attached, ids, 4)
    assert again.exposure_note is not None
    assert "another client" in again.exposure_note


def test_a_second_layer_of_an_attached_server_is_seen(open_server: OpenServer) -> None:
    owner = open_server()
    owner.set_layers(prefix_cache=True, prompt_cache=True)
    attached = open_server(url=owner._backend.endpoint.url)
    assert attached.info.flags["prompt_cache_seen"] == "on"
    assert attached.info.prompt_cache_bytes is None
    assert CacheState.NO_PROMPT_CACHE not in attached.capabilities.states
    assert not attached.capabilities.reset
    with pytest.raises(StateRefused, match="second cache layer"):
        attached.reset()


def test_naming_the_slot_does_not_leave_the_second_layer_out(open_server: OpenServer) -> None:
    engine = open_server(server_args=("--parallel", "2"))
    assert engine.info.flags["pinned_slot"] == "0"
    one = engine.tokenize(chatml(QUESTIONS[0], 3))
    other = engine.tokenize("The following is a totally different text about ships. " * 8)
    assert [ask(engine, p, 2).cached_tokens for p in (one, other, one)] == [0, 0, len(one) - 1]


def test_any_endpoint_of_openais_shape_is_taken_as_it_is(engine: LlamaServerEngine) -> None:
    opened = open_engine(EngineChoice(engine="openai", url=f"{engine._backend.endpoint.url}/v1"))
    messages = [Message(role="system", content="Be brief."), Message(role="user", content=QUESTIONS[1])]
    call = GenerateCall(tuple(opened.tokenize(opened.render(messages))), Sampling(max_new_tokens=6), top_k=5)
    first, second = opened.generate(call), opened.generate(call)
    opened.close()
    assert opened.capabilities.states == (CacheState.AS_SERVED,)
    assert first.identity is Identity.TOKEN_ID
    assert first.alternatives is not None
    assert (first.alternatives.counts == 5).all()
    assert (first.cached_tokens, second.cached_tokens) == (0, (first.prompt_tokens or 0) - 1)
    assert tokens(first)[0] in first.pieces


def test_recognise_names_the_server_and_its_layers(engine: LlamaServerEngine) -> None:
    found = recognise(engine._backend.endpoint.url)
    assert found.engine == "llama-server"
    assert found.info.weight_format == "Q4_1"
    assert found.capabilities.disable_per_request


def test_what_cannot_be_started_is_said_in_one_sentence(open_server: OpenServer) -> None:
    with pytest.raises(UsageError, match="--server-bin"):
        open_server(server_bin="no-such-program-anywhere").info  # noqa: B018
    with pytest.raises(UsageError, match="--model"):
        open_server(model="no-such-model.gguf").info  # noqa: B018
    with pytest.raises(EngineMissing, match="before it was ready"):
        open_server(server_args=("--no-such-option",)).info  # noqa: B018
    with pytest.raises(EngineMissing, match="No server answers"):
        open_server(url="http://127.0.0.1:9")


def test_closing_stops_the_process_and_removes_its_files(open_server: OpenServer) -> None:
    engine = open_server()
    ask(engine, "Hello there", 2)
    process = engine._backend._server._process  # type: ignore[attr-defined]
    folder = engine._backend.slot_folder
    assert folder is not None
    engine.close()
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.poll() is not None
    assert not folder.path.exists()
