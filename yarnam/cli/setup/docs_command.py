"""``yarnam docs``: the pages of the documentation, as they were installed."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from yarnam.cli.rendering.console import is_terminal, print_lines, print_table
from yarnam.errors import UsageError

FOLDERS = (
    Path(__file__).resolve().parents[3] / "docs",
    Path(sys.prefix) / "share" / "doc" / "yarnam",
)
"""Where the pages are: in a clone, and where a wheel puts them."""
ROOMS = ("start", "tutorial", "how-to", "troubleshoot", "explanation", "reference")
"""Of two pages with one name the first one goes by it alone."""


@click.command("docs")
@click.argument("page", required=False)
def command(page: str | None) -> None:
    """Print a page of the documentation, or list all pages.

    PAGE is the name that a hint gives, such as kerberos.
    """
    found: dict[str, Path] = {}
    for path in _pages():
        key = path.stem if path.stem not in found else f"{path.parent.name}/{path.stem}"
        found[key] = path
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
    text = found[name].read_text(encoding="utf-8")
    if is_terminal():
        click.echo_via_pager(text)
    else:
        print_lines(text.splitlines())


def _pages() -> Iterator[Path]:
    """Of the first folder that there is; an index goes by its folder's name in no hint."""
    for folder in FOLDERS:
        if folder.is_dir():
            for room in ROOMS:
                yield from sorted(p for p in (folder / room).glob("*.md") if p.stem != "index")
            return


def _title(page: Path) -> str:
    with page.open(encoding="utf-8") as lines:
        return next((line[2:].strip() for line in lines if line.startswith("# ")), page.stem)
