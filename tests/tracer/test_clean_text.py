import csv
import io
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len

from tests.synthetic import HOSTILE_PIECES
from tracer import clean_text

ANY_TEXT = st.text(
    st.one_of(
        st.characters(), st.sampled_from("\x1b\x9b\u202e\u200d\ufe0f\ud800\u0301表|`*=+-@\t\r\n\\&<'\"#{$ ")
    )
)
quick = settings(max_examples=150, deadline=None)


@quick
@given(ANY_TEXT)
def test_no_control_or_invisible_character_reaches_the_terminal(text: str) -> None:
    shown = clean_text.clean(text)
    assert shown.isprintable()
    assert not re.search("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff\u00ad]", shown)
    shown.encode("utf-8")


@quick
@given(ANY_TEXT)
def test_lines_keeps_line_ends_and_nothing_else(text: str) -> None:
    shown = clean_text.clean(text, lines=True)
    assert shown.replace("\n", "").isprintable()
    assert shown.count("\n") == text.count("\n")


@quick
@given(ANY_TEXT, ANY_TEXT)
def test_different_tokens_never_vanish(a: str, b: str) -> None:
    """Cleaning replaces, it does not drop: text that is there shows something."""
    assert clean_text.clean(a + b).startswith(clean_text.clean(a))
    assert bool(clean_text.clean(a, visible=True)) == bool(a)


@quick
@given(st.binary())
def test_bytes_that_are_no_text_are_shown(piece: bytes) -> None:
    shown = clean_text.clean_bytes(piece)
    assert shown.isprintable()
    try:
        assert shown == clean_text.clean(piece.decode("utf-8"))
    except UnicodeDecodeError:
        assert "\\x" in shown


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        (b"\xf0\x9f\x98", "\\xf0\\x9f\\x98"),
        (b" Paris\n", "·Paris↵"),
        (b"\x1b[31m", "\\x1b[31m"),
        ("\u202eabc".encode(), "\\u202eabc"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
        (b"a\xcc\x81", "a\u0301"),
        (b"\xcc\x81", "\\u0301"),
        ("e\u0301\u0301\u0301\u0301".encode(), "e\u0301\u0301\u0301\\u0301"),
    ],
)
def test_pieces(piece: bytes, shown: str) -> None:
    assert clean_text.clean_bytes(piece, visible=True) == shown


def test_a_token_without_bytes_is_its_id_and_no_token_is_a_dash() -> None:
    assert clean_text.token(262, None) == "‹262›"
    assert clean_text.token(2, b"") == "‹2›"
    assert clean_text.token(None, None) == "–"
    assert clean_text.token(5, b" a") == "·a"


@quick
@given(ANY_TEXT, st.integers(0, 30))
def test_fit_is_never_wider_and_pads_exactly(text: str, width: int) -> None:
    shown = clean_text.clean(text)
    cut = clean_text.fit(shown, width)
    assert cell_len(cut) <= width
    assert cell_len(clean_text.fit(shown, width, pad=True)) == width
    if cell_len(shown) <= width:
        assert cut == shown


def test_fit_counts_cells_not_characters() -> None:
    assert clean_text.fit("表計算", 5) == "表計…"
    assert clean_text.fit("表計算", 4) == "表…"
    assert clean_text.fit("ab", 4, pad=True, right=True) == "  ab"


@quick
@given(ANY_TEXT)
def test_csv_cells_are_never_formulas_and_stay_one_cell(text: str) -> None:
    out = io.StringIO()
    csv.writer(out).writerow(["first", clean_text.csv_cell(text)])
    rows = list(csv.reader(io.StringIO(out.getvalue())))
    assert len(rows) == 1
    assert len(rows[0]) == 2
    assert not rows[0][1].lstrip().startswith(("=", "+", "-", "@", "\t", "\r"))


def test_csv_keeps_numbers() -> None:
    assert clean_text.csv_cell(-0.5) == -0.5
    assert clean_text.csv_cell(None) == ""
    assert clean_text.csv_cell(float("nan")) == ""
    assert clean_text.csv_cell("-0.5") == "'-0.5"


@quick
@given(ANY_TEXT)
def test_xml_can_be_parsed_and_says_the_same(text: str) -> None:
    escaped = clean_text.xml(text)
    node = ElementTree.fromstring(f'<a b="{escaped}">{escaped}</a>')
    assert (node.text or "") == clean_text.clean(text, lines=True)
    assert node.get("b") == clean_text.clean(text, lines=True)


class _Collector(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@quick
@given(ANY_TEXT)
def test_html_holds_no_tag(text: str) -> None:
    parser = _Collector()
    parser.feed(f"<p>{clean_text.html(text)}</p>")
    parser.close()
    assert parser.tags == ["p"]
    assert parser.text == clean_text.clean(text, lines=True)


@quick
@given(ANY_TEXT)
def test_latex_holds_no_command_but_ours(text: str) -> None:
    escaped = clean_text.latex(text)
    for ours in clean_text._LATEX.values():
        assert ours.count("{") == ours.count("}") or ours in (r"\{", r"\}")
    rest = escaped
    for ours in sorted(clean_text._LATEX.values(), key=len, reverse=True):
        rest = rest.replace(ours, "")
    assert not set(rest) & set("\\{}$&#%_^~")


MARKDOWN = MarkdownIt("gfm-like", {"html": True})
ACTIVE_IN_MARKDOWN = st.text(st.sampled_from("\\`*_{}[]()#+-=.!|~$^:@<>&;/ 1aw\t"), max_size=12)
HEADS = (
    "",
    "www.",
    "https://",
    "- ",
    " - ",
    "1. ",
    "    x",
    "# ",
    "![a](b)",
    "mailto:a@b.de",
    "@a",
    "GH-1",
    "#1",
    "<b>",
    "&lt;",
)


@quick
@given(st.sampled_from(HEADS), ANY_TEXT | ACTIVE_IN_MARKDOWN)
def test_markdown_is_read_as_the_plain_text_that_it_came_from(head: str, text: str) -> None:
    shown = clean_text.clean(head + text).strip()
    escaped = clean_text.markdown(head + text)
    for before in ("x ", "x | "):  # inside a sentence, inside a line with cells
        (paragraph,) = [t for t in MARKDOWN.parse(before + escaped) if t.type == "inline"]
        assert paragraph.children is not None
        assert {token.type for token in paragraph.children} <= {"text"}
        rendered = "".join(token.content for token in paragraph.children)
        assert rendered.replace("\u200b", "") == (before + shown).rstrip()
        # GitHub looks for these in the text that it rendered.
        assert not re.search(r"@\w|#\d|gh-\d", rendered, re.IGNORECASE)
    if shown:
        kinds = [token.type for token in MARKDOWN.parse(f"- {escaped}")]
        assert kinds == [
            "bullet_list_open", "list_item_open", "paragraph_open", "inline",
            "paragraph_close", "list_item_close", "bullet_list_close",
        ]  # fmt: skip
        cells = [t for t in MARKDOWN.parse(f"| a | b |\n|---|---|\n| {escaped} | c |") if t.type == "td_open"]
        assert len(cells) == 2
    assert not re.search(r"(?<!\\)\$", escaped)  # formulas of GitHub, which it lacks
    assert not re.search(r"(?<!\\):\S", escaped)


def test_markdown_leaves_plain_sentences_alone() -> None:
    for plain in ("1.5 of 20 (7.5 %), from 0.9 to 35: -1.8 [", "a-b + c, cold vs warm; seed 3."):
        assert clean_text.markdown(plain) == plain.replace("[", "\\[")


def test_markdown_code_cannot_be_left() -> None:
    assert clean_text.markdown_code("a`b") == "``a`b``"
    assert clean_text.markdown_code("`") == "`` ` ``"
    assert clean_text.markdown_code("a|b") == "`a\\|b`"
    assert clean_text.markdown_code("") == "`   `"


@pytest.mark.parametrize("piece", HOSTILE_PIECES)
def test_hostile_pieces_are_harmless_everywhere(piece: bytes) -> None:
    text = piece.decode("utf-8", "surrogateescape")
    for escape in (clean_text.clean, clean_text.markdown, clean_text.latex, clean_text.markdown_code):
        assert escape(text).isprintable()


def test_numbers() -> None:
    assert clean_text.number(None) == "–"
    assert clean_text.number(float("nan")) == "–"
    assert clean_text.number(0.0123456) == "0.0123"
    assert clean_text.number(12345) == "12345"
    assert clean_text.number(float("-inf")) == "−∞"
    assert clean_text.percent(0.362) == "36.2 %"
    assert clean_text.percent(None) == "–"
    assert clean_text.ratio(None, 5) == "–/5"
