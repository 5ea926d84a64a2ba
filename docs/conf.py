"""Sphinx configuration. Built with ``make docs``; warnings are errors."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from pygments.lexers.special import TextLexer  # noqa: E402
from sphinx.highlighting import lexers  # noqa: E402

from yarnam import __version__  # noqa: E402

project = "yarnam"
author = "the yarnam authors"
copyright = "2026, the yarnam authors"  # noqa: A001
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "examples"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
# Links to files of the repository are checked by tests/unit/docs/test_links.py.
suppress_warnings = ["myst.xref_missing"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"yarnam {__version__}"

# The state chart is drawn where mermaid is known (code hosts do); here its source is shown.
lexers["mermaid"] = TextLexer()
