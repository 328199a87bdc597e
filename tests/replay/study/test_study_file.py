"""Study files: what is read, and that a mistake is reported with its place."""

import re
from pathlib import Path

import pytest

from replay.study.cells import cells_of
from replay.study.episode_range import positions
from replay.study.study_file import PRESETS, load_study, parse_study
from tracer.episode import CacheState, Carry
from tracer.errors import EngineMissing, UsageError

ROOT = Path(__file__).resolve().parents[3]

GOOD = """\
name = "mine"

[workload]
name = "office"
turns = 3

[[model]]
path = "a.gguf"
formats = ["F16", "Q8_0"]

[[model]]
path = "folder/b.gguf"

[[engine]]
engine = "llama"
threads = 2

[[arms]]
states = ["cold", "warm"]
"""


def test_a_file_expands_to_one_cell_a_configuration() -> None:
    cells = cells_of(parse_study(GOOD))
    assert [cell.cell_id for cell in cells] == ["a.F16", "a.Q8_0", "b"]
    assert cells[0].engine.threads == 2
    assert cells[0].arms.states == (CacheState.COLD, CacheState.WARM)
    assert cells[2].model is not None
    assert cells[2].model.weight_format is None


def test_every_axis_is_in_the_names_where_it_differs() -> None:
    text = (
        GOOD.replace("turns = 3", 'turns = 3\nepisodes = "0-3"')
        .replace(
            '[[arms]]\nstates = ["cold", "warm"]\n',
            """[[engine]]
engine = "llama-server"
name = "server"

[[arms]]
name = "fresh"
states = ["cold", "warm"]

[[arms]]
name = "kept"
states = ["warm"]
passes = 2
carry = "carried-over"
orders = ["canonical", 7]
""",
        )
        .replace("threads = 2", 'threads = 2\nname = "inside"')
    )
    ids = [cell.cell_id for cell in cells_of(parse_study(text))]
    assert ids[:6] == [
        "a.F16.inside.fresh",
        "a.F16.inside.kept.canonical",
        "a.F16.inside.kept.order7",
        "a.F16.server.fresh",
        "a.F16.server.kept.canonical",
        "a.F16.server.kept.order7",
    ]
    assert len(ids) == len(set(ids)) == 18


def test_ranges_of_episodes_are_cut_into_cells() -> None:
    text = GOOD.replace("turns = 3", 'episodes = "0-4,9"\nepisodes_per_cell = 4')
    cells = [cell for cell in cells_of(parse_study(text)) if cell.cell_id.startswith("b")]
    assert [(cell.cell_id, cell.episodes) for cell in cells] == [("b.e0-3", (0, 1, 2, 3)), ("b.e4-9", (4, 9))]
    assert positions("3,1-2,2") == (3, 1, 2)


MISTAKES = [
    ("turns = 3", "turn = 3", "line 5, workload.turn: .*unknown field"),
    ("turns = 3", "turns = 0", "line 5, workload.turns: .*>= 1"),
    ("turns = 3", 'turns = "3"', "line 5, workload.turns: .*`int"),
    ('name = "office"', 'name = "offices"', r"line 4, workload\.name: .*offices"),
    ('states = ["cold", "warm"]', 'states = ["cold", "hot"]', r"line 19, arms\[0\]\.states\[1\]: .*hot"),
    ('states = ["cold", "warm"]', 'states = []', r"line 19, arms\[0\]\.states: .*length >= 1"),
    ('states = ["cold", "warm"]', 'states = ["cold", "cold"]', r"line 19, arms\[0\]\.states: .*twice"),
    ('states = ["cold", "warm"]', 'states = ["as-served"]', r"line 19, arms\[0\]\.states: .*not controlled"),
    ('["cold", "warm"]', '["warm"]\nrepeats = 2\npasses = 2', r"line 21, arms\[0\]\.passes: "),
    ('states = ["cold", "warm"]', 'states = ["warm"]\norders = [1]', r"line 20, arms\[0\]\.orders: "),
    ('states = ["cold", "warm"]', "", r"line 18, arms\[0\]: .*missing required field `states`"),
    ('engine = "llama"', 'engine = "lama"', r"line 15, engine\[0\]\.engine: .*lama"),
    ("threads = 2", "thread = 2", r"line 16, engine\[0\]\.thread: .*unknown field"),
    ('path = "folder/b.gguf"', 'file = "b"', r"line 1[12], model\[1\]"),
    ('name = "mine"', 'name = "../mine"', "line 1, name: .*regex"),
    ('name = "mine"', 'name = "mine', "not valid TOML.*line 1"),
    ('name = "office"', 'name = "chat"', "line 3, workload: .*needs file"),
    ("turns = 3", "episodes_per_cell = 3", "line 5, workload.episodes_per_cell: .*needs episodes"),
    ("turns = 3", 'episodes = "all"', "line 5, workload.episodes: .*regex"),
    ("[[arms]]", '[[arms]]\nstates = ["cold"]\n[[arms]]', r"line 20, arms\[1\]\.name: .*name each"),
    ("turns = 3", 'episodes = "3-1"', r"line 5, workload\.episodes: .*write 1-3"),
    ("turns = 3", 'episodes = "0-1,5-3"', r"line 5, workload\.episodes: .*write 3-5"),
    ("turns = 3", 'episodes = "0-999999999"', r"line 5, workload\.episodes: .*regex"),
    ("turns = 3", "turns = 11", r"line 5, workload\.turns: office has 10 turns"),
    ("turns = 3", 'subset = "paper"', r"line 5, workload\.subset: .*office has no option 'subset'; leave it"),
    ('name = "office"', 'name = "gsm8k"', r"line 5, workload\.turns: .*no option 'turns'; leave it"),
    ('"office"\nturns = 3', '"gsm8k"\nsubset = "paper"', r"line 5, workload\.subset: .*no option 'subset'"),
    ('"office"\nturns = 3', '"gsm8k"\nagent = "oracle"', r"line 5, workload\.agent: .*no option 'agent'"),
    ('"office"\nturns = 3', '"bfcl"\nfile = "a.jsonl"', r"line 5, workload\.file: .*no option 'file'"),
    ('"office"\nturns = 3', '"bfcl"\nsubset = "papper"', r"line 5, workload\.subset: .*paper, all, cpu8"),
    ('"office"\nturns = 3', '"bfcl"\nsubset = "cpu8"\nagent = "model"', "line 3, workload: .*agent oracle"),
    ("threads = 2", 'url = "http://127.0.0.1:1"', r"line 16, engine\[0\]\.url: a running server serves one"),
    ('"F16", "Q8_0"', '"F16", "F16"', r"line 9, model\[0\]\.formats: .*twice"),
    ('"warm"]', '"warm"]\ncarry = "sentinel"\norders = [1, 1]', r"line 21, arms\[0\]\.orders: .*twice"),
    ('"warm"]', '"warm"]\ncarry = "sentinel"\norders = [-1]', r"line 21, arms\[0\]\.orders\[0\]: .*>= 0"),
    ("threads = 2", 'model = "c.gguf"', r"line 16, engine\[0\]\.model: .*\[\[model\]\]"),
    ('"warm"]', '"warm", "snapshot"]\ncarry = "carried-over"', "line 19, .*without carry"),
    ('"warm"]', '"warm", "snapshot"]\ncarry = "sentinel"', "line 19, .*without carry"),
    ('["cold", "warm"]', '["cold", "snapshot"]', r"line 19, arms\[0\]\.states: .*put warm before it"),
    ('["cold", "warm"]', '["cold", "snapshot", "warm"]', r"line 19, .*put warm before it"),
    ('["cold", "warm"]', '["no-prompt-cache", "snapshot"]', r"line 19, .*put warm before it"),
    ('"warm"]', '"warm", "snapshot"]\npriming = ["self"]', "line 19, .*add own or lockstep"),
    ('"warm"]', '"warm", "snapshot"]\nway = "closed-loop"', r"line 19, arms\[0\]\.states: .*leave cold out"),
    ('["cold", "warm"]', '["cold"]\npriming = ["self"]', r"line 20, arms\[0\]\.priming: .*add warm"),
    ('"warm"]', '"warm"]\npriming = ["restored"]', r"line 20, arms\[0\]\.priming: .*own, lockstep, self"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "message"), MISTAKES)
def test_a_mistake_is_named_with_its_line_and_key(right: str, wrong: str, message: str) -> None:
    assert right in GOOD
    with pytest.raises(UsageError) as caught:
        parse_study(GOOD.replace(right, wrong, 1))
    sentence = str(caught.value)
    assert sentence.startswith("study.toml")
    assert re.search(message, sentence, re.DOTALL), sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "h200").glob("*.toml")), ids=lambda path: path.stem)
def test_the_studies_that_were_run_are_valid(path: Path) -> None:
    assert parse_study(path.read_text(encoding="utf-8"), path.name).workload.name in ("chat", "gsm8k", "bfcl")


@pytest.mark.llama
def test_a_weight_format_that_the_quantizer_lacks_is_named() -> None:
    with pytest.raises(UsageError, match=r"line 9, model\[0\]\.formats: there is no weight format 'Q9_Z'"):
        parse_study(GOOD.replace('"Q8_0"', '"Q9_Z"'))


def test_formats_are_not_checked_where_the_quantizer_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tracer.engines.llama import quantize

    def missing() -> dict[int, str]:
        raise EngineMissing("not installed")

    monkeypatch.setattr(quantize, "weight_format_names", missing)
    assert parse_study(GOOD.replace('"Q8_0"', '"Q9_Z"')).models[0].formats == ("F16", "Q9_Z")


def test_a_range_of_the_command_line_that_runs_backwards_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--episodes: the range 5-3 runs backwards; write 3-5\."):
        load_study("smoke", (), "5-3")


def test_no_engine_and_no_model_are_said() -> None:
    with pytest.raises(UsageError, match="missing required field `engine`"):
        parse_study(GOOD.replace('[[engine]]\nengine = "llama"\nthreads = 2\n', ""))
    without = re.sub(r'\[\[model\]\]\npath = "[^"]*"\n(formats = .*\n)?', "", GOOD)
    with pytest.raises(UsageError, match="--model"):
        cells_of(parse_study(without))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid(name: str) -> None:
    study = load_study(name, ("some.gguf",))
    assert study.name == name
    assert cells_of(study)
    assert study.description


def test_the_presets_are_what_they_are_called() -> None:
    paper = load_study("paper", ("m.gguf",))
    assert (paper.workload.name, paper.workload.subset, paper.arms[0].passes) == ("bfcl", "paper", 2)
    assert paper.arms[0].carry is Carry.CARRIED_OVER
    assert paper.arms[0].way == "closed-loop"
    cpu8 = load_study("bfcl-cpu8")
    assert (cpu8.workload.subset, cpu8.sampling.max_new_tokens) == ("cpu8", 64)
    assert cpu8.engines[0].context_tokens == 6144
    assert "not the paper's figure" in cpu8.description
    smoke = load_study("smoke")
    assert smoke.models[0].formats == ("F16", "Q8_0", "Q4_K_M", "Q3_K_M")


def test_models_of_the_command_line_take_the_place_of_the_files_and_keep_the_formats(tmp_path: Path) -> None:
    study = load_study("smoke", ("other.gguf",))
    assert [(model.formats[0], Path(model.path).name) for model in study.models] == [("F16", "other.gguf")]
    assert Path(study.models[0].path).is_absolute()


def test_a_file_that_is_not_there_names_the_presets(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="smoke, bfcl-cpu8, paper, isolation"):
        load_study(str(tmp_path / "nothing.toml"))


def test_a_file_named_like_a_preset_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "smoke").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    assert load_study("smoke").name == "mine"
