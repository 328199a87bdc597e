"""Whole studies: one TOML file names models, formats, engines, arms, orders and episodes.

Read in this order: ``study_file`` (what a file says, validated), ``cells`` (what it expands to),
``cell_run`` (one cell, in a process of its own), ``study_run`` (all cells, resumable), ``manifest``
(what the paper asks to disclose).
"""
