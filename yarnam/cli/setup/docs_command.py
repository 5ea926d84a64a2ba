"""``yarnam docs``: the pages of the documentation, as they were installed."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from yarnam.cli.options import json_option
from yarnam.cli.rendering.console import print_document, print_json, print_table
from yarnam.errors import UsageError

FOLDERS = (
    Path(__file__).resolve().parents[3] / "docs",
    Path(sys.prefix) / "share" / "doc" / "yarnam",
)
"""Where the pages are: in a clone, and where a wheel puts them."""
SECTIONS = ("start", "tutorial", "how-to", "troubleshoot", "explanation", "evidence", "reference")
"""Of two pages with one name the first one goes by it alone."""


@click.command("docs")
@click.argument("page", required=False)
@json_option
def command(page: str | None, as_json: bool) -> None:
    """Print a page of the documentation, or list all pages.

    PAGE is the name that a hint gives, such as kerberos.
    """
    found: dict[str, Path] = {}
    for path in _pages():
        key = path.stem if path.stem not in found else f"{path.parent.name}/{path.stem}"
        found[key] = path
    if page is None and as_json:
        print_json([{"page": name, "title": _title(path)} for name, path in found.items()])
        return
    if page is None:
        print_table(("PAGE", "TITLE"), [(name, _title(path)) for name, path in found.items()])
        return
    name = page if page in found else page.rpartition("/")[2].removesuffix(".md")
    if name not in found:
        close = difflib.get_close_matches(name, found, n=1)
        raise UsageError(
            f"there is no page {page}" if found else "this installation has no documentation",
            hint=f"Did you mean {close[0]}?" if close else "To list all pages: yarnam docs",
        )
    text = _ANCHOR.sub("", found[name].read_text(encoding="utf-8"))
    if as_json:
        print_json({"page": name, "text": text})
    else:
        print_document(text)


_ANCHOR = re.compile(r'<a id="[^"]*"></a>')
"""The places that a link leads to; a terminal has none."""


def _pages() -> Iterator[Path]:
    """Find the pages of the first folder that exists. No hint names an index."""
    for folder in FOLDERS:
        if folder.is_dir():
            for room in SECTIONS:
                yield from sorted(p for p in (folder / room).glob("*.md") if p.stem != "index")
            return


def _title(page: Path) -> str:
    with page.open(encoding="utf-8") as lines:
        return next((line[2:].strip() for line in lines if line.startswith("# ")), page.stem)
