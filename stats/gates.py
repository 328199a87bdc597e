"""Gates: a limit on a rate that makes ``report`` end with exit code 1 when it does not hold.

Grammar: ``PAIR[.UNIT][.upper] OP NUMBER``

========  =================================================================================
PAIR      ``within-arm`` (every arm against itself), ``cross-arm`` (every arm against the
          baseline), or ``STATE-vs-STATE`` such as ``cold-vs-warm``
UNIT      ``episodes`` (default) or ``requests``, whose intervals respect episodes
upper     the interval's upper limit instead of the rate itself
OP        ``<=`` ``<`` ``>=`` ``>`` ``==``
NUMBER    a fraction of 1 (``0.05``) or per cent (``5%``)
========  =================================================================================

Only arms that may count are used. A gate for which nothing can be computed is exit code 2, never a pass.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from replay.verdicts import Comparison, Verdict
from stats.clustered_rate import clustered_rate
from stats.intervals import Interval
from stats.report.configuration import Key
from stats.report.controls import ControlSeries
from stats.report.series import Series
from stats.tables.rates import episode_rate_interval, pair_label
from stats.tables.table import Column, Table
from tracer.clean_text import clean
from tracer.episode import CacheState, Carry
from tracer.errors import GateFailed, NothingToCompute, UsageError

_STATES = "|".join(re.escape(state) for state in CacheState)
_GRAMMAR = re.compile(
    rf"(?P<pair>within-arm|cross-arm|(?P<first>{_STATES})-vs-(?P<second>{_STATES}))"
    r"(?:\.(?P<unit>episodes|requests))?(?P<upper>\.upper)?\s*"
    r"(?P<op><=|>=|==|<|>)\s*(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<percent>%)?"
)
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
}
_COMPARED = (Verdict.IDENTICAL, Verdict.DRIFTED, Verdict.FLIPPED, Verdict.UNOBSERVED)


class Gate(Struct, frozen=True, kw_only=True):
    """One parsed gate."""

    text: str
    pair: str
    states: tuple[CacheState, CacheState] | None
    unit: str
    upper: bool
    comparison: str
    limit: float


class GateResult(Struct, frozen=True, kw_only=True):
    """A gate held against one series. ``value`` is what was compared with the limit."""

    gate: Gate
    series: str
    events: int
    n: int
    rate: float
    interval: Interval | None
    value: float
    holds: bool


def parse_gate(text: str) -> Gate:
    """A gate from its text; ``UsageError`` says what the grammar is."""
    match = _GRAMMAR.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{clean(text)!r} is no gate; write PAIR[.episodes|.requests][.upper] OP NUMBER, for instance "
            f"'cross-arm.upper<=0.05', where PAIR is within-arm, cross-arm or STATE-vs-STATE."
        )
    limit = float(match["number"]) / (100 if match["percent"] else 1)
    if limit > 1:
        raise UsageError(
            f"The limit of {clean(text)!r} is a share: give a number from 0 to 1, or per cent with %."
        )
    states = (CacheState(match["first"]), CacheState(match["second"])) if match["first"] else None
    return Gate(
        text=text.strip(),
        pair=match["pair"],
        states=states,
        unit=match["unit"] or "episodes",
        upper=match["upper"] is not None,
        comparison=match["op"],
        limit=limit,
    )


def evaluate_gate(
    gate: Gate, series: Sequence[Series], controls: Sequence[ControlSeries], names: Mapping[Key, str]
) -> tuple[GateResult, ...]:
    """The gate held against every series that it names and that has counted episodes; empty = none."""
    results = []
    for label, carry, pairs in _named(gate, series, controls, names):
        if not pairs:
            continue
        result = (
            _requests(gate, label, pairs) if gate.unit == "requests" else _episodes(gate, label, carry, pairs)
        )
        if result is not None:
            results.append(result)
    return tuple(results)


def _named(
    gate: Gate, series: Sequence[Series], controls: Sequence[ControlSeries], names: Mapping[Key, str]
) -> Iterator[tuple[str, Carry, list[tuple[Comparison, bool]]]]:
    """(label, carry, [(comparison, differs)]) of everything that the gate's pair means."""
    one_state = gate.states is not None and gate.states[0] is gate.states[1]
    if gate.pair == "within-arm" or one_state:
        for control in controls:
            if gate.states is None or control.key.state is gate.states[0]:
                label = (
                    f"{names[control.key.configuration]}: {control.key.arm} vs itself ({control.key.control})"
                )
                yield label, control.key.carry, [(p.comparison, bool(p.differs)) for p in control.counted]
    if gate.pair == "within-arm":
        return
    for one in series:
        states = {one.key.baseline_state, one.key.arm_state}
        if gate.states is not None and (states != set(gate.states) or (one_state and len(states) > 1)):
            continue
        label = f"{names[one.key.configuration]}: {pair_label(one)}"
        yield label, one.key.carry, [(p.comparison, bool(p.differs)) for p in one.counted]


def _episodes(
    gate: Gate, label: str, carry: Carry, pairs: Sequence[tuple[Comparison, bool]]
) -> GateResult | None:
    differs = [d for _, d in pairs]
    k, n = sum(differs), len(differs)
    return _result(gate, label, k, n, episode_rate_interval(differs, carry))


def _requests(gate: Gate, label: str, pairs: Sequence[tuple[Comparison, bool]]) -> GateResult | None:
    """Flipped requests among those whose prompt was the same in both arms."""
    flipped = [sum(r.verdict is Verdict.FLIPPED for r in c.requests) for c, _ in pairs]
    compared = [sum(r.verdict in _COMPARED for r in c.requests) for c, _ in pairs]
    found = clustered_rate(flipped, compared)
    return None if found is None else _result(gate, label, found.events, found.total, found.interval)


def _result(gate: Gate, label: str, k: int, n: int, interval: Interval | None) -> GateResult | None:
    if gate.upper and interval is None:
        return None
    value = interval.high if gate.upper and interval is not None else k / n
    return GateResult(
        gate=gate,
        series=label,
        events=k,
        n=n,
        rate=k / n,
        interval=interval,
        value=value,
        holds=_OPERATORS[gate.comparison](value, gate.limit),
    )


def gates_table(results: Sequence[GateResult]) -> Table:
    """One row a gate and series."""
    return Table(
        name="gates",
        title="Gates",
        columns=(
            Column(key="gate", title="gate"),
            Column(key="series", title="series", common=True),
            Column(key="unit", title="unit"),
            Column(key="events", title="differ", kind="count"),
            Column(key="n", title="n", kind="count"),
            Column(key="rate", title="rate", kind="share"),
            Column(key="interval", title="95 %", kind="share_interval"),
            Column(key="value", title="compared", kind="share"),
            Column(key="limit", title="limit", kind="share"),
            Column(key="holds", title="holds", kind="flag"),
        ),
        rows=tuple(
            (
                r.gate.text,
                r.series,
                r.gate.unit,
                r.events,
                r.n,
                r.rate,
                r.interval,
                r.value,
                r.gate.limit,
                r.holds,
            )
            for r in results
        ),
        basis="A gate holds when it holds for every series that it names.",
    )


def conclude(gates: Sequence[Gate], results: Sequence[GateResult]) -> None:
    """Raise when a gate does not hold (exit 1) or could not be computed (exit 2, which weighs more)."""
    computed = {r.gate.text for r in results}
    empty = [gate.text for gate in gates if gate.text not in computed]
    if empty:
        raise NothingToCompute(
            f"The gate {clean(empty[0])!r} cannot be computed: no pair of arms that it names may count. "
            "The report lists why; verified arms that were each run twice are needed."
        )
    failed = [r for r in results if not r.holds]
    if failed:
        first = failed[0]
        more = f" ({len(failed)} of {len(results)} comparisons fail)" if len(failed) > 1 else ""
        raise GateFailed(
            f"The gate {clean(first.gate.text)!r} does not hold for {clean(first.series)}: "
            f"{first.events} of {first.n} {first.gate.unit} differ, compared value {first.value:.4f}{more}."
        )
