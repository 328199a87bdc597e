"""Figures as plain records; ``stats.renderers`` draws them as SVG, PNG and text."""
