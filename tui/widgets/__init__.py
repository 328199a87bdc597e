"""The panes. Each is given a frozen view of the trace, draws it, and posts messages."""
