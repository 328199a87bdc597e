"""Gates as JUnit XML, for continuous integration."""

from __future__ import annotations

from collections.abc import Sequence

from stats.gates import Gate, GateResult
from tracer.clean_text import percent, xml


def render_junit(gates: Sequence[Gate], results: Sequence[GateResult]) -> str:
    """One test case a gate and series; a gate that cannot be computed is an error, never a success."""
    cases: list[str] = []
    failures = errors = 0
    for gate in gates:
        own = [r for r in results if r.gate.text == gate.text]
        if not own:
            errors += 1
            cases.append(
                _case(gate.text, "nothing to compute", "error", "No pair of arms that it names may count.")
            )
        for result in own:
            failures += not result.holds
            said = (
                f"{result.events} of {result.n} {gate.unit} differ ({percent(result.rate)}); "
                f"compared {result.value:.6f} {gate.comparison} {gate.limit:.6f}"
            )
            cases.append(_case(gate.text, result.series, None if result.holds else "failure", said))
    head = f'<testsuite name="cachetrace gates" tests="{len(cases)}" failures="{failures}" errors="{errors}">'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>", f"  {head}", *cases]
    return "\n".join([*lines, "  </testsuite>", "</testsuites>"]) + "\n"


def _case(name: str, series: str, outcome: str | None, said: str) -> str:
    start = f'    <testcase classname="{xml(series)}" name="{xml(name)}"'
    if outcome is None:
        return f"{start}><system-out>{xml(said)}</system-out></testcase>"
    return f'{start}><{outcome} message="{xml(said)}"/></testcase>'
