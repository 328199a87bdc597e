"""What was observed: types, trace file, engines, workloads, and the one loop that executes an arm."""
