"""Names in code font are names: of a module or what is in it, and of keys of the spec."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.docs.pages import ROOT, SHOWN
from yarnam.spec.export.json_schema import json_schema

FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
DOTTED = re.compile(r"(yarnam|hdfs_utils|skein_specs|hydra_plugins|torchx_plugins)(\.\w+)+")
KEY = re.compile(r"[a-z_]+(\.([a-z_]+|\*))+")
PAGES = [*SHOWN, ROOT / "docs" / "architecture.md", *sorted(ROOT.glob("docs/troubleshoot/*.md"))]
NO_NAMES = {
    "yarnam.validators",  # a group of entry points
    "yarnam.application",  # a tag in MLflow
    "hdfs_utils.errors.Lease",  # the beginning of several, in a pattern
}
NO_KEYS = {
    *("am.json", "environment.yml"),  # files
    *("elastic.growth", "elastic.sizing", "elastic.in_place"),  # modules of the gang machine
}


def spans(page: Path) -> Iterator[str]:
    yield from SPAN.findall(FENCE.sub("", page.read_text()))


def is_there(name: str) -> bool:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if error.name and not ".".join(parts[:cut]).startswith(error.name):
                return True  # it needs a package that is not installed here
            continue
        for part in parts[cut:]:
            annotations = getattr(found, "__annotations__", {})
            if not hasattr(found, part):
                return part in annotations
            found = getattr(found, part)
        return True
    return False


@cache
def schema() -> dict[str, object]:
    return json_schema()


def nodes(node: object) -> Iterator[dict[str, object]]:
    """A place of the schema, by whatever it refers to."""
    if not isinstance(node, dict):
        return
    if "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        yield from nodes(schema()["$defs"][name])  # type: ignore[index]
        return
    yield node
    for word in ("anyOf", "oneOf", "allOf"):
        for each in node.get(word, ()):  # type: ignore[attr-defined]
            yield from nodes(each)
    yield from nodes(node.get("items"))


def is_key(name: str) -> bool:
    places = list(nodes(schema()))
    for part in name.split("."):
        below = []
        for place in places:
            properties = place.get("properties", {})
            if part in properties:  # type: ignore[operator]
                below.extend(nodes(properties[part]))  # type: ignore[index]
            elif isinstance(place.get("additionalProperties"), dict):
                below.extend(nodes(place["additionalProperties"]))
        places = below
    return bool(places)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_dotted_name_in_code_font_exists(page: Path) -> None:
    named = {text.partition("(")[0] for text in spans(page)}
    dotted = {name for name in named if DOTTED.fullmatch(name)} - NO_NAMES
    assert sorted(name for name in dotted if not is_there(name)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_key_of_the_spec_in_code_font_exists(page: Path) -> None:
    top = set(schema()["properties"])  # type: ignore[call-overload]
    keys = {text for text in spans(page) if KEY.fullmatch(text) and text.split(".")[0] in top}
    assert sorted(key for key in keys - NO_KEYS if not is_key(key)) == []


def test_a_wrong_name_would_be_noticed() -> None:
    assert is_there("yarnam.train.report")
    assert not is_there("yarnam.train.log")
    assert is_key("roles.worker.memory")
    assert is_key("retry.rules")
    assert not is_key("retry.max_restart")
