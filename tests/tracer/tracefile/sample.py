"""The small trace that stands in ``fixtures/`` for each format version.

``PYTHONPATH=. python tests/tracer/tracefile/sample.py NEW_FILE`` writes it in the present format.
"""

import sys
from pathlib import Path

import numpy as np

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
    Outcome,
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

PIECES = {1: b"<s>", 2: b"The", 3: b" capital", 5: b" Paris", 6: b" paris", 7: b".", 8: b"!"}


def write_sample(path: Path) -> None:
    """Two arms, of which the second was cut off, and a flip between them at request 0, token 0."""
    episode = Episode(
        episode_id="sample", workload=WorkloadSpec(name="chat"), created_at=1_780_000_000.0, writer="sample"
    )
    with TraceWriter.create(path, episode, written_by="cachetrace 0.1.0") as writer:
        for index, state in enumerate((CacheState.COLD, CacheState.WARM)):
            warm = state is CacheState.WARM
            writer.begin_arm(
                Arm(
                    index=index,
                    state=state,
                    priming=Priming.OWN if warm else Priming.NONE,
                    way=Way.FIXED if warm else Way.RECORDED,
                    engine=EngineInfo(engine="fake"),
                    capabilities=Capabilities(token_ids=True, chosen_logprob=True, top_k=2),
                    sampling=Sampling(max_new_tokens=2),
                    place=RunPlace(run_id="sample"),
                    started_at=1_780_000_000.0,
                    source_arm=0 if warm else None,
                    top_k=2,
                )
            )
            for request in range(1 if warm else 2):
                _write_request(writer, index, request, warm)
            if not warm:
                outcome = Outcome(score=1.0, solved=True)
                writer.end_arm(index, ArmEnd(requests=2, completed=True, outcome=outcome, elapsed_s=0.5))


def _write_request(writer: TraceWriter, arm: int, request: int, warm: bool) -> None:
    ids = np.array([[6, 5] if warm else [5, 6], [7, 8]], np.int32)
    values = np.array([[2.0, 1.75], [1.0, 0.5]], np.float32)
    path = PathColumns(
        token_ids=ids[:, 0].copy(),
        flags=np.full(2, PositionFlag.VALUE | PositionFlag.ALTERNATIVES, np.uint8),
        chosen_values=values[:, 0].copy(),
        log_sum_exp=np.array([2.75, 1.5], np.float32),
        fingerprints=np.array([[1 + arm, 2], [3 + arm, 4]], np.uint64),
    )
    prompt = [1, 2, 3] if request == 0 else [1, 2, 3, 5, 7, 3]
    cached = 2 if warm else 0
    writer.write_request(
        arm,
        Request(
            index=request,
            scale=Scale.LOGIT,
            exposure=Exposure(
                prompt_tokens=len(prompt),
                cached_tokens=cached,
                source=ExposureSource.ENGINE,
                expected_tokens=cached,
            ),
            stop=StopReason.LENGTH,
            text=" paris." if warm else " Paris.",
        ),
        prompt_ids=prompt,
        path=path,
        alternatives=Alternatives(ids, values, np.full(2, 2, np.uint8)),
        pieces=PIECES,
    )


if __name__ == "__main__":
    write_sample(Path(sys.argv[1]))
