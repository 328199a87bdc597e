"""Scenario S7: the coarser the weights, the larger the disturbance, on one model in four formats."""

from pathlib import Path

import pytest

from tests.tracer.engines.conftest import OpenServer
from tests.tracer.engines.llama_server.prompts import QUESTIONS, ask, chatml, identical, largest_drift

pytestmark = [pytest.mark.llama, pytest.mark.llama_server, pytest.mark.slow]


def test_s7_quantized_weights_amplify_the_difference(open_server: OpenServer, smollm2: Path) -> None:
    from platformdirs import user_cache_path

    from tracer.engines.llama.quantize import make_ladder

    folder = user_cache_path("cachetrace") / "test-models"
    drift: dict[str, float] = {}
    for made in make_ladder(smollm2, ["F16", "Q8_0", "Q4_0"], folder).formats:
        engine = open_server(model=str(folder / made.file))
        engine.set_layers(prefix_cache=True, prompt_cache=False)
        found = []
        for question in QUESTIONS[:5]:
            ids = engine.tokenize(chatml(question))
            cold, cold_again = (ask(engine, ids, 16, cached=False) for _ in range(2))
            warm, warm_again = (ask(engine, ids, 16) for _ in range(2))
            assert identical(cold, cold_again)
            assert identical(warm, warm_again)
            found.append(largest_drift(cold, warm))
        drift[engine.info.weight_format or "?"] = max(found)
        engine.close()
    assert set(drift) == {"F16", "Q8_0", "Q4_0"}
    assert drift["Q8_0"] > 2 * drift["F16"]
    assert drift["Q4_0"] > 2 * drift["F16"]
