"""Every figure that a report has something for."""

from __future__ import annotations

from stats.figures.figure import Figure
from stats.figures.positions import distributions_figure, flip_probability_figure, survival_figure
from stats.figures.rates import gradient_figure, layers_figure
from stats.report.build import Built, mechanism_of, near_tie_of
from stats.report.formats import format_families


def all_figures(built: Built) -> tuple[Figure, ...]:
    """Layers, gradient, survival, distributions, flip probability; those without anything are left out."""
    layers = next((table for table in built.report.tables if table.name == "layers"), None)
    mechanism = mechanism_of(built.series, built.names, near_tie_of(built.collection))
    found = (
        layers_figure(layers),
        gradient_figure(format_families(built.series)),
        survival_figure(built.series, built.names),
        distributions_figure(mechanism),
        flip_probability_figure(mechanism),
    )
    return tuple(figure for figure in found if figure is not None)
