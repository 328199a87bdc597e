"""The same requests in process and over HTTP, with equal settings: the same tokens, close numbers."""

import numpy as np
import pytest

from tests.tracer.engines.conftest import OpenServer
from tests.tracer.engines.llama_server.prompts import QUESTIONS, chatml, tokens
from tracer.engines.base import GenerateCall
from tracer.engines.choice import EngineChoice
from tracer.engines.registry import open_engine
from tracer.episode import Sampling, Scale

pytestmark = [pytest.mark.llama, pytest.mark.llama_server]

SETTINGS = {"threads": 1, "context_tokens": 2048, "batch_tokens": 512, "ubatch_tokens": 512}


def test_cold_requests_agree_and_are_never_called_identical(open_server: OpenServer, smollm2) -> None:
    inside = open_engine(EngineChoice(engine="llama", model=str(smollm2), **SETTINGS))
    server = open_server(**SETTINGS)
    largest = 0.0
    try:
        assert inside.info.model_hash == server.info.model_hash
        assert inside.info.template_hash == server.info.template_hash
        assert inside.info.engine != server.info.engine
        history: list[int] = []
        for question in QUESTIONS[:4]:
            history += server.tokenize(chatml(question, 2))
            assert inside.tokenize(chatml(question, 2)) == server.tokenize(chatml(question, 2))
            call = GenerateCall(tuple(history), Sampling(max_new_tokens=16), top_k=20, use_cache=False)
            here, there = inside.generate(call), server.generate(call)
            assert tokens(here) == tokens(there)
            assert (here.cached_tokens, there.cached_tokens) == (0, 0)
            assert (here.scale, there.scale) == (Scale.LOGIT, Scale.LOGPROB)
            assert here.path.log_sum_exp is not None
            assert here.path.chosen_values is not None
            assert there.path.chosen_values is not None
            logprobs = here.path.chosen_values - here.path.log_sum_exp
            largest = max(largest, float(np.max(np.abs(logprobs - there.path.chosen_values))))
            history += tokens(here)
    finally:
        inside.close()
    assert largest < 1e-3
