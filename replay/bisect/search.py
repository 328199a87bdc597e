"""The search: default first, then single settings, then pairs, until a change is found and verified.

"Smallest" means one setting before two, and then what ``ranking`` says. A change counts when cold and
warm are identical on every request AND a second run from a fresh start repeats both arms and agrees again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from replay.bisect.candidates import Configuration, NotTried, candidates, pairs
from replay.bisect.outcome import Agreement, BisectResult, Found, Trial
from replay.bisect.ranking import distance, smallest_first
from replay.bisect.requests import DIFFERENT, FEW, LOOKED_AT, askable, asked_for, shortest_differing
from replay.bisect.settings import SETTINGS
from replay.bisect.trial_reading import read_trial, widened
from replay.bisect.trial_run import Trials, complete_arm
from replay.divergence import compare_arms
from replay.engine_guard import settings_as_recorded
from replay.recorded_source import source_arm
from replay.verdicts import RequestVerdict
from tracer.engines.base import Engine
from tracer.engines.choice import EngineChoice
from tracer.engines.registry import open_engine
from tracer.episode import CacheState, Priming
from tracer.errors import EngineError, NothingToCompute, StateRefused, UsageError
from tracer.progress import ArmProgress, Silent, time_left
from tracer.recording import new_run_id
from tracer.tracefile import TraceReader

MOST_PAIRS = 6
_DEFAULT = Configuration()
_DEFAULT_REPEATS = 2
_PRIMINGS = (Priming.OWN, Priming.SELF, Priming.PROMPT_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectOptions:
    """What the user asked for."""

    candidates: tuple[str, ...] = ()
    """``NAME=VALUE,VALUE``; none = all that the engine lets us set."""
    requests: str | None = None
    most_pairs: int = MOST_PAIRS
    priming: Priming | None = None
    """How the warm cache is filled; None = ``self`` where that was recorded, else ``own``."""
    source: str | None = None
    anyway: bool = False
    isolated: bool = False
    """Serve each configuration in a process of its own."""
    command: str | None = None


def bisect_trace(
    trace_path: Path,
    choice: EngineChoice,
    folder: Path,
    options: BisectOptions,
    progress: ArmProgress | None = None,
    opener: Callable[[EngineChoice], Engine] = open_engine,
) -> BisectResult:
    """Find the smallest change of settings that makes cold and warm agree on a recorded episode.

    Raises ``NothingToCompute`` when the default configuration gives nothing to blame (no request meets
    a cache, a state does not hold, an arm does not repeat itself), ``UsageError`` for a wrong request
    or candidate, ``EngineError`` when the default configuration cannot be served.
    """
    with TraceReader.open(trace_path) as trace:
        source = source_arm(trace, options.source)
        choice = settings_as_recorded(choice, source.engine)
        singles, not_tried = candidates(choice, options.candidates)
        there = askable(trace.requests(source.index))
        if not there:
            raise NothingToCompute("the first recorded request failed, so there is nothing to ask again.")
        trials = Trials(
            path=trace_path,
            trace=trace,
            source=source,
            choice=choice,
            requests=there[:LOOKED_AT],
            folder=folder,
            priming=options.priming or _recorded_priming(source.priming),
            progress=progress or Silent(),
            open_engine=opener,
            run_id=new_run_id(),
            command=options.command,
            anyway=options.anyway,
            isolated=options.isolated,
        )
        search = _Search(trials, singles, not_tried, options)
        search.say_candidates()
        search.choose_requests(there)
        return search.run()


def priming_named(word: str | None) -> Priming | None:
    """The priming that a user named. Raises ``UsageError`` for one that no warm arm of a bisect can have."""
    if word is None:
        return None
    if word not in _PRIMINGS:
        raise UsageError(f"--priming takes one of: {', '.join(_PRIMINGS)}.")
    return Priming(word)


def _recorded_priming(recorded: Priming) -> Priming:
    return recorded if recorded in _PRIMINGS else Priming.OWN


class _Search:
    """One bisect on its way."""

    def __init__(
        self,
        trials: Trials,
        singles: Sequence[Configuration],
        not_tried: Sequence[NotTried],
        options: BisectOptions,
    ) -> None:
        self._trials = trials
        self._singles = tuple(singles)
        self._not_tried = tuple(not_tried)
        self._options = options
        self._wider: Trials | None = None
        """For verifying: every request that was looked at, where candidates are tried on fewer."""
        self._done: list[Trial] = []
        self._tried_pairs = 0
        self._possible_pairs = len(pairs(self._singles))

    def say_candidates(self) -> None:
        """Before anything is served: what will be tried, and what not."""
        self._say(f"candidates: {', '.join(one.label for one in self._singles)}")
        for left in self._not_tried:
            self._say(f"not tried: {left.change.label} ({left.reason})")

    # ---- which requests

    def choose_requests(self, there: Sequence[int]) -> None:
        """The requests of all trials: as asked for, all of a short episode, else the shortest that differ."""
        trials = self._trials
        if self._options.requests is not None:
            wanted = asked_for(self._options.requests, there, trials.priming)
            self._trials = replace(trials, requests=wanted)
        elif len(there) > FEW:
            look = replace(trials, prefix="look-")
            verdicts = self._look(look)
            if any(v.verdict in DIFFERENT for v in verdicts):
                requests = trials.trace.requests(trials.source.index)
                chosen = shortest_differing(verdicts, requests, trials.priming)
                self._trials = replace(trials, requests=chosen)
                self._wider = replace(trials, prefix="verify-") if chosen != look.requests else None
                self._say(f"trying candidates on {_these(chosen)}: the shortest that show the difference")
            if self._trials.requests == look.requests and not trials.path_of(_DEFAULT).exists():
                shutil.copyfile(look.path_of(_DEFAULT), trials.path_of(_DEFAULT))

    def _look(self, look: Trials) -> Sequence[RequestVerdict]:
        """Every request once under the default configuration, cold and warm."""
        self._say(f"looking at {_these(look.requests)} under the default configuration")
        path = look.run(_DEFAULT, repeats=1)
        self._raise_if_failed(read_trial(path, _DEFAULT))
        with TraceReader.open(path) as trace:
            cold, warm = (complete_arm(trace, state, 0) for state in (CacheState.COLD, CacheState.WARM))
            assert cold is not None and warm is not None, "a trial that did not fail has both arms"  # noqa: PT018
            return compare_arms(trace, cold.index, warm.index).requests

    # ---- the trials

    def run(self) -> BisectResult:
        """Default, singles, pairs."""
        started = time.monotonic()
        default = self._default()
        if default.agreement is Agreement.AGREES:
            return self._result(default, Found.NO_DIVERGENCE, None)
        for place, one in enumerate(self._singles):
            self._announce("candidate", place, len(self._singles), one, started, before=_DEFAULT_REPEATS)
            self._done.append(self._try(one))
        chosen = self._verified(self._done, default)
        if chosen is None:
            chosen = self._pairs(default)
        return self._result(default, Found.NONE if chosen is None else Found.SETTING, chosen)

    def _default(self) -> Trial:
        """The default configuration, twice; raises when no setting could be blamed for what it shows."""
        self._say("default configuration: cold and warm, each twice from a fresh start")
        trial = read_trial(self._trials.run(_DEFAULT, _DEFAULT_REPEATS), _DEFAULT)
        self._raise_if_failed(trial)
        if trial.agreement is Agreement.NOT_VERIFIED:
            raise NothingToCompute(
                f"under the default configuration {trial.reason}; without verified states and numbers "
                "no setting can be blamed."
            )
        for name, control in (("cold", trial.cold_control), ("warm", trial.warm_control)):
            if control is not None and not control.all_identical:
                raise NothingToCompute(
                    f"the {name} arm does not repeat itself under the default configuration "
                    f"({control.requests - control.identical} of {control.requests} requests differ from run "
                    "to run), so a difference between cold and warm cannot be put down to the cache."
                )
        return trial

    def _try(self, configuration: Configuration, repeats: int = 1, trials: Trials | None = None) -> Trial:
        try:
            path = (trials or self._trials).run(configuration, repeats)
        except (EngineError, StateRefused) as error:
            self._say(f"{configuration.label}: refused: {error}")
            return Trial(configuration=configuration, agreement=Agreement.REFUSED, reason=str(error))
        return read_trial(path, configuration, None if trials else self._trials.path_of(_DEFAULT))

    def _verify(self, configuration: Configuration) -> Trial:
        """Both arms again from a fresh start; then once over every request that was looked at.

        Kernels change with the length of what is computed: a change that makes short prompts agree was
        seen to flip long ones.
        """
        self._say(f"verifying {configuration.label}: both arms again from a fresh start")
        trial = self._try(configuration, repeats=2)
        if self._wider is None or not trial.verified:
            return trial
        self._say(f"verifying {configuration.label} on {_these(self._wider.requests)}")
        return widened(trial, self._try(configuration, trials=self._wider))

    def _verified(self, trials: Iterable[Trial], default: Trial) -> Trial | None:
        """The smallest of the changes that agree, if a second run from a fresh start says so too."""
        agreeing = [trial for trial in trials if trial.agreement is Agreement.AGREES]
        for trial in smallest_first(agreeing, default):
            again = self._verify(trial.configuration)
            self._done[_place(self._done, trial)] = again
            if again.verified:
                return again
            self._say(f"{trial.configuration.label}: {again.reason or 'does not repeat itself'}")
        return None

    def _pairs(self, default: Trial) -> Trial | None:
        """Two settings together, the ones that came nearest alone first; the first that agrees is taken."""
        ranked = [trial.configuration for trial in sorted(self._done, key=distance)]
        chosen = pairs(ranked)[: self._options.most_pairs]
        started = time.monotonic()
        for place, pair in enumerate(chosen):
            self._announce("pair", place, len(chosen), pair, started)
            self._done.append(self._try(pair))
            self._tried_pairs += 1
            if (found := self._verified([self._done[-1]], default)) is not None:
                return found
        return None

    # ---- words

    def _result(self, default: Trial, found: Found, chosen: Trial | None) -> BisectResult:
        trials = self._trials
        with TraceReader.open(trials.path_of(_DEFAULT)) as trace:
            engine = trace.arms[0].engine
        changes = chosen.configuration.changes if chosen is not None else ()
        return BisectResult(
            episode_id=trials.trace.episode.episode_id,
            engine=engine.engine if engine.version is None else f"{engine.engine} {engine.version}",
            model=engine.model_name,
            found=found,
            default=default,
            trials=tuple(self._done),
            chosen=chosen,
            told=" ".join(SETTINGS[change.setting].told(change.value) for change in changes),
            not_tried=self._not_tried,
            singles=len(self._done) - self._tried_pairs,
            pairs=self._tried_pairs,
            pairs_possible=self._possible_pairs,
            requests=trials.requests,
            requests_recorded=len(trials.trace.requests(trials.source.index)),
            folder=str(trials.folder),
        )

    def _raise_if_failed(self, trial: Trial) -> None:
        if trial.agreement is Agreement.FAILED:
            raise EngineError(f"the default configuration could not be served: {trial.reason}")

    def _announce(
        self, kind: str, place: int, of: int, one: Configuration, started: float, before: int = 0
    ) -> None:
        """``before``: how many runs of cold and warm had been made since ``started`` besides these."""
        left = time_left(place + before, of + before, time.monotonic() - started)
        self._say(f"{kind} {place + 1} of {of}: {one.label}{left}")

    def _say(self, sentence: str) -> None:
        self._trials.progress.note(sentence)


def _place(trials: Sequence[Trial], wanted: Trial) -> int:
    return next(i for i, trial in enumerate(trials) if trial.configuration == wanted.configuration)


def _these(requests: Sequence[int]) -> str:
    return f"{len(requests)} requests" if len(requests) > FEW else f"requests {', '.join(map(str, requests))}"
