"""A table keyed by an enum has a row for every member, or is read with a default. A member that is
added later would else end some command in a KeyError."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("yarnam", "hdfs_utils", "skein_specs", "torchx_plugins", "hydra_plugins")


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def enums() -> dict[str, set[str]]:
    """The enums of the project, name to members. A name that two enums share is left out."""
    found: dict[str, set[str]] = {}
    doubled = set()
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef):
                continue
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            if not bases & {"Enum", "IntEnum", "Flag"}:
                continue
            members = {
                target.id
                for line in node.body
                if isinstance(line, ast.Assign)
                for target in line.targets
                if isinstance(target, ast.Name)
            }
            if node.name in found:
                doubled.add(node.name)
            found[node.name] = members
    return {name: members for name, members in found.items() if name not in doubled}


ENUMS = enums()


def keyed_by(table: ast.Dict) -> tuple[str, set[str]] | None:
    """The enum whose members are all the keys of this dictionary."""
    names, members = set(), set()
    for key in table.keys:
        if not (isinstance(key, ast.Attribute) and isinstance(key.value, ast.Name | ast.Attribute)):
            return None
        names.add(ast.unparse(key.value).rpartition(".")[2])
        members.add(key.attr)
    if len(names) != 1:
        return None
    (name,) = names
    return (name, members) if name in ENUMS and members <= ENUMS[name] else None


def gaps(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The tables that lack a row and are read by their keys alone."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for table in ast.walk(tree):
        if not isinstance(table, ast.Dict) or not (keyed := keyed_by(table)):
            continue
        name, members = keyed
        missing = ENUMS[name] - members
        parent = parents[table]
        by_key = isinstance(parent, ast.Subscript) and parent.value is table
        if isinstance(parent, ast.Assign | ast.AnnAssign):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            by_key = any(
                isinstance(node, ast.Subscript)
                and isinstance(node.ctx, ast.Load)
                and isinstance(node.value, ast.Name)
                and node.value.id in names
                for node in ast.walk(tree)
            )
        if missing and by_key:
            yield table.lineno, f"{name} without {', '.join(sorted(missing))}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_table_is_whole_or_has_a_default(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, what in gaps(ast.parse(path.read_text()))
    ]
    assert found == []


def test_the_test_finds_a_gap() -> None:
    text = "T = {JobState.QUEUED: 1}\nprint(T[s])\nU = {JobState.QUEUED: 1}\nprint(U.get(s))\n"
    text += "print({JobState.QUEUED: 1}[s])\n"
    assert [line for line, _ in gaps(ast.parse(text))] == [1, 5]
