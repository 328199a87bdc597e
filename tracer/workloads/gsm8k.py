"""GSM8K, single turn: each item is one episode of one request.

A study makes the four servings of an item: two cold and two warm with priming ``self``, where the
whole prompt but its last token comes from the serving just before. The prompt and the order of the
items are fixed. Answers are not judged here: ``gsm8k_answers`` derives them from the stored text
when a report is made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracer.episode import Message, Outcome, WorkloadSpec
from tracer.errors import UsageError
from tracer.request_source import Answer, AnswerDigest, PlannedRequest, RequestSource
from tracer.workloads.base import Tokenizer, Workload
from tracer.workloads.fetched_file import check_hash, data_folder, fetch
from tracer.workloads.options import refuse_options

NAME = "gsm8k"
ITEMS = 1319
DATA_SHA256 = "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14"
DATA_URL = (
    "https://raw.githubusercontent.com/openai/grade-school-math/"
    "3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data/test.jsonl"
)
_WHAT = "GSM8K test set (openai/grade-school-math at 3101c7d)"

INSTRUCTION = (
    "Solve this problem step by step. End with one line that holds #### and the answer as a plain number.\n\n"
)
PROMPT_VERSION = "1"
"""Changes whenever a prompt would change."""

_NO_EFFECT = ("history", "agent")
"""A single request has no history, and an oracle's answer would go nowhere."""


@dataclass(frozen=True, slots=True)
class Gsm8kItem:
    """One item: a question, and its gold answer as the data set writes it."""

    spec: WorkloadSpec

    @property
    def episode_id(self) -> str:
        return f"{NAME}_{int(self.spec.params['item']):04d}"

    def start(self, tokenizer: Tokenizer) -> RequestSource:
        return _OneQuestion(tokenizer, self.spec)


class _OneQuestion:
    """The only request of an item."""

    def __init__(self, tokenizer: Tokenizer, spec: WorkloadSpec) -> None:
        self._tokenizer = tokenizer
        self._spec = spec
        self._asked = False

    @property
    def planned(self) -> int | None:
        return 1

    def next_request(self) -> PlannedRequest | None:
        if self._asked:
            return None
        self._asked = True
        message = Message(role="user", content=INSTRUCTION + str(self._spec.params["question"]))
        ids = tuple(self._tokenizer.tokenize(self._tokenizer.render([message])))
        return PlannedRequest(prompt_ids=ids, messages_added=(message,))

    def digest(self, answer: Answer) -> AnswerDigest:
        del answer  # judged from the stored text, later and for every serving alike
        return AnswerDigest()

    def outcome(self) -> Outcome | None:
        return Outcome(details={"item": self._spec.params["item"], "gold": self._spec.params["gold"]})


class Gsm8kFamily:
    """The family of all items, in the order of the file."""

    name = NAME

    def episodes(self, *, file: str | None = None, **options: Any) -> Iterator[Workload]:
        """Items in the order of the data: from ``file``, or the pinned one, which is fetched once."""
        refuse_options(NAME, {name: given for name, given in options.items() if name not in _NO_EFFECT})
        path = require_data(Path(file) if file is not None else None)
        for item, line in enumerate(_lines(path)):
            yield Gsm8kItem(item_spec(item, line))

    def from_spec(self, spec: WorkloadSpec) -> Workload:
        """The item that a trace describes; the data file is not needed for it."""
        if spec.version != PROMPT_VERSION:
            raise UsageError(
                f"this item was asked with prompt version {spec.version}, and this cachetrace has "
                f"{PROMPT_VERSION}; replay it with the recorded prompts instead."
            )
        for name in ("item", "question", "gold"):
            if name not in spec.params:
                raise UsageError(f"the recorded {NAME} item lacks its {name}.")
        return Gsm8kItem(spec)


def item_spec(item: int, line: dict[str, Any]) -> WorkloadSpec:
    """Everything about an item, so that it can be asked again without the data file."""
    return WorkloadSpec(
        name=NAME,
        params={
            "item": item,
            "question": str(line["question"]),
            "gold": str(line["answer"]).rsplit("####", 1)[-1].strip(),
            "data_sha256": DATA_SHA256,
        },
        version=PROMPT_VERSION,
    )


def require_data(path: Path | None = None, *, url: str = DATA_URL) -> Path:
    """The pinned data file: the given one, its hash checked, or the kept one, fetched if need be."""
    if path is not None:
        return check_hash(path, DATA_SHA256, _WHAT)
    return fetch(url, data_folder("gsm8k") / "test.jsonl", DATA_SHA256, _WHAT)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)
