"""Berkeley Function Calling Leaderboard, multi-turn base, through its own unmodified package.

Read in this order: ``dataset`` (what the wheel holds), ``gates`` (what may be executed),
``sandbox`` and ``worker`` (the process that runs it), ``worker_process`` (our end of it),
``episode`` (the workload).
"""

from tracer.workloads.bfcl.family import BfclFamily

__all__ = ["BfclFamily"]
