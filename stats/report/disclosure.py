"""What the paper asks every result to disclose: engine, cache layers, sampling, order, hashes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stats.report.configuration import Key
from stats.report.courses import course_of
from stats.report.records import ArmRecord, EpisodeRecord
from stats.tables.basis import carry_word
from stats.tables.table import Cell, Column, Table
from tracer.engines.weight_format import effective_weight_format

MOST_VALUES = 4


def disclosure_table(episodes: Sequence[EpisodeRecord], names: Mapping[Key, str]) -> Table:
    """One block of rows a configuration; facts that nothing observed are shown as "–"."""
    by_key: dict[Key, list[EpisodeRecord]] = {}
    for episode in episodes:
        if episode.arms:
            by_key.setdefault(episode.arms[0].configuration, []).append(episode)
    rows: list[tuple[Cell, ...]] = []
    for key, group in by_key.items():
        rows += [(names[key], item, value) for item, value in _facts(group)]
    return Table(
        name="disclosure",
        title="Disclosure",
        columns=(
            Column(key="configuration", title="configuration", common=True),
            Column(key="item", title="item"),
            Column(key="value", title="value"),
        ),
        rows=tuple(rows),
        basis="As the traces say; “–” was not observed.",
    )


def _facts(group: Sequence[EpisodeRecord]) -> Iterator[tuple[str, str | None]]:
    arms = [record for episode in group for record in episode.arms]
    engines = [record.arm.engine for record in arms]
    yield "engine", _joined(_version(e.engine, e.version, e.build) for e in engines)
    yield "model", _joined(e.model_name for e in engines)
    yield "model hash", _joined(e.model_hash for e in engines)
    yield "weight format", _joined(map(effective_weight_format, engines))
    yield "KV cache types", _joined(_slashed(e.kv_type_k, e.kv_type_v) for e in engines)
    yield "device", _joined(_slashed(e.device, e.device_features) for e in engines)
    yield "context", _joined(e.context_tokens for e in engines)
    yield "threads / for prompts", _joined(_slashed(e.threads, e.threads_batch) for e in engines)
    yield "batch / ubatch", _joined(_slashed(e.batch_tokens, e.ubatch_tokens) for e in engines)
    yield "flash attention", _joined(e.flash_attention for e in engines)
    for label, records in _by_state(arms).items():
        yield f"cache layers, {label}", _joined(map(_layers, records))
        yield f"cached tokens, {label}", _exposure(records)
    yield "flags", _joined(f"{k}={v}" for e in engines for k, v in sorted(e.flags.items()))
    yield "sampling", _joined(record.arm.sampling.described for record in arms)
    yield "order of episodes", _order(group)
    yield "workload", _joined(_workload(e) for e in group)
    if (notes := _joined(e.episode.workload.note for e in group)) is not None:
        yield "about the workload", notes
    yield "workload data", _data(group)
    if (isolation := _isolation(arms)) is not None:
        yield "isolation of tools", isolation
    yield "chat template", _joined(e.template_hash for e in engines)
    yield "environment", _joined(f"{k}={v}" for r in arms for k, v in sorted(r.arm.environment.items()))
    yield "written by", _joined(e.episode.writer for e in group)
    yield "recorded with", _joined(r.arm.command for r in arms)
    yield "prompts", _prompts(arms)
    yield "tokens compared by", _joined(str(i) for r in arms for i in r.facts.identities)


def _joined(values: Iterable[object]) -> str | None:
    """The different values in the order met, or how many there are when they are many."""
    distinct = [str(v) for v in dict.fromkeys(values) if v is not None]
    if not distinct:
        return None
    if len(distinct) > MOST_VALUES:
        return f"{'; '.join(distinct[:MOST_VALUES])}; and {len(distinct) - MOST_VALUES} more"
    return "; ".join(distinct)


def _version(engine: str, version: str | None, build: str | None) -> str:
    return " ".join(part for part in (engine, version, f"({build})" if build else None) if part)


def _slashed(first: object, second: object) -> str | None:
    if first is None and second is None:
        return None
    return f"{'–' if first is None else first} / {'–' if second is None else second}"


def _by_state(arms: Sequence[ArmRecord]) -> dict[str, list[ArmRecord]]:
    found: dict[str, list[ArmRecord]] = {}
    for record in arms:
        found.setdefault(str(record.arm.state), []).append(record)
    return found


def _layers(record: ArmRecord) -> str:
    engine = record.arm.engine
    prefix = {None: "–", True: "on", False: "off"}[engine.prefix_cache]
    if engine.prompt_cache_bytes is None:
        second = "–"
    else:
        second = f"on, {engine.prompt_cache_bytes} bytes" if engine.prompt_cache_bytes else "off"
    return f"prefix cache {prefix}; prompt cache {second}; priming {record.arm.priming}"


def _exposure(records: Sequence[ArmRecord]) -> str | None:
    """Share of prompt tokens that a cache served, over the arms that report it."""
    seen = [r.facts for r in records if r.facts.cached_tokens is not None and r.facts.prompt_tokens]
    if not seen:
        return None
    cached = sum(f.cached_tokens or 0 for f in seen)
    prompt = sum(f.prompt_tokens or 0 for f in seen)
    classes = _joined(str(r.assessment.evidence_class) for r in records)
    return f"{cached} of {prompt} prompt tokens ({100 * cached / prompt:.1f} %), {classes}"


def _order(group: Sequence[EpisodeRecord]) -> str:
    kept = _joined(carry_word(record.arm.place.carry) for episode in group for record in episode.arms)
    ordered = sorted(group, key=lambda e: (e.arms[0].arm.place.position if e.arms else 0, e.started_at))
    ids = list(dict.fromkeys(episode.episode.episode_id for episode in ordered))
    listed = ", ".join(ids[:MOST_VALUES]) + (f", … ({len(ids)} episodes)" if len(ids) > MOST_VALUES else "")
    return f"{kept}; {listed}"


def _workload(episode: EpisodeRecord) -> str:
    spec = episode.episode.workload
    version = f" {spec.version}" if spec.version else ""
    return f"{spec.name}{version}, history {spec.history}, agent {spec.agent}"


def _data(group: Sequence[EpisodeRecord]) -> str | None:
    """Hashes and versions among the workloads' parameters; the tasks themselves stay in the trace.

    Each by its name, what all episodes share once: a hash of each conversation must not hide their file's.
    """
    telling: dict[str, list[str]] = {}
    for episode in group:
        for name, value in episode.episode.workload.params.items():
            if _tells(name):
                telling.setdefault(name, []).append(_json({name: value}))
    shared_first = sorted(telling, key=lambda name: (len(set(telling[name])), name))
    return _joined(_joined(telling[name]) for name in shared_first)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, default=str)


def _isolation(arms: Sequence[ArmRecord]) -> str | None:
    """What kept the tools apart from the machine, as the outcomes store it."""
    courses = [course for record in arms if (course := course_of(record)) is not None]
    return _joined(", ".join(f"{name}: {said}" for name, said in c.isolation) or None for c in courses)


def _tells(name: str) -> bool:
    return any(word in name.lower() for word in ("hash", "sha256", "version", "package", "commit"))


def _prompts(arms: Sequence[ArmRecord]) -> str:
    missing = sum(r.facts.prompt_not_stored for r in arms)
    whole = sum(r.facts.requests for r in arms)
    if not missing:
        return "stored as token ids; the trace can be replayed"
    return f"not stored for {missing} of {whole} requests; these compare and count but do not replay"
