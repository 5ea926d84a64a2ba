"""Links between the pages, and from them to files of the repository, lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    path
    for path in [
        *ROOT.glob("*.md"),
        *ROOT.glob("changes/*.md"),
        *ROOT.glob("docs/**/*.md"),
        ROOT / "docs/llms.txt",
    ]
    if "_build" not in path.parts
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~|:::).*?^\1", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub and myst make of the headings."""
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-")
        for heading in HEADING.findall(prose(page))
    }


def links(page: Path) -> list[str]:
    return [
        target
        for target in LINK.findall(prose(page))
        if not target.startswith(("http://", "https://", "mailto:"))
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in links(page):
        name, _, anchor = target.partition("#")
        there = (page.parent / name) if name else page
        is_anchor_missing = anchor and there.suffix == ".md" and anchor not in anchors(there)
        if not there.exists() or is_anchor_missing:
            broken.append(target)
    assert not broken


def test_every_page_is_in_a_table_of_contents() -> None:
    """Sphinx says so too, but only when it is installed and run."""
    named = set()
    for page in (ROOT / "docs").rglob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                entry = re.sub(r"^.*<(.*)>$", r"\1", line.strip())
                if "*" in entry:
                    named |= {found.resolve() for found in page.parent.glob(f"{entry}.md")}
                elif entry and not entry.startswith(":"):
                    named.add((page.parent / entry).resolve().with_suffix(".md"))
    pages = {
        page.resolve()
        for page in (ROOT / "docs").rglob("*.md")
        if "_build" not in page.parts and "examples" not in page.parts
    }
    assert pages - named == {(ROOT / "docs" / "index.md").resolve()}
    assert named <= pages


def test_names_of_tests_stand_in_the_evidence_alone() -> None:
    """How a figure was had is for who doubts it, and on the pages of contributors."""
    contributors = {
        "architecture.md",
        "contribute.md",
        "extend.md",
        "first-change.md",
        "support.md",
    }
    pages = [
        page
        for page in PAGES
        if page.is_relative_to(ROOT / "docs")
        and not {"evidence", "adr", "examples"} & set(page.parts)
        and page.name not in contributors
    ]
    assert len(pages) > 60
    named = {page.name for page in pages if re.search(r"tests/\w+/|make bench", page.read_text())}
    assert named == set()
