"""Engines: one adapter each, behind the protocol in ``base``."""
