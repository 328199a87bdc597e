"""From an open trace and a cursor to the frozen views that the panes draw."""
