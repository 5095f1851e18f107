"""The generated parts of the documentation: tables of fields, values, settings, labels and
commands.

`python -m tools.reference` writes them, `--check` compares them. Each module turns one kind of
source into rows; nothing is imported from a page, so the sources (models, chart, settings, command
line) remain the single definition.
"""
