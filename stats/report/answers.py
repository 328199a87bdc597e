"""GSM8K answers, derived from the stored text when the report is made."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.episode import Episode, Request, StopReason
from tracer.workloads.gsm8k_answers import JudgedAnswer, judge
from tracer.workloads.gsm8k_numbers import numbers_in


def judged_answer(episode: Episode, requests: Sequence[Request]) -> JudgedAnswer | None:
    """The judged answer of an arm of one item; None for other workloads, and without gold or text."""
    spec = episode.workload
    if (
        spec.name != "gsm8k"
        or len(requests) != 1
        or requests[0].error is not None
        or "gold" not in spec.params
    ):
        return None
    gold = next((number.value for number in numbers_in(str(spec.params["gold"]))), None)
    if gold is None:
        return None
    request = requests[0]
    return judge(request.text, request.stop is StopReason.LENGTH, gold)
