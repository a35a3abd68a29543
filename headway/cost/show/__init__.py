"""A cost sheet as people and programs read it: text, Markdown, LaTeX, CSV, JSON, HTML, formulas, plots.

`report` makes tables of a sheet (or of several, side by side), and every format prints the same tables.
"""
