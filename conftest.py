"""Marks every test that needs no engine and is not slow as ``quick``: the README's test command."""

import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs with Ctrl-C ignored, and children inherit that; tests of Ctrl-C need it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

ENGINE_MARKERS = {"llama", "llama_server", "vllm", "bfcl"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what has neither an engine's marker nor ``slow``."""
    for item in items:
        names = {mark.name for mark in item.iter_markers()}
        if not names & (ENGINE_MARKERS | {"slow"}):
            item.add_marker(pytest.mark.quick)
