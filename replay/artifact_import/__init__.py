"""Logs of others as traces: the paper's released artifact, and plain JSON Lines.

Such traces hold no prompts, only their hashes: they can be stepped through, compared and counted, but
not replayed. Every point of the artifact's layout that was inferred is checked while reading; where it
does not hold the import is refused with one sentence.
"""
