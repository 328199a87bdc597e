"""Facts of a model folder on this machine: what its files say, and a hash of its weights."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LARGEST_CONFIG = 1 << 24


@dataclass(frozen=True, slots=True)
class FolderFacts:
    """None = the folder does not say."""

    model_hash: str | None = None
    model_bytes: int | None = None
    template_hash: str | None = None
    architecture: str | None = None
    dtype: str | None = None
    vocabulary_tokens: int | None = None


def folder_facts(folder: Path) -> FolderFacts:
    """Read the configuration and hash the weights (remembered by file, size and time)."""
    from tracer.engines.llama.model import file_sha256

    config = _json(folder / "config.json")
    weights = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
    hashes = [file_sha256(path) for path in weights]
    if len(hashes) > 1:
        named = "\n".join(f"{path.name} {digest}" for path, digest in zip(weights, hashes, strict=True))
        hashes = [hashlib.sha256(named.encode()).hexdigest()]
    kinds = config.get("architectures")
    vocabulary = config.get("vocab_size")
    dtype = config.get("dtype") or config.get("torch_dtype")
    return FolderFacts(
        model_hash=f"sha256:{hashes[0]}" if hashes else None,
        model_bytes=sum(path.stat().st_size for path in weights) if weights else None,
        template_hash=_template_hash(folder),
        architecture=kinds[0] if isinstance(kinds, list) and kinds and isinstance(kinds[0], str) else None,
        dtype=dtype if isinstance(dtype, str) else None,
        vocabulary_tokens=vocabulary if isinstance(vocabulary, int) else None,
    )


def _template_hash(folder: Path) -> str | None:
    path = folder / "chat_template.jinja"
    template = path.read_text("utf-8", "replace") if path.is_file() else None
    if template is None:
        said = _json(folder / "tokenizer_config.json").get("chat_template")
        template = said if isinstance(said, str) else None
    return None if template is None else f"sha256:{hashlib.sha256(template.encode()).hexdigest()}"


def _json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST_CONFIG:
            return {}
        parsed = json.loads(path.read_text("utf-8", "replace"))
    except (OSError, ValueError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
