"""Workloads: generators of the next prompt, given the answers so far."""
