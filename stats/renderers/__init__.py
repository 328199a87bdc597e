"""A report as text: terminal, Markdown, CSV, JSON, LaTeX, HTML, JUnit. They show, they compute nothing."""
