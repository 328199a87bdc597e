"""``office``: the built-in agent task, small, deterministic, without network.

Ten user turns over eight tools and a plain in-memory state; later turns depend on earlier results,
so that one flipped digit spreads. ``desk`` holds the state and the tools, ``transcript`` the turns
with the oracle's answers, ``handbook`` the system prompt, ``episode`` the agent.
"""

from tracer.workloads.office.episode import OfficeFamily

__all__ = ["OfficeFamily"]
