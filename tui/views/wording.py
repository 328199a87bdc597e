"""The words for what the agent did. The text stays hostile: whoever draws it cleans it."""

from __future__ import annotations

from tracer.episode import Request

LONGEST = 400
"""Characters of free text that a view carries; the panes show less."""


def did(request: Request | None) -> str:
    """A request's tool calls, or the start of its text."""
    if request is None:
        return ""
    if request.error is not None:
        return f"error: {request.error.message}"[:LONGEST]
    if request.tool_calls:
        calls = "; ".join(f"{call.name}({call.arguments[:LONGEST]})" for call in request.tool_calls)
        return calls[:LONGEST]
    return request.text[:LONGEST].strip()


def next_lines(request: Request | None) -> tuple[str, ...]:
    """What the agent did after a request, one line each: tool calls, their results."""
    if request is None:
        return ()
    lines = []
    for place, call in enumerate(request.tool_calls):
        blocked = f" (refused: {call.blocked[:LONGEST]})" if call.blocked else ""
        lines.append(f"calls {call.name}({call.arguments[:LONGEST]}){blocked}")
        if place < len(request.tool_results):
            result = request.tool_results[place]
            word = "error" if result.is_error else "result"
            lines.append(f"{word}: {result.content[:LONGEST]}")
    if not lines and request.error is not None:
        lines.append(f"failed: {request.error.message[:LONGEST]}")
    return tuple(lines)
