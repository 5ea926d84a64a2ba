"""The modules that docs/reference/public-api.md lists exist, and the pages import no others."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re

import pytest

from tests.unit.docs.pages import ROOT, Block, blocks

PAGE = ROOT / "docs" / "reference" / "public-api.md"
PUBLIC = set(re.findall(r"^\| `((?:yarnam|hdfs_utils)[\w.]*)` \|", PAGE.read_text(), re.MULTILINE))
FOR_CONTRIBUTORS = {"CONTRIBUTING.md", "extend.md"}
"""Pages about changing yarnam itself."""
SHOWN = [block for block in blocks("python", "pycon") if block.page.name not in FOR_CONTRIBUTORS]


def imports(source: str) -> list[tuple[str, str]]:
    """Module and name of each import of ours; the name is empty for ``import module``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module or "", alias.name) for alias in node.names]
    return [pair for pair in found if pair[0].partition(".")[0] in ("yarnam", "hdfs_utils")]


def source_of(block: Block) -> str:
    if block.language == "python":
        return block.text
    lines = re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", block.text, re.MULTILINE)
    return "\n".join(lines)


def is_public(module: str, name: str) -> bool:
    if f"{module}.{name}" in PUBLIC:
        return True
    exported = getattr(importlib.import_module(module), "__all__", None) if name else None
    return module in PUBLIC and (exported is None or name in exported)


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_a_public_module_exists(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


def test_each_has_every_name_in_the_reference() -> None:
    pages = "".join(page.read_text() for page in (PAGE.parent / "api").glob("*.md"))
    assert sorted(re.findall(r"automodule:: (.+)", pages)) == sorted(PUBLIC)


def test_the_pages_import_public_modules_only() -> None:
    found = {f"{block}: {pair}" for block in SHOWN for pair in imports(source_of(block))}
    assert len(found) > 20
    hidden = {text for text in found if not is_public(*ast.literal_eval(text.split(": ", 1)[1]))}
    assert hidden == set()
