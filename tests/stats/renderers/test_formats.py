"""What each format promises: valid, whole, and harmless whatever the traces say."""

import csv
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stats.figures.all import all_figures
from stats.figures.figure import Axis, Figure, Line
from stats.intervals import Interval
from stats.renderers.cells import cell_text, p_text
from stats.renderers.choose import render
from stats.renderers.figure_files import draw_files
from stats.renderers.figure_svg import HEIGHT, LEGEND_ROW, WIDTH, render_svg
from stats.renderers.terminal import table_text
from stats.report.build import Built
from stats.tables.table import Column, Table
from tracer.clean_text import cells

TEXT_FORMATS = ("table", "md", "csv", "json", "latex", "html")


@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_no_text_of_a_trace_acts_on_whoever_reads_it(built: Built, name: str) -> None:
    text = render(built, name, 140, draw=True)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b-\u200f]", text)
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_of_a_terminal_is_wider_than_it_is(built: Built, width: int) -> None:
    """A table that cannot be folded into the width is written row by row."""
    lines = render(built, "table", width).splitlines()
    assert max(cells(line) for line in lines) <= width


def test_csv_runs_no_formula_and_numbers_are_numbers(built: Built) -> None:
    rows = list(csv.reader(io.StringIO(render(built, "csv"))))
    for row in rows:
        for cell in row:
            assert not cell.startswith(("=", "+", "@", "\t", "\r"))
            if cell.startswith("-"):
                float(cell)
    start = next(i for i, row in enumerate(rows) if row[:2] == ["table", "rates"])
    head, first = rows[start + 1], rows[start + 2]
    found = dict(zip(head, first, strict=True))
    assert float(found["rate"]) == int(found["differ"]) / int(found["episodes"])
    assert 0 <= float(found["interval_low"]) <= float(found["interval_high"]) <= 1


def test_json_is_ascii_and_holds_every_row(built: Built) -> None:
    text = render(built, "json")
    assert text.isascii()
    found = json.loads(text)
    for table in built.report.tables:
        assert len(found["tables"][table.name]["rows"]) == len(table.rows)
        assert found["tables"][table.name]["basis"] == table.basis
    assert found["disclosure"]["rows"]


class Tags(HTMLParser):
    """Checks nesting and collects what could load something."""

    VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loading: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.loading += [
            f"{tag} {k}={v}" for k, v in attrs if k in ("src", "href", "action", "data", "xlink:href")
        ]
        assert not any(k.startswith("on") for k, _ in attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_loads_nothing_and_shows_its_figures(built: Built) -> None:
    text = render(built, "html")
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.loading == []
    assert not tags.seen & {"script", "link", "iframe", "img", "object", "base", "form"}
    assert "default-src 'none'" in text
    assert "url(" not in text
    assert "@import" not in text
    addresses = set(re.findall(r"https?://[^\s\"'<]+", re.sub(r"\\?&lt;.*?&gt;", "", text)))
    shown = {a for a in addresses if "example.invalid" not in a}
    assert shown <= {"http://www.w3.org/2000/svg"}
    assert text.count("<svg") == len(all_figures(built)) == 5


def test_every_figure_is_well_formed_and_inside_its_frame(built: Built) -> None:
    for figure in all_figures(built):
        svg = ElementTree.fromstring(render_svg(figure))
        _, _, width, height = (float(v) for v in svg.attrib["viewBox"].split())
        assert (width, height) == (WIDTH, HEIGHT + LEGEND_ROW * len(figure.lines))
        for element in svg.iter():
            for name in ("x", "cx"):
                assert -1 <= float(element.attrib.get(name, 0)) <= width + 1
            for name in ("y", "cy"):
                assert -1 <= float(element.attrib.get(name, 0)) <= height + 1
        texts = "".join(svg.itertext())
        assert figure.title in texts
        dashes = {e.attrib.get("stroke-dasharray") for e in svg.iter()} - {None}
        groups = {line.group or line.label for line in figure.lines if line.style != "points"}
        assert len(dashes) >= min(len(groups), 6) * bool(groups)


def test_figure_files_are_the_same_each_time(built: Built, tmp_path: Path) -> None:
    figures = all_figures(built)[:2]
    first = draw_files(figures, tmp_path / "a")
    again = draw_files(figures, tmp_path / "b")
    assert [p.suffix for p in first] == [".svg", ".png"] * 2
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.stat().st_size > 1000


def test_figure_files_draw_names_in_any_script(tmp_path: Path) -> None:
    line = Line(label="表計算 $x$ \x1b[31m", x=(0.0, 1.0), y=(0.2, 0.4), low=(0.1, None), high=(0.3, None))
    figure = Figure(
        name="any",
        title="表 $\\alpha$",
        caption="c",
        x=Axis(title="x", names=("表", "a b c d e f g h i j k l m n")),
        y=Axis(title="y", percent=True),
        lines=(line,),
    )
    assert len(draw_files([figure], tmp_path)) == 2


def test_latex_is_balanced_and_plain_ascii(built: Built) -> None:
    text = render(built, "latex")
    check_latex(text)


def check_latex(text: str) -> None:
    """Every brace and environment closed, every row as long as its head, no stray special character."""
    bare = text.replace("\\\\", "\x00").replace(r"\{", "").replace(r"\}", "")
    bare = re.sub(r"\\[#$%&_]", "", bare)
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    body = bare.split(r"\begin{document}")[1]
    assert not re.search(r"[#$%^~]", body)
    assert body.isascii() or all(c in "äöüÄÖÜßéèàçñ·" for c in body if ord(c) > 127)
    open_environments: list[str] = []
    for begin, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if begin == "begin":
            open_environments.append(name)
        else:
            assert open_environments.pop() == name
    assert open_environments == []
    for table in re.findall(r"\\begin\{longtable\}.*?\\end\{longtable\}", text, re.S):
        lines = [line for line in table.splitlines() if line.endswith(r"\\")]
        rows = [line for line in lines if not line.startswith((r"\caption", r"\multicolumn"))]
        widths = {len(re.findall(r"(?<!\\)&", row)) for row in rows}
        assert len(widths) == 1
        assert all(command in table for command in (r"\toprule", r"\midrule", r"\bottomrule"))
    assert not re.search(r"\\(input|include|write|openin|catcode|def)\b", text)


@pytest.mark.slow
def test_latex_compiles(built: Built, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("LEFT OUT: pdflatex is not installed; the structure is checked in the quick tests")
    source = tmp_path / "report.tex"
    source.write_text(render(built, "latex"))
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", source.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert source.with_suffix(".pdf").stat().st_size > 5000


def test_not_observed_is_a_dash_and_never_a_zero() -> None:
    for kind in ("text", "count", "number", "share", "interval", "p", "flag"):
        column = Column(key="k", title="t", kind=kind)  # type: ignore[arg-type]
        assert cell_text(None, column) == "–"
    share = Column(key="k", title="t", kind="share_interval")
    assert cell_text(Interval(low=0.266, high=0.472, method="m"), share) == "[26.6, 47.2] %"
    assert cell_text(0.0, Column(key="k", title="t", kind="share")) == "0.0 %"
    assert [p_text(p) for p in (0.26317, 0.000999, 1.34e-8, float("nan"))] == [
        "0.263",
        "1.0e-03",
        "1.3e-08",
        "–",
    ]


def test_wide_characters_and_long_words_keep_columns_aligned() -> None:
    table = Table(
        name="t",
        title="t",
        columns=(Column(key="a", title="a"), Column(key="n", title="n", kind="count")),
        rows=(("表計算" * 30, 1), ("x" * 300, 22), ("short", 333)),
        basis="b.",
    )
    lines = table_text(table, 60).splitlines()
    assert all(cells(line) <= 60 for line in lines)
    assert [line[-3:].strip() for line in lines if line.rstrip().endswith(("1", "22", "333"))] == [
        "1",
        "22",
        "333",
    ]


def test_a_long_table_says_how_much_it_leaves_out() -> None:
    table = Table(
        name="t",
        title="t",
        columns=(Column(key="a", title="a", kind="count"),),
        rows=tuple((i,) for i in range(50)),
        basis="b.",
        shown_rows=20,
    )
    assert "and 30 more rows" in table_text(table)
