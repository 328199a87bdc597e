"""What is never stored: secrets in URLs, headers, command lines and the environment.

Pure functions on text, used when an arm is described; the writer applies them again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit, urlunsplit

HIDDEN = "[scrubbed]"

_SECRET_NAME = re.compile(
    r"(api[-_]?key|auth|token$|secret|password|passwd|credential|cookie|bearer|private[-_]?key|access[-_]?key)",
    re.IGNORECASE,
)
_NOT_SECRET = re.compile(r"(max|min|num|n|new|context|batch|ubatch)[-_]?(new[-_]?)?tokens?$", re.IGNORECASE)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE)
_HEADER = re.compile(
    r"(?i)\b(authorization|proxy-authorization|cookie|set-cookie|x-api-key|api-key|x-auth-token)(\s*[:=]\s*)"
    r"((?:bearer|basic|digest)\s+)?[^\r\n'\"]+"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/_.=~-]{8,}")
_KNOWN_SECRETS = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|hf_[A-Za-z0-9]{20,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}|glpat-[A-Za-z0-9_-]{16,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_ASSIGNED = re.compile(
    r"(?i)([\"']?(?:api[-_]?key|secret|password|passwd|access[-_]?token|auth[-_]?token)[\"']?\s*[:=]\s*)"
    r"([\"']?)([^\s\"',}]{6,})"
)

_ENVIRONMENT = frozenset(
    {
        "VLLM_BATCH_INVARIANT",
        "VLLM_ATTENTION_BACKEND",
        "VLLM_USE_V1",
        "OMP_NUM_THREADS",
        "OMP_DYNAMIC",
        "OMP_PROC_BIND",
        "OMP_PLACES",
        "GOMP_CPU_AFFINITY",
        "KMP_AFFINITY",
        "MKL_NUM_THREADS",
        "MKL_CBWR",
        "MKL_DYNAMIC",
        "OPENBLAS_NUM_THREADS",
        "OPENBLAS_CORETYPE",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "CUBLAS_WORKSPACE_CONFIG",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_LAUNCH_BLOCKING",
        "CUDNN_DETERMINISTIC",
        "NVIDIA_TF32_OVERRIDE",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "SGLANG_ENABLE_DETERMINISTIC_INFERENCE",
    }
)
_ENVIRONMENT_PREFIXES = ("GGML_", "LLAMA_ARG_")


def scrub_url(url: str) -> str:
    """The URL without user info, query string and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if ":" in host:
            host = f"[{host}]"
        if parts.port is not None:
            host += f":{parts.port}"
    except ValueError:
        return HIDDEN  # not to be taken apart: nothing of it is safe to keep
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def scrub_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers without those that authorize or identify a session."""
    return {name: scrub_text(value) for name, value in headers.items() if not is_secret_name(name)}


def is_secret_name(name: str) -> bool:
    """Whether an option, header or variable of this name usually holds a secret."""
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET.search(name)


def scrub_text(text: str) -> str:
    """Text for a description: URLs without user info and query string, no likely secrets."""
    return hide_secrets(_URL.sub(lambda match: scrub_url(match.group()), text))


def scrub_arguments(arguments: Iterable[str]) -> list[str]:
    """A command line's arguments without values of secret options."""
    kept: list[str] = []
    hide_next = False
    for argument in arguments:
        if hide_next and not argument.startswith("--"):
            kept.append(HIDDEN)
            hide_next = False
            continue
        name, equals, _value = argument.partition("=")
        names_secret = is_secret_name(name) and (name.startswith("-") or bool(equals))
        hide_next = names_secret and not equals
        kept.append(f"{name}={HIDDEN}" if names_secret and equals else scrub_text(argument))
    return kept


def scrub_command(command: str) -> str:
    """A command line as one text, without secrets."""
    try:
        arguments = shlex.split(command)
    except ValueError:
        return scrub_text(command)  # unbalanced quotes: it is only text
    return scrub_text(shlex.join(scrub_arguments(arguments)))


def scrub_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Only the variables that can move a number."""
    return {
        name: scrub_text(value)
        for name, value in sorted(environment.items())
        if name in _ENVIRONMENT or name.startswith(_ENVIRONMENT_PREFIXES)
        if not is_secret_name(name)
    }


def secret_spans(text: str) -> list[tuple[int, int, str]]:
    """Likely secrets in any text as (start, end, kind), in order and without overlap."""
    found: list[tuple[int, int, str]] = []
    for match in _URL.finditer(text):
        user_info = _user_info(match.group())
        if user_info:
            start = match.start() + match.group().index("://") + 3
            found.append((start, start + len(user_info), "user info in a URL"))
    header = "authorization header or cookie"
    found += [(match.end(2), match.end(), header) for match in _HEADER.finditer(text)]
    found += [(match.end(1) + 1, match.end(), header) for match in _BEARER.finditer(text)]
    found += [(*match.span(), "key of a known form") for match in _KNOWN_SECRETS.finditer(text)]
    found += [(*match.span(3), "assigned password or key") for match in _ASSIGNED.finditer(text)]
    apart: list[tuple[int, int, str]] = []
    for start, end, kind in sorted(found):
        if text[start:end].startswith(HIDDEN):
            continue
        if apart and start < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]), apart[-1][2])
        else:
            apart.append((start, end, kind))
    return apart


def hide_secrets(text: str) -> str:
    """Text with likely secrets replaced; everything else stays as it is."""
    shown: list[str] = []
    at = 0
    for start, end, _ in secret_spans(text):
        shown += [text[at:start], HIDDEN]
        at = end
    return "".join((*shown, text[at:]))


def _user_info(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[0]
    except ValueError:
        return ""
