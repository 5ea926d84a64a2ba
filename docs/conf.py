"""Sphinx configuration. Built with ``make docs``; warnings are errors."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from pygments.lexers.special import TextLexer  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402
from sphinx.highlighting import lexers  # noqa: E402

from yarnam import __version__  # noqa: E402

project = "yarnam"
author = "the yarnam authors"
copyright = "2026, the yarnam authors"  # noqa: A001
release = version = __version__

extensions = [
    *("myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"),
    "glossary_links",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "examples"]
nitpicky = False
# Options keep their two hyphens: `--watch` is not a dash.
smartquotes = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
# Links to files of the repository are checked by tests/unit/docs/test_links.py.
# Errors of the two packages share names; a docstring names those of its own package.
suppress_warnings = ["myst.xref_missing", "ref.python"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"

html_theme = "furo"
html_extra_path = ["llms.txt"]
html_static_path = ["static"]
html_css_files = ["words.css"]
html_title = f"yarnam {__version__}"


def without_search(app: Sphinx, _doctree: object) -> None:
    """Decisions are for contributors: who searches for a symptom does not want them."""
    if app.env.docname.startswith("adr/"):
        app.env.metadata[app.env.docname]["nosearch"] = "true"


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", without_search)


# The state chart is drawn where mermaid is known (code hosts do); here its source is shown.
lexers["mermaid"] = TextLexer()
