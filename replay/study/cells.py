"""What a study expands to: cells, each one engine configuration over one range of episodes.

A cell runs all states and repeats of its episodes and writes their files; cells share nothing but
the folder of made models, so any scheduler may spread them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from replay.study.episode_range import positions
from replay.study.study_file import CANONICAL, ArmsTable, EngineTable, SamplingTable, Study, WorkloadTable
from tracer.errors import UsageError
from tracer.workloads.fetched_file import sha256_of

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class CellModel(Struct, frozen=True, kw_only=True):
    """The weight file of one cell; ``weight_format`` is made from it, None = the file as it is."""

    path: str
    name: str
    weight_format: str | None = None


class Cell(Struct, frozen=True, kw_only=True):
    """One cell. Plain values only: its process gets it as JSON."""

    cell_id: str
    study: str
    folder: str
    """Where relative paths of the study start."""
    workload: WorkloadTable
    model: CellModel | None
    """None: the engine serves what it serves."""
    engine: EngineTable
    arms: ArmsTable
    order: str = CANONICAL
    """``canonical``, or the seed of a random order, as text."""
    episodes: tuple[int, ...] | None = None
    """Positions in the workload's order; None = all."""
    sampling: SamplingTable
    data_sha256: str | None = None
    """Hex SHA-256 of the workload's file when the study was read; None without one."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides what this cell runs; the folder is not part of it."""
        portable = msgspec.structs.replace(self, folder="")
        return hashlib.sha256(msgspec.json.encode(portable, order="deterministic")).hexdigest()


def cells_of(study: Study) -> tuple[Cell, ...]:
    """All cells in the order in which ``study run`` runs them.

    Raises ``UsageError`` for none, and when the workload's file cannot be read.
    """
    cells = tuple(_expand(study))
    if not cells:
        raise UsageError(
            f"the study {study.name} names no model; give one or more with --model, or add [[model]] to it."
        )
    ids = [cell.cell_id for cell in cells]
    twice = next((cell_id for cell_id in ids if ids.count(cell_id) > 1), None)
    if twice is not None:
        raise UsageError(f"two cells of the study would be called {twice}; give the models a name each.")
    return cells


def cell_named(cells: tuple[Cell, ...], cell_id: str) -> Cell:
    """The cell with this id. Raises ``UsageError`` when there is none."""
    for cell in cells:
        if cell.cell_id == cell_id:
            return cell
    raise UsageError(f"there is no cell {cell_id!r}; `cachetrace study list` names them.")


def check_data(cell: Cell) -> None:
    """Raise ``UsageError`` if the workload's file has changed since the study was read."""
    now = _data_sha256(cell.workload, cell.folder)
    if now != cell.data_sha256:
        raise UsageError(
            f"the file {cell.workload.file} of the workload was changed while the study ran (sha256 {now} in "
            f"place of {cell.data_sha256}); put it back, or run the study into another folder."
        )


def _data_sha256(workload: WorkloadTable, folder: str) -> str | None:
    """Hex SHA-256 of the workload's file, None without one. Raises ``UsageError`` if it cannot be read."""
    if workload.file is None:
        return None
    path = Path(folder) / workload.file
    try:
        return sha256_of(path)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"the workload's file {path} cannot be read ({why}); its path starts at the study file."
        ) from error


def _expand(study: Study) -> Iterator[Cell]:
    data_sha256 = _data_sha256(study.workload, study.folder)
    for model in _models(study):
        for engine in study.engines:
            for arms in study.arms:
                for order in arms.orders:
                    for chunk in _chunks(study.workload):
                        yield Cell(
                            cell_id=_cell_id(study, model, engine, arms, str(order), chunk),
                            study=study.name,
                            folder=study.folder,
                            workload=study.workload,
                            model=model,
                            engine=engine,
                            arms=arms,
                            order=str(order),
                            episodes=chunk,
                            sampling=study.sampling,
                            data_sha256=data_sha256,
                        )


def _models(study: Study) -> list[CellModel | None]:
    if not study.models and all(e.url or e.model or e.engine == "fake" for e in study.engines):
        return [None]
    return [
        CellModel(path=model.path, name=model.name or _stem(model.path), weight_format=weight_format)
        for model in study.models
        for weight_format in model.formats or (None,)
    ]


def _chunks(workload: WorkloadTable) -> list[tuple[int, ...] | None]:
    if workload.episodes is None:
        return [None]
    chosen = positions(workload.episodes)
    size = workload.episodes_per_cell or len(chosen)
    return [chosen[start : start + size] for start in range(0, len(chosen), size)]


def _cell_id(
    study: Study,
    model: CellModel | None,
    engine: EngineTable,
    arms: ArmsTable,
    order: str,
    chunk: tuple[int, ...] | None,
) -> str:
    """Short: only what differs between the cells of this study is in the name."""
    parts = [] if model is None else [model.name, *([model.weight_format] if model.weight_format else [])]
    if len(study.engines) > 1 or not parts:
        parts.append(engine.name or engine.engine)
    if len(study.arms) > 1:
        parts.append(arms.name or "arms")
    if len(arms.orders) > 1:
        parts.append(order if order == CANONICAL else f"order{order}")
    if study.workload.episodes_per_cell and chunk:
        parts.append(f"e{chunk[0]}-{chunk[-1]}")
    return _UNSAFE.sub("_", ".".join(parts))


def _stem(path: str) -> str:
    return _UNSAFE.sub("_", re.split(r"[/\\]", path)[-1].removesuffix(".gguf")) or "model"
