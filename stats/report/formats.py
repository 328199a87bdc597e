"""Weight formats in order of precision, and the series that differ in nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from stats.report.configuration import Key, model_without_format, nominal_bits
from stats.report.series import EpisodePair, Series
from tracer.episode import Carry

_MODEL = 2
_WEIGHT_FORMAT = 3
_MODEL_HASH = 4
_MODEL_BYTES = 5
"""Places in a configuration key that another weight format changes."""


class FormatFamily(Struct, frozen=True, kw_only=True):
    """Series of one engine, model, workload and pair of arms, coarsest format last."""

    label: str
    formats: tuple[str, ...]
    scores: tuple[int, ...]
    """Steps down from the finest format; formats of equal nominal bits share a score."""
    series: tuple[Series, ...]
    carry: Carry

    def joined(self) -> tuple[tuple[str, ...], list[list[bool]]]:
        """Episodes that count in EVERY format, and whether they differ: bool[episodes][formats]."""
        by_episode = [{pair.episode_id: pair for pair in one.counted} for one in self.series]
        common = [pair.episode_id for pair in self.series[0].counted if _in_all(pair, by_episode)]
        return tuple(common), [[bool(found[e].differs) for found in by_episode] for e in common]


def _in_all(pair: EpisodePair, by_episode: Sequence[dict[str, EpisodePair]]) -> bool:
    return all(pair.episode_id in found for found in by_episode)


def format_families(series: Sequence[Series]) -> tuple[FormatFamily, ...]:
    """Families with at least two weight formats of different nominal bits."""
    gathered: dict[tuple[object, ...], list[Series]] = {}
    for one in series:
        if one.counted and one.key.run == 0:
            gathered.setdefault(_sameness(one), []).append(one)
    families = []
    for members in gathered.values():
        known = [(bits, one) for one in members if (bits := _bits_of(one)) is not None]
        distinct = sorted({bits for bits, _ in known}, reverse=True)
        if len(distinct) < 2:
            continue
        known.sort(key=lambda item: (-item[0], item[1].key.configuration[_WEIGHT_FORMAT] or ""))
        ordered = [one for _, one in known]
        key = ordered[0].key
        families.append(
            FormatFamily(
                label=f"{_model_of(key.configuration)}, {key.workload}, {key.baseline} vs {key.arm}",
                formats=tuple(one.key.configuration[_WEIGHT_FORMAT] or "" for one in ordered),
                scores=tuple(distinct.index(bits) for bits, _ in known),
                series=tuple(ordered),
                carry=key.carry,
            )
        )
    return tuple(families)


def _sameness(one: Series) -> tuple[object, ...]:
    left_out = (_MODEL, _WEIGHT_FORMAT, _MODEL_HASH, _MODEL_BYTES)
    engine = tuple(v for i, v in enumerate(one.key.configuration) if i not in left_out)
    key = one.key
    model = model_without_format(key.configuration[_MODEL], key.configuration[_WEIGHT_FORMAT])
    return (engine, model, key.workload, key.baseline, key.arm, key.way, key.carry, key.control)


def _bits_of(one: Series) -> int | None:
    weight_format = one.key.configuration[_WEIGHT_FORMAT]
    return nominal_bits(weight_format) if weight_format else None


def _model_of(key: Key) -> str:
    engine, version = key[:2]
    model = model_without_format(key[_MODEL], key[_WEIGHT_FORMAT])
    return " · ".join(part for part in (f"{engine} {version}" if version else engine, model) if part)
