"""The renderer for a format's name."""

from __future__ import annotations

from stats.report.build import Built


def render(built: Built, output_format: str, width: int = 160, *, draw: bool = False) -> str:
    """The report as text in ``table``, ``md``, ``csv``, ``json``, ``latex`` or ``html``."""
    if output_format == "table":
        from stats.renderers.terminal import render_terminal

        text = render_terminal(built.report, width)
        return "\n\n".join([text.rstrip("\n"), *_drawn(built, min(width, 110))]) + "\n" if draw else text
    if output_format == "md":
        from stats.renderers.markdown import render_markdown

        return render_markdown(built.report)
    if output_format == "csv":
        from stats.renderers.csv import render_csv

        return render_csv(built.report)
    if output_format == "json":
        from stats.renderers.json import render_json

        return render_json(built.report)
    if output_format == "latex":
        from stats.renderers.latex import render_latex

        return render_latex(built.report)
    from stats.figures.all import all_figures
    from stats.renderers.figure_svg import render_svg
    from stats.renderers.html import render_html

    drawings = [(figure.caption, render_svg(figure)) for figure in all_figures(built)]
    return render_html(built.report, drawings)


def _drawn(built: Built, width: int) -> list[str]:
    from stats.figures.all import all_figures
    from stats.renderers.figure_text import render_text

    return [render_text(figure, width) for figure in all_figures(built)]
