"""Where the statistics' tests find the paper's released data."""

from pathlib import Path

import pytest

PAPER = Path(__file__).resolve().parents[3] / "shared" / "data" / "paper"


@pytest.fixture
def paper_data() -> Path:
    """Folder of the authors' released results (CC BY 4.0, A. Patodiya), which is not part of this project."""
    if not PAPER.is_dir():
        pytest.skip("LEFT OUT: needs the paper's released data in ../shared/data/paper beside the repository")
    return PAPER
