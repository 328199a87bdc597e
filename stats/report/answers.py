"""GSM8K answers, derived from the stored text when the report is made."""

from __future__ import annotations

from collections.abc import Sequence

from stats.report.records import AnswerFacts
from tracer.episode import Episode, Request, StopReason


def answer_facts(episode: Episode, requests: Sequence[Request]) -> AnswerFacts | None:
    """The judged answer of an arm of one item; None for other workloads, and without gold or text."""
    spec = episode.workload
    if (
        spec.name != "gsm8k"
        or len(requests) != 1
        or requests[0].error is not None
        or "gold" not in spec.params
    ):
        return None
    import hashlib

    from tracer.workloads.gsm8k_answers import judge
    from tracer.workloads.gsm8k_numbers import numbers_in

    gold = next((number.value for number in numbers_in(str(spec.params["gold"]))), None)
    if gold is None:
        return None
    request = requests[0]
    judged = judge(request.text, request.stop is StopReason.LENGTH, gold)
    value = judged.derived.value
    return AnswerFacts(
        answer_class=str(judged.answer_class),
        value=None if value is None else str(value),
        found=str(judged.derived.found),
        text_digest=hashlib.sha256(request.text.encode("utf-8", "surrogatepass")).hexdigest()[:16],
    )
