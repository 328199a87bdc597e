"""GGUF heads, chat templates and the ladder: no model is loaded here but in the marked tests."""

import contextlib
import random
import struct

import msgspec
import pytest

from tracer.engines.llama import quantize
from tracer.engines.llama.gguf_file import check_whole, read_head
from tracer.engines.llama.template import ChatTemplate
from tracer.episode import Message
from tracer.errors import EngineMissing, UsageError


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def small_gguf():
    facts = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    facts += text("general.file_type") + struct.pack("<II", 4, 15)
    facts += text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
    facts += text("scores") + struct.pack("<IIQ", 9, 6, 3) + bytes(12)
    tensors = text("w") + struct.pack("<IQQIQ", 2, 576, 64, 12, 0)
    tensors += text("norm") + struct.pack("<IQIQ", 1, 64, 0, 64)
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 4) + facts + tensors
    return head + bytes(-len(head) % 32 + 200)


def test_head_of_a_small_file(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(small_gguf())
    head = read_head(path)
    assert head.facts == {"general.architecture": "llama", "general.file_type": 15}
    assert [(t.name, t.shape, t.type_id, t.elements) for t in head.tensors] == [
        ("w", (576, 64), 12, 36864),
        ("norm", (64,), 0, 64),
    ]
    assert head.weights_at % 32 == 0
    check_whole(path)


def test_a_ladder_into_a_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(quantize, "weight_format_names", lambda: {7: "Q8_0"})
    (tmp_path / "m.gguf").write_bytes(small_gguf())
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="file is a file, and a folder is needed; give another one with -o"):
        quantize.make_ladder(tmp_path / "m.gguf", ["Q8_0"], tmp_path / "file")
    with pytest.raises(UsageError, match="no weight format 'Q9_Z'"):
        quantize.make_ladder(tmp_path / "m.gguf", ["Q9_Z"], tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_damaged_heads_are_one_sentence(tmp_path):
    path = tmp_path / "m.gguf"
    whole = small_gguf()
    rng = random.Random(7)
    refused: list[str] = []
    for _ in range(500):
        raw = bytearray(whole[: rng.randrange(4, len(whole))])
        for _ in range(rng.randrange(3)):
            raw[rng.randrange(4, len(raw)) if len(raw) > 4 else 0] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(raw))
        try:
            check_whole(path)
        except EngineMissing as error:
            refused.append(str(error))
    assert len(refused) > 300
    assert not any("\n" in sentence for sentence in refused)


def test_template_runs_in_a_sandbox():
    hostile = [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ raise_exception.__globals__ }}",
        "{% set _ = messages.append(1) %}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
    ]
    for source in hostile:
        template = ChatTemplate(source)
        with contextlib.suppress(UsageError):
            assert template.render([Message(role="user", content="x")]) == "", "refused, or shows nothing"


def test_template_features():
    source = (
        "{{ bos_token }}{% for m in messages %}{% generation %}<{{ m.role }}>{{ m.content }}"
        "{% endgeneration %}"
        "{% if loop.last %}{% break %}{% endif %}{% endfor %}{{ tools | tojson if tools }}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    template = ChatTemplate(source, bos="<s>", prefix="<s>")
    shown = template.render([Message(role="user", content="é {{ 1 }}")], [{"name": "f", "é": 1}])
    assert shown == '<s><user>é {{ 1 }}[{"name": "f", "é": 1}]<assistant>'
    assert ChatTemplate("x", bos="<s>", prefix="<s>").render([]) == "<s>x"
    with pytest.raises(UsageError, match="cannot be compiled"):
        ChatTemplate("{% if %}")
    with pytest.raises(UsageError, match="only users"):
        ChatTemplate("{{ raise_exception('only users') }}").render([])


@pytest.mark.llama
@pytest.mark.slow
def test_ladder_counts_what_fell_back_as_the_library_does(smollm2, tmp_path, monkeypatch):
    from tracer.engines.llama import library, quantize

    library.load_library()
    with library.heard_log() as lines:
        ladder = quantize.make_ladder(smollm2, ["Q8_0", "Q4_K_M"], tmp_path)
    assert "itself quantized (Q4_1)" in ladder.warnings[0]
    assert [len(made.fallen_back) for made in ladder.formats] == [0, 181]
    # the library does not count the embedding, for which it takes Q8_0 before it looks for the fallback
    assert any("180 of 272 tensor(s) required fallback" in line for line in lines)
    assert ladder.formats[1].fallen_back[0].tensor == "token_embd.weight"
    assert all(made.columns == 576 for made in ladder.formats[1].fallen_back)
    assert quantize.format_of(tmp_path / ladder.formats[1].file) == "Q4_K_M"
    stored = msgspec.json.decode((tmp_path / quantize.RECORD_FILE).read_bytes(), type=quantize.LadderRecord)
    assert stored == ladder

    monkeypatch.setattr(quantize, "quantize", lambda *_: pytest.fail("written again"))
    assert quantize.make_ladder(smollm2, ["Q4_K_M"], tmp_path).formats == ladder.formats[1:]
    with pytest.raises(UsageError, match="Q9_X"):
        quantize.make_ladder(smollm2, ["Q9_X"], tmp_path)
