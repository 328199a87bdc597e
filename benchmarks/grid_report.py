"""Report over the paper's grid: 10 configurations × 80 episodes × 4 arms of 10 requests of 100 tokens.

    python benchmarks/grid_report.py [--episodes 80] [--configurations 10] [--keep DIR]

The traces are synthetic and are made first (not timed). The report then runs in a process of its own,
path columns only. Printed are its wall time, the processor time of all its processes together (which is
what stays comparable on a busy machine), and the peak memory of the largest of its processes: they share
the reading out and are not added up. Targets: under 3 s and 400 MB.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.synthetic import ArmSpec, write_trace  # noqa: E402  # beside this folder, not installed

TARGET_S, TARGET_MB = 3.0, 400.0


def make(folder: Path, configurations: int, episodes: int) -> None:
    """One trace a configuration and episode; about half of the episodes flip."""
    for c in range(configurations):
        engine = {
            "model_name": f"model-{c // 4}",
            "weight_format": ("F16", "Q8_0", "Q4_K_M", "Q3_K_M")[c % 4],
        }
        engine["model_hash"] = f"sha256:{c:064x}"
        for e in range(episodes):
            flips = {3: 20} if (e + c) % 2 else {}
            warm = {"state": "warm", "drift": 1e-3, "flips": flips}
            write_trace(
                folder / f"c{c}-e{e:03}.msgpack",
                requests=10,
                tokens=100,
                k=4,
                seed=1000 * c + e,
                episode_id=f"episode-{e}",
                run_id=f"run-{c}",
                run_position=e,
                engine=engine,
                with_pieces=False,
                arms=[ArmSpec(), ArmSpec(repeat=1, way="fixed"), ArmSpec(**warm), ArmSpec(**warm, repeat=1)],
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--episodes", type=int, default=80)
    parser.add_argument("--configurations", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="Make the traces here and keep them; used again if there.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.glob("*.msgpack")):
            make(folder, options.configurations, options.episodes)
        seconds, processor, megabytes, text = timed(folder)
    arms = 4 * options.configurations * options.episodes
    print(text.splitlines()[1])
    print(
        f"{arms} arms of 10 requests of 100 tokens: {seconds:.2f} s, {processor:.2f} s of processor time, "
        f"{megabytes:.0f} MB in the largest process"
    )
    if arms == 3200 and (seconds > TARGET_S or megabytes > TARGET_MB):
        raise SystemExit(f"beyond the target of {TARGET_S:.0f} s and {TARGET_MB:.0f} MB")


def timed(folder: Path) -> tuple[float, float, float, str]:
    """Wall seconds, processor seconds, peak resident megabytes of the largest process, and the output."""
    command = [sys.executable, str(ROOT / "cachetrace.py"), "report", str(folder)]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        text = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if child.returncode != 0:
        raise SystemExit(f"the report ended with {child.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text


if __name__ == "__main__":
    main()
