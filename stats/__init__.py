"""Counting: intervals, tests, mechanism, tables and their renderings. Only reads arms."""
