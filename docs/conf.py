"""The site: `sphinx-build -W -b html docs site`."""

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "rankql"
copyright = "the rankql authors"
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
default_role = "code"
smartquotes = False
suppress_warnings = ["misc.highlighting_failure"]  # DuckDB's MAP {}
autodoc_typehints = "none"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = "rankql"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
copybutton_prompt_text = ">>> "
copybutton_only_copy_prompt_lines = True


def setup(app):
    """The Chinese page says that it is Chinese, so that browsers draw its glyphs."""

    def told(app, page, template, context, tree):
        if page == "zh":
            context["language"] = "zh-CN"

    app.connect("html-page-context", told)
