"""What ``cachetrace import`` does with a file or folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replay.artifact_import.agent_traces import write_experiment
from replay.artifact_import.arm_folders import ArmFolder, arm_folders
from replay.artifact_import.plain_lines import write_plain
from replay.artifact_import.single_turn import single_turn_folders, write_single_turn
from tracer.errors import UsageError


class Imported(Struct, frozen=True, kw_only=True):
    """What was written, by experiment, and which logs were passed over."""

    written: dict[str, int]
    passed_over: tuple[str, ...]


def import_logs(source: Path, output: Path, *, anyway: bool = False) -> Imported:
    """The artifact's folders, or one plain JSON Lines file, as traces under ``output``."""
    if source.is_file():
        return Imported(written={source.name: len(write_plain(source, output))}, passed_over=())
    if not source.is_dir():
        raise UsageError(f"{source} does not exist; give a folder of the artifact or a JSON Lines file.")
    folders = list(arm_folders(source))
    single = list(single_turn_folders(source))
    if not folders and not single:
        raise UsageError(
            f"{source} holds no log in the artifact's layout (…/arm_on/raw_requests.jsonl[.gz] and so on)."
        )
    written: dict[str, int] = {}
    for name, members in experiments(folders).items():
        written[name] = len(write_experiment(name, members, output, anyway=anyway))
    for one in single:
        written[one.experiment] = len(write_single_turn(one, output, anyway=anyway))
    read = {folder.log for folder in folders} | {one.log for one in single}
    return Imported(written=written, passed_over=tuple(_passed_over(source, read)))


def experiments(folders: Sequence[ArmFolder]) -> dict[str, list[ArmFolder]]:
    """Arms that belong into one trace. October's cold references (B2) stand beside every warm order."""
    found: dict[str, list[ArmFolder]] = {}
    for folder in folders:
        found.setdefault(folder.experiment, []).append(folder)
    for name, members in list(found.items()):
        block, _, rest = name.partition("-")
        if block in ("B1", "B3"):
            label = rest.split("_")[0]
            members += [
                replace(cold, experiment=name, repeat=i, carry=members[0].carry)
                for i, cold in enumerate(c for o in (0, 1) for c in found.get(f"B2-{label}_order{o}", []))
            ]
            if block == "B1" and rest.endswith("_order0"):
                members += [
                    replace(again, experiment=name, repeat=1) for again in found.get(f"B1R-{rest}_rep", [])
                ]
    return found


def _passed_over(source: Path, read: set[Path]) -> list[str]:
    """Raw logs that lie in folders whose settings are not known here."""
    plain = {log.with_name(log.name.removesuffix(".gz")) for log in read}
    logs = {p.with_name(p.name.removesuffix(".gz")) for p in source.rglob("raw_requests.jsonl*")}
    return sorted(str(log) for log in logs - plain)
