"""Who may use the proxy, and how its requests are sorted into episodes."""

import pytest

from tracer.proxy.episodes import EpisodeNames, safe_name
from tracer.proxy.guard import host_allowed, origin_allowed


@pytest.mark.parametrize(
    ("host", "bound", "allowed"),
    [
        ("127.0.0.1:8900", "127.0.0.1", True),
        ("localhost:8900", "127.0.0.1", True),
        ("[::1]:8900", "127.0.0.1", True),
        ("evil.example:8900", "127.0.0.1", False),
        ("127.0.0.1.evil.example", "127.0.0.1", False),
        ("192.168.1.5:8900", "127.0.0.1", False),
        ("192.168.1.5:8900", "0.0.0.0", True),
        ("evil.example", "0.0.0.0", False),
        ("box.lan:8900", "box.lan", True),
        ("", "127.0.0.1", False),
        (None, "127.0.0.1", False),
    ],
)
def test_a_rebound_name_is_refused(host, bound, allowed) -> None:
    assert host_allowed(host, bound) is allowed


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("http://localhost:3000", True),
        ("https://evil.example", False),
        ("null", False),
        ("file://x", False),
    ],
)
def test_pages_of_other_hosts_are_refused(origin, allowed) -> None:
    assert origin_allowed(origin, "127.0.0.1") is allowed


def chat(*contents):
    roles = ["system", *(["user", "assistant"] * 5)]
    messages = [{"role": roles[i], "content": text} for i, text in enumerate(contents)]
    return {"messages": messages}


def test_a_longer_conversation_continues_its_episode() -> None:
    names = EpisodeNames()
    first = names.name(None, chat("s", "u1"))
    other = names.name(None, chat("s", "another question"))
    assert names.name(None, chat("s", "u1", "a1", "u2")) == first
    assert names.name(None, chat("s", "another question", "a", "u")) == other
    assert first != other


def test_a_branch_belongs_to_the_episode_that_it_left() -> None:
    names = EpisodeNames()
    first = names.name(None, chat("s", "u1"))
    assert names.name(None, chat("s", "u1", "a1", "u2")) == first
    assert names.name(None, chat("s", "u1", "a1", "another u2")) == first


def test_header_then_command_decide() -> None:
    names = EpisodeNames(only="my agent")
    assert names.name("task/7", chat("s", "u")) == "task-7"
    assert names.name(None, chat("s", "u")) == "my-agent"
    assert names.name(None, {"prompt": "x"}) == "my-agent"


def test_completions_without_messages_each_begin_an_episode() -> None:
    names = EpisodeNames()
    assert names.name(None, {"prompt": "x"}) != names.name(None, {"prompt": "x"})


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "...", "a b\x00c", "x" * 500, "-rf"])
def test_names_are_safe_as_files(name) -> None:
    safe = safe_name(name)
    assert safe
    assert len(safe) <= 80
    assert "/" not in safe
    assert "\x00" not in safe
    assert not safe.startswith((".", "-"))
