"""One golden file a format. ``CACHETRACE_WRITE_GOLDEN=1 pytest …`` writes them anew, for review."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from stats.renderers.choose import render
from stats.report.build import Built

GOLDEN = Path(__file__).parent / "golden"
SUFFIX = {"table": "txt", "md": "md", "csv": "csv", "json": "json", "latex": "tex", "html": "html"}


def expected(name: str, text: str) -> str:
    path = GOLDEN / f"report.{SUFFIX[name]}"
    if os.environ.get("CACHETRACE_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8", newline="\n")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["table", "md", "latex", "html"])
def test_text_formats_are_as_reviewed(built: Built, name: str) -> None:
    text = render(built, name, 140, draw=name == "table")
    assert text == expected(name, text)


def test_json_is_as_reviewed(built: Built) -> None:
    """Numbers are unrounded there, and the last digit may depend on the processor."""
    text = render(built, "json")
    same(json.loads(text), json.loads(expected("json", text)))


def test_csv_is_as_reviewed(built: Built) -> None:
    text = render(built, "csv")
    rows, reviewed = (list(csv.reader(io.StringIO(t))) for t in (text, expected("csv", text)))
    same([[as_number(c) for c in row] for row in rows], [[as_number(c) for c in row] for row in reviewed])


def as_number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def same(found: Any, reviewed: Any) -> None:
    if isinstance(reviewed, dict):
        assert list(found) == list(reviewed)
        for key, value in reviewed.items():
            same(found[key], value)
    elif isinstance(reviewed, list):
        assert len(found) == len(reviewed)
        for one, other in zip(found, reviewed, strict=True):
            same(one, other)
    elif isinstance(reviewed, float):
        assert found == pytest.approx(reviewed, rel=1e-9, abs=1e-12)
    else:
        assert found == reviewed
