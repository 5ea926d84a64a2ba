"""Turns pydantic's errors into messages: place, key, what is wrong, what to write instead."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from yarnam.spec.sections.document import Document
from yarnam.spec.sections.section_base import Section
from yarnam.spec.values.fields import ambiguous_message, describe
from yarnam.spec.values.scalars import Ambiguous, TypedInt
from yarnam.spec.yaml_tree import Path, Tree

_OTHER_NAMES = {
    "cmd": "command",
    "script": "command",
    "entrypoint": "command",
    "args": "command",
    "instances": "tasks",
    "replicas": "tasks",
    "count": "tasks",
    "num_tasks": "tasks",
    "cpus": "vcores",
    "cpu": "vcores",
    "cores": "vcores",
    "mem": "memory",
    "memory_mb": "memory",
    "memory": "memory_per_gpu",
    "vcores": "vcores_per_gpu",
    "accelerators": "gpus",
    "num_gpus": "gpus",
    "variables": "env",
    "environ": "env",
    "title": "name",
    "depends_on": "after",
    "success_policy": "completion",
    "sidecar": "service",
    "type": "framework",
    "uri": "path",
    "url": "path",
    "src": "source",
    "nproc": "processes_per_task",
    "nproc_per_node": "processes_per_task",
    "output": "outputs",
    "input": "inputs",
    "dir": "directory",
    "path": "directory",
    "max_retries": "max_restarts",
}
"""Names of the same key in other launchers."""

MAX_GUESSES = 200
"""Keys to search a suggestion for, 0.25 ms each. A file with more unknown keys is not a spec."""


def report(tree: Tree, errors: Iterable[ErrorDetails], *, is_first: bool) -> list[Path]:
    """Add a problem for each error; returns the paths to repair before the next round. Later rounds
    report nothing about the repairs themselves."""
    paths = []
    mended = () if is_first else tuple(tree.broken)
    found = [(_path(tree, error), error) for error in errors]
    unknown = [path for path, error in found if error["type"] == "extra_forbidden"]
    intended = _intended_keys(unknown[:MAX_GUESSES])
    renamed = {path for path in intended if path not in tree.places}
    tree.broken |= renamed
    for path, error in found:
        paths.append(path)
        if any(path[: len(known)] == known for known in mended):
            continue
        if error["type"] == "missing":
            # A key that was given, but is broken or misspelt, is not reported a second time.
            if path not in tree.broken:
                tree.add(path, _missing_message(path))
        elif path not in tree.broken:
            if error["type"] == "extra_forbidden":
                tree.add(path, _unknown_message(path, guess=len(tree.problems) < MAX_GUESSES))
            else:
                tree.add(path, _message(path, error), at_value=True)
    return paths


def closest(word: str, known: Iterable[str]) -> str:
    """`; did you mean x?`, or empty when no known word is similar."""
    near = near_match(word, known)
    return f"; did you mean {near}?" if near else ""


def near_match(word: str, known: Iterable[str]) -> str:
    folded = {name.lower().replace("-", "_"): name for name in known}
    word = word[:100].lower().replace("-", "_").replace(" ", "_")
    near = difflib.get_close_matches(word, folded, n=1, cutoff=0.65)
    return folded[near[0]] if near else ""


def section_at(path: Path) -> type[Section] | None:
    """The section that a path leads to; None for lists, free mappings and scalars."""
    current: Any = Document
    for part in path:
        current = _section_of(current)
        if isinstance(current, type) and issubclass(current, Section):
            field = _fields(current).get(str(part))
            if field is None:
                return None
            current = current.model_fields[field].annotation
        else:
            arguments = get_args(current)
            if get_origin(current) not in {dict, list} or not arguments:
                return None
            current = arguments[-1]
    current = _section_of(current)
    is_section = isinstance(current, type) and issubclass(current, Section)
    return current if is_section else None


def examples_at(path: Path) -> list[Any]:
    """Example values of a key, where its section declares some."""
    section = section_at(path[:-1])
    name = _fields(section).get(str(path[-1])) if section else None
    return (section.model_fields[name].examples or []) if section and name else []


def keys_of(section: type[Section]) -> tuple[str, ...]:
    """The keys as written in a document."""
    return tuple(_fields(section))


def _fields(section: type[Section]) -> dict[str, str]:
    return {field.alias or name: name for name, field in section.model_fields.items()}


def _section_of(annotation: Any) -> Any:
    """Strip Annotated and Optional; a union of a text and a section counts as the section."""
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    if get_origin(annotation) in {Union, types.UnionType}:
        parts = [_section_of(part) for part in get_args(annotation) if part is not type(None)]
        sections = [
            part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)
        ]
        return (sections or parts)[0]
    return annotation


def _path(tree: Tree, error: ErrorDetails) -> Path:
    """pydantic's location without the parts that are not in the document (tags of unions, the key
    that a short form stands for)."""
    path: Path = ()
    last = len(error["loc"]) - 1
    for index, part in enumerate(error["loc"]):
        is_missing = index == last and error["type"] == "missing"
        if is_missing or (*path, part) in tree.places:
            path = (*path, part)
    return path


def _intended_keys(paths: Iterable[Path]) -> set[Path]:
    intended = set()
    for path in paths:
        section = section_at(path[:-1])
        if section:
            intended.add((*path[:-1], _intended(str(path[-1]), section)))
    return intended


def _intended(key: str, section: type[Section]) -> str:
    other = _OTHER_NAMES.get(key.lower().replace("-", "_"), "")
    return other if other in keys_of(section) else near_match(key, keys_of(section))


def _missing_message(path: Path) -> str:
    key, examples = str(path[-1]), examples_at(path)
    return f"missing; write for example {key}: {examples[0]}" if examples else "missing"


def _unknown_message(path: Path, *, guess: bool) -> str:
    section, key = section_at(path[:-1]), str(path[-1])
    if section is None:
        return "unknown key"
    if key in section.refused_keys:
        return f"not a key here: {section.refused_keys[key]}"
    if not guess:
        return "unknown key"
    near = _intended(key, section)
    if near:
        return f"unknown key; did you mean {near}?"
    homes = _homes(key)
    if homes:
        return f"unknown key here; did you mean {' or '.join(homes)}?"
    return f"unknown key; allowed here: {', '.join(keys_of(section))}"


def _homes(key: str) -> list[str]:
    """Where in the document a key of this name belongs."""
    homes = [key] if key in keys_of(Document) else []
    for name, field in _fields(Document).items():
        kind = _section_of(Document.model_fields[field].annotation)
        if isinstance(kind, type) and issubclass(kind, Section) and key in keys_of(kind):
            homes.append(f"{name}.{key}")
    return homes + (
        [f"roles.<name>.{key}"] if key in keys_of(section_at(("roles", "x")) or Document) else []
    )


def _message(path: Path, error: ErrorDetails) -> str:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "spec":
        return str(context["message"])
    if isinstance(value, Ambiguous) and kind == "int_type":
        return f"`{value}` is {value.why}; write a plain decimal number"
    if isinstance(value, Ambiguous) and kind != "literal_error":
        return ambiguous_message(value)
    if kind == "literal_error":
        return _choice_message(path, value)
    if kind == "greater_than_equal":
        return f"must be at least {context['ge']}, not {value}"
    if kind == "less_than_equal":
        return f"must be at most {context['le']}, not {value}"
    if kind in {"int_type", "int_from_float"}:
        return _whole_message(value)
    wanted = {
        "bool_type": "true or false",
        "list_type": "a list",
        "dict_type": "a mapping of names to values",
        "model_type": "a mapping of keys to values",
        "string_type": "text",
    }.get(kind)
    return f"must be {wanted}, not {describe(value)}" if wanted else str(error["msg"])


def _whole_message(value: object) -> str:
    if isinstance(value, str) and value.strip().isdigit() and value.isascii():
        return f"must be a whole number, not text; write {int(value[:18])} without quotes"
    return f"must be a whole number, not {describe(value)}"


def _choice_message(path: Path, value: object) -> str:
    parent = section_at(path[:-1])
    key = str(path[-1]) if path else ""
    choices: list[object] = []
    if parent and key in _fields(parent):
        choices = _choices(parent.model_fields[_fields(parent)[key]].annotation)
    if "env" in path[:-1]:
        return f"must be one of {_listed(choices)}"  # the value may be a secret
    former = parent.refused_values.get(key, {}) if parent else {}
    if isinstance(value, str) and value in former:
        return f"{value} is not supported any more: {former[value]}"
    words = [choice for choice in choices if isinstance(choice, str)]
    hint = closest(value, words) if isinstance(value, str) else ""
    return f"{_shown(value)} is not one of {_listed(choices)}{hint}"


def _choices(annotation: Any) -> list[object]:
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if get_origin(annotation) in {Union, types.UnionType}:
        return [choice for one in get_args(annotation) for choice in _choices(one)]
    return []


def _listed(choices: list[object]) -> str:
    return ", ".join(str(choice) for choice in choices)


def _shown(value: object) -> str:
    if isinstance(value, (dict, list)):
        return describe(value)
    if isinstance(value, TypedInt):
        return value.text
    return ascii(value)[:80] if isinstance(value, str) else str(value)[:80]
