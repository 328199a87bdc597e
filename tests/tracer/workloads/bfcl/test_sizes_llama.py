"""The paper's 80 episodes in the small model's tokens: sizes that others measured."""

from pathlib import Path
from statistics import mean

import pytest

from tracer.engines.base import Engine
from tracer.request_source import Answer
from tracer.workloads.bfcl import BfclFamily

SILENCE = Answer(token_ids=(), text="", stopped_by_length=False)


@pytest.mark.llama
@pytest.mark.bfcl
@pytest.mark.slow
def test_prompts_of_the_first_80_episodes_have_the_known_sizes(wheel: Path, llama_engine: Engine) -> None:
    episodes = []
    for workload in BfclFamily().episodes(agent="oracle", history="messages"):
        source = workload.start(llama_engine)
        sizes = []
        while (planned := source.next_request()) is not None:
            sizes.append(len(planned.prompt_ids))
            source.digest(SILENCE)
        source.outcome()
        episodes.append(sizes)
    first = [sizes[0] for sizes in episodes]
    assert (min(first), max(first), round(mean(first))) == (4437, 9706, 7237)
    assert round(mean(sizes[-1] for sizes in episodes)) == 7834
    assert round(mean(len(sizes) for sizes in episodes), 1) == 9.3
    fitting = [sum(max(sizes) <= context for sizes in episodes) for context in (4096, 8192, 12288)]
    assert fitting == [0, 41, 80]
