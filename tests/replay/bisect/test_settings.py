"""How settings reach an engine, and what is tried on which."""

import pytest

from replay.bisect.candidates import Change, Configuration, candidates, pairs
from replay.bisect.settings import SETTINGS
from tracer.engines.choice import EngineChoice
from tracer.errors import UsageError

SERVER = EngineChoice(engine="llama-server", server_bin="llama-server")


def labels(configurations):
    return [one.label for one in configurations]


def only(**change):
    ((setting, value),) = change.items()
    return Configuration(changes=(Change(setting=setting.replace("_", "-"), value=value),))


def test_in_process_only_what_can_be_set_is_tried():
    tried, left_out = candidates(EngineChoice(engine="llama", threads=2))
    assert labels(tried) == [
        "ubatch=1",
        "ubatch=32",
        "flash-attention=off",
        "flash-attention=on",
        "kv-type=f32",
        "kv-type=q8_0",
        "threads=1",
        "batch=1024",
        "prompt-cache=0",
    ]
    assert left_out == ()


def test_on_a_server_what_the_default_has_already_is_left_out():
    tried, left_out = candidates(SERVER)
    assert {"context-checkpoints=0", "idle-slots=off", "repacking=off"} <= set(labels(tried))
    assert [left.change.label for left in left_out] == ["cache-reuse=0", "speculative=none", "slots=1"]


def test_what_the_user_switched_on_is_a_suspect():
    choice = EngineChoice(engine="llama-server", server_args=("--cache-reuse", "256", "-np", "4"))
    tried, left_out = candidates(choice)
    assert {"cache-reuse=0", "slots=1"} <= set(labels(tried))
    assert "cache-reuse=0" not in [left.change.label for left in left_out]


def test_a_change_replaces_what_the_user_gave_under_any_name():
    choice = EngineChoice(engine="llama-server", server_args=("-ub", "256", "--cache-reuse=64", "--jinja"))
    changed = only(ubatch="1").applied(only(cache_reuse="0").applied(choice))
    assert changed.ubatch_tokens == 1
    assert changed.server_args == ("--jinja", "--cache-reuse", "0")


def test_switches_have_no_value():
    choice = EngineChoice(engine="llama-server", server_args=("--cache-idle-slots", "--jinja"))
    assert SETTINGS["idle-slots"].present(choice) == "on"
    assert only(idle_slots="off").applied(choice).server_args == ("--jinja", "--no-cache-idle-slots")
    assert SETTINGS["idle-slots"].told("off") == "--server-arg=--no-cache-idle-slots"


def test_numbers_become_numbers():
    assert only(prompt_cache="0").applied(SERVER).prompt_cache_mib == 0
    assert only(kv_type="q8_0").applied(SERVER).kv_type == "q8_0"


def test_pairs_are_of_two_settings():
    tried, _ = candidates(SERVER, ("ubatch=1,32", "threads=1"))
    assert labels(pairs(tried)) == ["ubatch=1 + threads=1", "ubatch=32 + threads=1"]


def test_a_pair_changes_both():
    changed = pairs([only(ubatch="1"), only(flash_attention="off")])[0].applied(SERVER)
    assert (changed.ubatch_tokens, changed.flash_attention) == (1, "off")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("colour=red", "knows no setting"),
        ("ubatch=0", "from 1 on"),
        ("ubatch=many", "from 1 on"),
        ("flash-attention=perhaps", "not possible"),
        ("idle-slots=maybe", "on, off"),
        ("speculative=../x", "no value"),
    ],
)
def test_wrong_candidates_are_named(given, said):
    with pytest.raises(UsageError, match=said):
        candidates(SERVER, (given,))


def test_server_settings_are_refused_in_process():
    with pytest.raises(UsageError, match="no setting cache-reuse"):
        candidates(EngineChoice(engine="llama"), ("cache-reuse=0",))


@pytest.mark.parametrize(
    "choice",
    [EngineChoice(engine="llama-server", url="http://127.0.0.1:1"), EngineChoice(engine="openai")],
)
def test_engines_whose_settings_are_not_ours_are_refused(choice):
    with pytest.raises(UsageError, match="settings"):
        candidates(choice)


def test_a_candidate_that_changes_nothing_is_no_bisect():
    with pytest.raises(UsageError, match="no candidate differs"):
        candidates(EngineChoice(engine="llama", threads=1), ("threads=1",))
