"""The format that weights are computed in, where a server quantizes them while it loads them."""

from __future__ import annotations

import re

from tracer.episode import EngineInfo

_OFF = frozenset({"", "null", "none", "false", "auto"})
_OPTION = re.compile(r"(?:^|\s)(?:--quantization|-q)(?:=|\s+)(\S+)")

_SPELT_OUT = re.compile(r"^(I?Q\d_K) - (Small|Medium|Large)$")
"""As llama.cpp's server writes what its files call Q4_K_M."""


def effective_weight_format(info: EngineInfo) -> str | None:
    """The quantization that the server's settings or arguments name, else the described format.

    A server that is started with ``--quantization fp8`` still names the dtype of its activations.
    """
    said = info.flags.get("quantization", "")
    if said.lower() not in _OFF:
        return said
    given = _OPTION.search(info.flags.get("arguments", ""))
    if given is not None and given.group(1).lower() not in _OFF:
        return given.group(1)
    spelt = _SPELT_OUT.match(info.weight_format or "")
    return f"{spelt.group(1)}_{spelt.group(2)[0]}" if spelt is not None else info.weight_format
