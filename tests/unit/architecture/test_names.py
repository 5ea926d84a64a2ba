"""Names say what a thing is in the words of the field (docs/reference/glossary.md); folders stay
small enough to be read at one glance."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("yarnam", "hdfs_utils", "skein_specs")

MAX_ROOMS = 14
"""Modules and packages in one folder, private ones too; ``__init__`` and the like not counted."""
MAX_ROOMS_OF = {"yarnam": 15}
"""The layers of docs/architecture.md, which has a line for each."""

OF_THE_PACKAGE = {"_light_imports", "_version"}
"""Not counted: they belong to no layer."""

GIVEN_UP = {
    # our own trades: a building site, an office, a shop
    "beside", "bell", "desk", "floor", "gate", "ground", "lane", "lay", "office", "plot", "room",
    "rooms", "seat", "seats", "shelf",
    # verbs and leftovers as names
    "apart", "derived", "insist", "looking", "mishap", "mishaps", "outside", "say", "says",
    "standing", "stands", "stories", "story", "taste", "tell", "tells", "told", "turns", "wish",
    "wishes",
}  # fmt: skip
"""Refused as a part of the name of a module, a class, a function, a parameter or a field."""

GIVEN_UP_WHOLE = {
    "answer", "asks", "care", "early", "freeing", "handed_out", "judging", "left_behind",
    "left_out", "life", "line", "look", "look_around", "looks", "place", "questions", "stand",
    "turn", "ways", "word",
}  # fmt: skip
"""Refused as a whole name: as a part they may mean what everybody means by them."""

PLAIN_AS_VALUES = {"answer", "asks", "floor", "line", "word"}
"""What a parameter or a field may be called: a reply, several asks, a bound, a text's line."""

PORT_AND_ADAPTER = {"job_inputs", "output_store", "ticket_queue"}
"""Module names that occur twice and mean the same: the port, and its adapter."""

FILE_METHODS = {"tell"}
"""Of Python's file objects."""


def modules(package: str) -> Iterator[Path]:
    for path in sorted((ROOT / package).rglob("*.py")):
        if "pb" not in path.parts:
            yield path


def parts(name: str) -> set[str]:
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def is_given_up(name: str) -> bool:
    if name in FILE_METHODS:
        return False
    return bool(parts(name) & GIVEN_UP) or name.strip("_").lower() in GIVEN_UP_WHOLE


def names_in(path: Path) -> Iterator[str]:
    if path.stem != "__init__":
        yield path.stem
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
    yield from (name for name in value_names(tree) if not parts(name) & PLAIN_AS_VALUES)


def value_names(tree: ast.Module) -> Iterator[str]:
    """Of parameters, attributes, fields and a module's own constants; not of local variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, (ast.ClassDef, ast.Module)):
            for line in node.body:
                if isinstance(line, ast.AnnAssign):
                    targets = [line.target]
                else:
                    targets = line.targets if isinstance(line, ast.Assign) else []
                yield from (target.id for target in targets if isinstance(target, ast.Name))


@pytest.mark.parametrize(
    "name", ["Room", "look_around", "_told", "keeps_apart", "line", "WishList"]
)
def test_a_given_up_name_is_refused(name: str) -> None:
    assert is_given_up(name)


@pytest.mark.parametrize("name", ["placement", "last_line", "process_lifetime", "ProgressBar"])
def test_a_good_name_is_not(name: str) -> None:
    assert not is_given_up(name)


def test_parameters_fields_and_attributes_are_read_too() -> None:
    text = (
        "DESK = 1\nclass A:\n    seats: int\n    def f(self, place):\n        self.office = place\n"
    )
    names = list(value_names(ast.parse(text)))
    assert [name for name in names if is_given_up(name)] == ["DESK", "seats", "place", "office"]


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_bears_a_name_that_was_given_up(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules(package)
        for name in names_in(path)
        if is_given_up(name)
    ]
    assert found == []


@pytest.mark.parametrize("package", ["yarnam", "hdfs_utils"])
def test_a_module_name_occurs_once(package: str) -> None:
    places = defaultdict(list)
    for path in modules(package):
        if not path.stem.startswith("__"):
            places[path.stem].append(str(path.relative_to(ROOT)))
    doubled = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert {name: paths for name, paths in doubled.items() if name not in PORT_AND_ADAPTER} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folder_shows_more_rooms_than_one_takes_in(package: str) -> None:
    crowded = {}
    for folder in {path.parent for path in modules(package)}:
        stems = {path.stem for path in folder.glob("*.py")} - OF_THE_PACKAGE
        rooms = {stem for stem in stems if not stem.startswith("__")}
        rooms |= {path.parent.name for path in folder.glob("*/__init__.py")}
        name = folder.relative_to(ROOT).as_posix()
        if len(rooms) > MAX_ROOMS_OF.get(name, MAX_ROOMS):
            crowded[name] = sorted(rooms)
    assert crowded == {}
