"""Every benchmark, one after another, each in a process of its own, and one table.

    python -m benchmarks [--only NAME…] [--pairs 30] [--quick] [--json FILE]

docs/benchmarks.md says what each row means. A benchmark that fails does not stop the others: the table
names it, and the command ends with 1. So it does when a target is missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.command import add_effort
from benchmarks.rows import Row, from_json, missing, render, write

ROOT = Path(__file__).resolve().parents[1]
BENCHES = (
    "startup",
    "screen",
    "bootstrap",
    "bytes_per_token",
    "http_parse",
    "proxy_cost",
    "verdicts",
    "grid_report",
    "arms",
    "capture_cost",
    "http_recording",
)
"""Modules of this package. Those with an engine come last: they keep all cores busy."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m benchmarks"
    )
    add_effort(parser)
    parser.add_argument("--only", nargs="+", choices=BENCHES, metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all rows to this file")
    given = parser.parse_args()
    effort = ["--pairs", str(given.pairs), "--budget", str(given.budget), *["--quick"] * given.quick]
    found: list[Row] = []
    failed: list[str] = []
    for name in given.only or BENCHES:
        begun = time.monotonic()
        try:
            rows, sound = measured(name, [sys.executable, "-m", f"benchmarks.{name}", *effort])
        except KeyboardInterrupt:
            found.append(missing(name, "interrupted, and so were all after it"))
            failed.append(name)
            break
        found += rows
        failed += [] if sound else [name]
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    print(render(found))
    if given.json is not None:
        write(given.json, found)
    late = [row.what for row in found if row.missed]
    for said, names in (("failed", failed), ("beyond the target", late)):
        if names:
            print(f"{said}: {'; '.join(names)}", file=sys.stderr)
    sys.exit(bool(failed or late))


def measured(name: str, command: list[str]) -> tuple[list[Row], bool]:
    """The rows that a benchmark's process wrote, and whether it came to its end."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        ended = subprocess.run(
            [*command, "--json", str(file)], cwd=ROOT, stdout=subprocess.DEVNULL, check=False
        )
        if file.exists():
            return from_json(file.read_text(encoding="utf-8"), name), True
    return [missing(name, f"the benchmark failed with exit code {ended.returncode}")], False


if __name__ == "__main__":
    main()
