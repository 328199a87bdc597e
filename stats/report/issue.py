"""A bug report in Markdown, ready to paste: environment, configuration, commands, table, the flip."""

from __future__ import annotations

from stats.renderers.cells import cell_text
from stats.renderers.markdown import table_markdown
from stats.report.build import Built
from stats.tables.flips import all_flips, exposure_text
from tracer.clean_text import markdown, markdown_code, number
from tracer.episode import Exposure


def render_issue(built: Built, command: str) -> str:
    """What a maintainer asks for first, in that order; nothing that was not observed."""
    blocks = ["### What happens", _what_happens(built)]
    blocks += ["### The flip", _first_flip(built)]
    blocks += ["### Environment and effective configuration", _configuration(built)]
    wanted = ("rates", "verdicts", "not_counted", "pairs_not_counted")
    tables = [table for table in built.report.tables if table.name in wanted and table.rows]
    blocks.append("### Measured")
    blocks += [table_markdown(table, level=4) for table in tables]
    blocks += ["### How to repeat it", _commands(built, command)]
    return "\n\n".join(blocks) + "\n"


def _what_happens(built: Built) -> str:
    return "\n".join(f"- {markdown(sentence)}" for sentence in built.report.summary)


def _first_flip(built: Built) -> str:
    found = next(iter(all_flips(built.collection.episodes)), None)
    if found is None:
        return "No token flipped between the arms that were compared."
    episode, comparison, request = found
    flip = request.flip
    assert flip is not None
    a, b = episode.arms[comparison.baseline].arm, episode.arms[comparison.arm].arm
    facts = [
        f"episode {markdown_code(episode.episode.episode_id)}, request {request.request}, output token "
        f"{flip.position} (both count from 0), {markdown_code(a.label)} against {markdown_code(b.label)}",
        f"margin {number(flip.a.margin)} in {markdown_code(a.label)}, {number(flip.b.margin)} in "
        f"{markdown_code(b.label)}; drift {number(flip.drift_at)} (natural-log units)",
        f"cached of prompt tokens: {exposure_text(request.exposure_a, request.exposure_b)} "
        f"({_sources(request.exposure_a, request.exposure_b)})",
        f"triage: {flip.triage}" + (f" ({markdown(flip.triage_reason)})" if flip.triage_reason else ""),
    ]
    if request.attribution_reason:
        facts.append(f"attributable: {markdown(request.attribution_reason)}")
    said = f"> {markdown(flip.sentence)}.\n\n" if flip.sentence else ""
    return said + "\n".join(f"- {fact}" for fact in facts)


def _sources(a: Exposure | None, b: Exposure | None) -> str:
    return " / ".join("–" if e is None else f"counted by: {e.source}" for e in (a, b))


def _configuration(built: Built) -> str:
    table = built.report.disclosure
    if table is None:
        return "–"
    lines = []
    for row in table.rows:
        configuration, item, value = (
            cell_text(cell, column) for cell, column in zip(row, table.columns, strict=True)
        )
        if value != "–":
            several = len(built.names) > 1
            name = f"{markdown(configuration)}, {markdown(item)}" if several else markdown(item)
            lines.append(f"- {name}: {markdown_code(value)}")
    return "\n".join(lines)


def _commands(built: Built, command: str) -> str:
    recorded = dict.fromkeys(
        record.arm.command
        for episode in built.collection.episodes
        for record in episode.arms
        if record.arm.command
    )
    said = [*recorded, command]
    return "\n".join(f"- {markdown_code(one)}" for one in said)
