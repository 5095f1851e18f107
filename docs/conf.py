"""Configuration of the documentation site. `make docs` builds it offline and treats every warning
as an error."""

import tomllib
from pathlib import Path

_PROJECT = tomllib.loads(
    (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
)["project"]

project = "inferrun"
release = version = _PROJECT["version"]
project_copyright = "the inferrun authors, Apache-2.0"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True

# Headings down to the third level are link targets; a link to a missing page or heading is a
# warning.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

# Quotes and dashes stay as they are typed: options begin with two hyphens.
smartquotes = False

# Blocks without a language are commands and their output, not Python.
highlight_language = "text"

html_theme = "furo"
html_title = f"inferrun {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1d4ed8", "color-brand-content": "#1d4ed8"},
    "dark_css_variables": {"color-brand-primary": "#93c5fd", "color-brand-content": "#93c5fd"},
}
