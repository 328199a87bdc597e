"""The ten user turns of ``office`` and the oracle's answers: what a capable agent would say.

A step is what the assistant writes: a call as one line of JSON, or the turn's closing sentence.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


def call(tool: str, **arguments: str) -> str:
    """A tool call as the agent writes it."""
    return json.dumps({"tool": tool, "args": arguments}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user asks, what the oracle writes step by step, and what an answer must contain."""

    user: str
    steps: tuple[str, ...]
    required: tuple[str, ...] = ()


TURNS: tuple[Turn, ...] = (
    Turn(
        "Good morning. Which files are in the office folder?",
        (call("list_files"), "There are three files: budget.txt, contacts.txt and notes.txt."),
        ("budget.txt", "contacts.txt", "notes.txt"),
    ),
    Turn(
        "Please read budget.txt and tell me the items.",
        (
            call("read_file", path="budget.txt"),
            "The budget has four items: venue 1240, catering 865, printing 312 and travel 543.",
        ),
        ("1240", "865", "312", "543"),
    ),
    Turn(
        "Add up all amounts in the budget.",
        (call("calc", expression="1240 + 865 + 312 + 543"), "The budget adds up to 2960."),
        ("2960",),
    ),
    Turn(
        "Write that sum to total.txt as one line, in the form total: NUMBER.",
        (
            call("write_file", path="total.txt", content="total: 2960\n"),
            "I wrote the line total: 2960 to total.txt.",
        ),
    ),
    Turn(
        "We tip the helpers 15 % of the sum. How much is that?",
        (call("calc", expression="2960 * 15 / 100"), "The tip is 444."),
        ("444",),
    ),
    Turn(
        "Append the tip to total.txt as one line, in the form tip: NUMBER.",
        (
            call("append_file", path="total.txt", content="tip: 444\n"),
            "I appended the line tip: 444 to total.txt.",
        ),
    ),
    Turn(
        "What is on the calendar for Tuesday?",
        (
            call("list_events", day="Tuesday"),
            "On Tuesday there are the stand-up at 09:30, the budget meeting at 11:00 and the design review "
            "at 15:00.",
        ),
        ("09:30", "11:00", "15:00"),
    ),
    Turn(
        "Book a call with Dana on Tuesday at 15:00, titled call with Dana. If that clashes, take 16:00.",
        (
            call("add_event", day="Tuesday", time="15:00", title="call with Dana"),
            call("add_event", day="Tuesday", time="16:00", title="call with Dana"),
            "15:00 clashes with the design review, so the call with Dana is on Tuesday at 16:00.",
        ),
        ("16:00",),
    ),
    Turn(
        "Move the stand-up on Tuesday to 10:30.",
        (
            call("move_event", day="Tuesday", title="stand-up", time="10:30"),
            "The stand-up on Tuesday is now at 10:30.",
        ),
        ("10:30",),
    ),
    Turn(
        "Append the time of the call to total.txt, in the form call: HH:MM, and sum up what we did.",
        (
            call("append_file", path="total.txt", content="call: 16:00\n"),
            "We added up the budget to 2960, noted a tip of 444, booked the call with Dana for 16:00 and "
            "moved the stand-up to 10:30; total.txt holds the sum, the tip and the time of the call.",
        ),
        ("2960", "444", "16:00"),
    ),
)
