"""A recording on ``FakeEngine``, and an opener whose engines obey chosen settings.

``FakeEngine`` itself knows of batches only. ``Obedient`` gives, when told to be exact, the numbers that a
cold prefill would give whatever the cache holds: so the paths agree and the cold numbers stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest

from replay.bisect.search import BisectOptions, bisect_trace
from tests.replay.conftest import chat, record
from tracer.engines.choice import EngineChoice
from tracer.engines.fake import FakeEngine, FakeScript
from tracer.errors import EngineMissing

CHOICE = EngineChoice(engine="fake")


class Obedient(FakeEngine):
    """A fake engine that can be told to compute as if nothing had been cached.

    ``exact``: False, True, or the width of the batches that it pretends to have prefilled in; only for
    prompts of up to ``upto`` tokens.
    """

    def __init__(self, script, *, exact, upto=1 << 20):
        super().__init__(script)
        self._upto = upto
        self._exact, self._width = exact, script.batch_tokens if exact is True else exact

    def _row(self, prompt_tokens):
        if self._exact and prompt_tokens <= self._upto:
            ids = self._held[0]
            batches = []
            for start in range(0, prompt_tokens, self._width):
                length = min(self._width, prompt_tokens - start)
                batches += [(start, length)] * length
            batches += [(place, 1) for place in range(prompt_tokens, len(ids))]
            self._held = (ids, tuple(batches))
        return super()._row(prompt_tokens)


@dataclass
class Openings:
    """An opener: which engine a choice gets, and which choices were asked for."""

    exact: object = lambda choice: False
    refuses: object = lambda choice: None
    script: object = lambda choice, opening: FakeScript()
    upto: object = lambda choice: 1 << 20
    asked: list[EngineChoice] = field(default_factory=list)
    opened: list[Obedient] = field(default_factory=list)

    def __call__(self, choice):
        self.asked.append(choice)
        reason = self.refuses(choice)
        if reason:
            raise EngineMissing(reason)
        script = self.script(choice, len(self.asked))
        if choice.batch_tokens is not None:
            script = msgspec.structs.replace(script, batch_tokens=choice.batch_tokens)
        engine = Obedient(script, exact=self.exact(choice), upto=self.upto(choice))
        self.opened.append(engine)
        return engine


@pytest.fixture
def talk(tmp_path):
    """Four requests of growing prompts, recorded warm."""
    path = tmp_path / "talk.msgpack"
    record(path, FakeEngine(), chat())
    return path


@pytest.fixture
def bisected(tmp_path, talk):
    """Run a bisect on the recording: ``bisected(opener, *candidates, **options)``."""

    def run(opener, *candidates, trace=talk, **options):
        wanted = BisectOptions(candidates=candidates, **options)
        return bisect_trace(trace, CHOICE, tmp_path / "arms", wanted, opener=opener)

    return run
