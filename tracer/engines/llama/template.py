"""The model's chat template, in Jinja's sandbox: a template is text from a stranger.

Settings (trimmed blocks, ``tojson`` without escapes, ``raise_exception``, ``strftime_now``, loop
controls, the ``generation`` tag) are those under which model makers test their templates.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tracer.episode import Message
from tracer.errors import UsageError


class _GenerationTag(jinja2.ext.Extension):
    """``{% generation %}`` only marks the assistant's part for training: its body is kept."""

    tags = {"generation"}  # noqa: RUF012  # the shape that Jinja asks for

    def parse(self, parser: jinja2.parser.Parser) -> Any:
        parser.stream.skip(1)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A compiled template. Raises ``UsageError`` when it does not compile or refuses a history."""

    def __init__(self, source: str, *, bos: str = "", eos: str = "", prefix: str = "") -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, "jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
        self._names = {"bos_token": bos, "eos_token": eos}
        self._prefix = prefix
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise UsageError(f"The model's chat template cannot be compiled ({error}).") from None

    def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None = None) -> str:
        """The text of the messages, ending in the generation prompt."""
        turns = [{"role": message.role, "content": message.content} for message in messages]
        try:
            text = self._template.render(
                messages=turns,
                tools=list(tools) if tools else None,
                add_generation_prompt=True,
                **self._names,
            )
        except Exception as error:  # noqa: BLE001  # a stranger's code may raise anything
            raise UsageError(f"The model's chat template refuses these messages ({error}).") from None
        return text if text.startswith(self._prefix) else self._prefix + text


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    allowed = {name: options[name] for name in ("separators", "sort_keys") if name in options}
    return json.dumps(value, ensure_ascii=bool(options.get("ensure_ascii", False)), indent=indent, **allowed)


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateRuntimeError(message)
