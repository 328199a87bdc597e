"""What everything costs, each beside what it could at best cost: ``python -m benchmarks``."""
