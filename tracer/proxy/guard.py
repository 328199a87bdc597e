"""Who may talk to the proxy: only clients that mean to, so that a web page cannot reach the engine."""

from __future__ import annotations

import ipaddress

LOCAL_NAMES = {"localhost", "host.docker.internal"}


def host_allowed(host_header: str | None, bound_host: str) -> bool:
    """Whether a Host header names this machine. A name that a stranger's DNS made point here does not."""
    name = _host_of(host_header or "")
    if not name:
        return False
    if name in LOCAL_NAMES or name == bound_host.strip("[]").lower():
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    # Bound to every address, the user chose to be reached by number; a name still has to be local.
    return address.is_loopback or bound_host in ("0.0.0.0", "::")  # noqa: S104  # compared, not bound


def origin_allowed(origin: str | None, bound_host: str) -> bool:
    """Browsers send Origin; programs do not. A page of this machine may, any other may not."""
    if origin is None:
        return True
    scheme, separator, rest = origin.partition("://")
    return bool(separator) and scheme in ("http", "https") and host_allowed(rest, bound_host)


def _host_of(header: str) -> str:
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if header.count(":") == 1 else header
