"""Writes the conversations of the H200 study: one JSON line each, the same bytes at every run.

    python docs/h200/make_conversations.py 40 > conversations.jsonl

Each has the office workload's system prompt (tool descriptions and a handbook, 1,256 tokens)
and six messages of a user, put together from short lists by the conversation's number.
"""

from __future__ import annotations

import json
import random
import sys

from tracer.workloads.office.handbook import SYSTEM_PROMPT

PEOPLE = ["Anna", "Boris", "Chen", "Dalia", "Emeka", "Farah", "Goran", "Hana", "Ines", "Jonas"]
THINGS = ["the printer on the second floor", "the spring budget", "our visitors from Porto", "the new badges",
          "the coffee machine", "the fire drill", "the summer party", "the parking permits"]  # fmt: skip
TOPICS = ["how rain forms", "why bread rises", "how a bicycle stays upright", "what a prime number is",
          "how bees find flowers", "why the sea is salty", "how locks work", "what a summary is"]  # fmt: skip
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
OPENINGS = [
    "Which tool would you call to see what is planned on {day}, and with which arguments?",
    "Explain in three sentences what the handbook says about meetings that clash.",
    "Write a short note to {person} about {thing}.",
    "List three things that you can do with files here.",
]
MIDDLES = [
    "Now say the same to {person}, but more politely.",
    "Explain {topic} to {person} in plain words.",
    "A lunch for {n} people costs {a} euros each. What is the total, and what is 15 percent of it?",
    "Make a list of four steps to prepare {thing} before {day}.",
    "What would change if it were on {day} instead?",
    "Write one sentence about {thing} and one about {topic}.",
    "Give {person} two reasons to come on {day}.",
]
CLOSINGS = [
    "Recap everything that you told me in two sentences.",
    "Which of your answers are you least sure about, and why?",
    "Put your last answer into a table with two columns.",
]


def conversation(number: int) -> dict[str, object]:
    """Conversation ``number``, from 0; its messages depend on the number alone."""
    chosen = random.Random(number)  # noqa: S311  # a stable choice, no secret

    def filled(template: str) -> str:
        return template.format(
            day=chosen.choice(DAYS), person=chosen.choice(PEOPLE), thing=chosen.choice(THINGS),
            topic=chosen.choice(TOPICS), n=chosen.randint(3, 19), a=chosen.randint(7, 38),
        )  # fmt: skip

    asked = [filled(chosen.choice(OPENINGS))]
    asked += [filled(template) for template in chosen.sample(MIDDLES, 4)]
    asked.append(chosen.choice(CLOSINGS))
    messages = [{"role": "system", "content": SYSTEM_PROMPT}]
    messages += [{"role": "user", "content": text} for text in asked]
    return {"id": f"talk-{number:02d}", "messages": messages}


def main() -> None:
    """Print the first N conversations."""
    for number in range(int(sys.argv[1])):
        sys.stdout.write(json.dumps(conversation(number), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
