"""Writing a copy of a trace without likely secrets and without recorded bodies.

Tokens spell text, so hiding text alone would hide nothing: tokens that spell a secret are
replaced by ``HIDDEN_ID``, in prompts and outputs, and their alternatives are dropped. Equal
prompts stay equal, so comparisons between arms still hold; the copy cannot be replayed. Prompt
tokens whose bytes the file does not hold are hidden as well, since nobody can check them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from tracer.columns import Alternatives, PathColumns, PositionFlag
from tracer.episode import Request
from tracer.errors import TraceFormatError
from tracer.tracefile.reader import TraceReader
from tracer.tracefile.scrub import hide_secrets, secret_spans
from tracer.tracefile.secrets_in_trace import token_secret_spans
from tracer.tracefile.writer import TraceWriter

HIDDEN_ID = -1
REDACTED_NOTE = "redacted"
"""Key in ``Episode.notes`` of a redacted copy."""

_S = TypeVar("_S", bound=Struct)


def redact(source: Path | str, target: Path | str) -> int:
    """Write the redacted copy; the answer is how many tokens were hidden.

    ``TraceFormatError`` when the source is damaged anywhere else than at its end.
    """
    hidden = 0
    with TraceReader.open(source) as trace:
        damage = [loss for loss in trace.check() if not loss.at_end]
        if damage:
            raise TraceFormatError(f"{source} is damaged and is not rewritten ({damage[0].sentence})")
        notes = {**trace.episode.notes, REDACTED_NOTE: "likely secrets and recorded bodies were removed"}
        episode = structs.replace(_without_secrets(trace.episode), notes=notes)
        with TraceWriter.create(target, episode) as writer:
            for arm in trace.arms:
                writer.begin_arm(_without_secrets(arm))
                for request in trace.requests(arm):
                    hidden += _copy_request(trace, writer, arm.index, request)
                end = trace.end(arm)
                if end is not None:
                    writer.end_arm(arm.index, _without_secrets(end))
    return hidden


def _copy_request(trace: TraceReader, writer: TraceWriter, arm: int, request: Request) -> int:
    i = request.index
    prompt, hidden_prompt = _hide_tokens(trace, trace.prompt_ids(arm, i), hide_unknown=True)
    path = trace.path(arm, i) if trace.has_path(arm, i) else None
    table = trace.alternatives(arm, i)
    rows = trace.rows(arm, i)
    hidden_output = np.zeros(0, np.bool_)
    if path is not None:
        # An output's text is stored beside it, so tokens of unknown bytes matter only if it has one.
        has_secret = bool(secret_spans(request.text))
        ids, hidden_output = _hide_tokens(trace, path.token_ids, hide_unknown=has_secret)
        assert ids is not None
        path = _with_hidden(path, ids, hidden_output)
        table = _without_alternatives(table, hidden_output)
        if rows is not None and hidden_output.any():
            rows = np.where(hidden_output[:, None], np.float32(np.nan), rows)
    writer.write_request(
        arm,
        structs.replace(_without_secrets(request), http_body=None),
        prompt_ids=prompt,
        path=path,
        alternatives=table,
        rows=rows,
        pieces=_pieces(trace, prompt, path, table),
    )
    return int(hidden_prompt.sum()) + int(hidden_output.sum())


def _hide_tokens(
    trace: TraceReader, ids: NDArray[np.int32] | None, *, hide_unknown: bool
) -> tuple[NDArray[np.int32] | None, NDArray[np.bool_]]:
    if ids is None:
        return None, np.zeros(0, np.bool_)
    hidden = np.zeros(len(ids), np.bool_)
    for start, end, _ in token_secret_spans(trace, ids):
        hidden[start:end] = True
    if hide_unknown:
        hidden |= np.array([trace.piece(token) is None for token in ids.tolist()], np.bool_)
    return np.where(hidden, np.int32(HIDDEN_ID), ids), hidden


def _with_hidden(path: PathColumns, ids: NDArray[np.int32], hidden: NDArray[np.bool_]) -> PathColumns:
    keep = np.uint8(0xFF ^ PositionFlag.ALTERNATIVES)
    flags = np.where(hidden, path.flags & keep, path.flags)
    return PathColumns(ids, flags, path.chosen_values, path.log_sum_exp, path.fingerprints)


def _without_alternatives(table: Alternatives | None, hidden: NDArray[np.bool_]) -> Alternatives | None:
    if table is None or not hidden.any():
        return table
    column = hidden[:, None]
    return Alternatives(
        np.where(column, np.int32(HIDDEN_ID), table.ids),
        np.where(column, np.float32(0), table.values),
        np.where(hidden, np.uint8(0), table.counts),
    )


def _pieces(
    trace: TraceReader, prompt: NDArray[np.int32] | None, path: PathColumns | None, table: Alternatives | None
) -> dict[int, bytes]:
    used = [ids for ids in (prompt, path.token_ids if path is not None else None) if ids is not None]
    if table is not None:
        used.append(table.ids.ravel())
    wanted = np.unique(np.concatenate(used)).tolist() if used else []
    found = {token: trace.piece(token) for token in wanted}
    return {token: piece for token, piece in found.items() if piece is not None}


def _without_secrets(described: _S) -> _S:
    plain = msgspec.to_builtins(described, builtin_types=(bytes,))
    return msgspec.convert(_hidden(plain), type(described))


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return hide_secrets(value)
    if isinstance(value, dict):
        return {_hidden(name): _hidden(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(inner) for inner in value]
    return value
