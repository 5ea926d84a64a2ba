"""Parses YAML text, or a Python mapping, into plain values with the line and column of each.

Only the form is checked here: syntax, duplicate keys, tags, anchors, size. A value with a problem
is omitted, and its path is kept in ``broken`` so that later checks do not report it as missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, Union

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from yarnam.core.model.printable import printable
from yarnam.errors import BadSpec, SpecProblem
from yarnam.spec.values.scalars import resolve_plain

Path = tuple[Union[str, int], ...]

MAX_BYTES = 1024**2
"""A file larger than 1 MiB is not a spec."""
MAX_DEPTH = 40
"""Far deeper than any key of the spec."""
MAX_NODES = 100_000
"""Bounds what aliases can unfold to ("billion laughs")."""

PLACEHOLDER = "yarnam-stand-in"
"""Replaces a wrong list item, so that the items after it keep their index."""

_PLAIN, _QUOTED = "plain", "quoted"
_TAG_STR = "tag:yaml.org,2002:str"
_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def show_path(path: Path) -> str:
    """``roles.worker.gpus``, ``files[2].name``; keys with odd characters are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part if _SIMPLE_KEY.fullmatch(part) else ascii(part[:60])
            text += f".{shown}" if text else shown
    return text


@dataclass(slots=True)
class Tree:
    """``value`` is made of dict, list and scalars. ``places`` gives (line, column), from 1, of each
    key and item; without a file they are (0, n), n in the order of the document."""

    source: str
    value: Any = None
    places: dict[Path, tuple[int, int]] = field(default_factory=dict)
    values: dict[Path, tuple[int, int]] = field(default_factory=dict)
    """The places of the values, if they differ from the key's."""
    problems: list[tuple[tuple[int, int], SpecProblem]] = field(default_factory=list)
    broken: set[Path] = field(default_factory=set)
    _seen: set[SpecProblem] = field(default_factory=set)

    def add(self, path: Path, message: str, *, at_value: bool = False) -> None:
        """Record a problem at a path, or at the nearest place above it that is known."""
        position = self.position(path, at_value=at_value)
        self.add_at(position, path, message)
        self.broken.add(path)

    def add_at(self, position: tuple[int, int], path: Path, message: str) -> None:
        line, column = position if position[0] else (0, 0)
        # It quotes what the user wrote.
        shown = printable(message, max_length=400)
        problem = SpecProblem(self.source, line, column, show_path(path), shown)
        if problem not in self._seen:
            self._seen.add(problem)
            self.problems.append((position, problem))

    def position(self, path: Path, *, at_value: bool = False) -> tuple[int, int]:
        for length in range(len(path), -1, -1):
            known = path[:length]
            if at_value and length == len(path) and known in self.values:
                return self.values[known]
            if known in self.places:
                return self.places[known]
        return (1, 1) if any(line for line, _ in self.places.values()) else (0, 0)

    def sorted_problems(self) -> tuple[SpecProblem, ...]:
        return tuple(problem for _, problem in sorted(self.problems, key=lambda pair: pair[0]))


_NOT_TEXT = "contains a NUL or half of a surrogate pair, which cannot be passed to a process"


def _is_text(value: str) -> bool:
    """Whether it can be an argument, a variable or a file name: UTF-8 without NUL."""
    return "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML without its YAML 1.1 reading of scalars and without constructors."""

    def __init__(self, stream: str) -> None:
        Reader.__init__(self, stream)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is ScalarNode:
            return _PLAIN if implicit[0] else _QUOTED
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]


def tree_from_text(text: str, source: str) -> Tree:
    """Parse YAML. Never raises for errors in the text: see ``problems``."""
    tree = Tree(source)
    text = text.removeprefix("\ufeff")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        tree.add_at((1, 1), (), "is larger than 1 MiB: this is not a job spec")
        return tree
    root = _compose(text, tree)
    if tree.problems:
        return tree
    if root is None:
        tree.add_at((1, 1), (), "is empty; `yarnam spec init` prints a starter")
        return tree
    tree.places[()] = _position(root)
    reading = _Reading(tree)
    tree.value = reading.node(root, (), ())
    if reading.gave_up:
        tree.value = None
    if not isinstance(tree.value, dict):
        what = "a list" if isinstance(tree.value, list) else "a single value"
        if not tree.problems:
            tree.add((), f"a spec must be a mapping of keys to values, not {what}")
        tree.value = None
    return tree


def plain_document(text: str, source: str) -> Any:
    """The value of a YAML file that is not a spec, as PyYAML reads it, within the limits of a spec;
    ``None`` for an empty file. Raises BadSpec."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise BadSpec(f"{source} is larger than 1 MiB")
    try:
        loader = yaml.SafeLoader(text.removeprefix("\ufeff"))
        root: Node | None = loader.get_single_node()
        if root is None:
            return None
        if any(number >= MAX_NODES for number, _ in enumerate(_unfolded(root, ()))):
            raise BadSpec(f"{source} has more than {MAX_NODES} values")
        return loader.construct_document(root)
    except RecursionError:
        raise BadSpec(f"{source} is nested too deeply") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # ValueError is raised for a date such as 2001-99-99, and for a number of 5,000 digits.
        raise BadSpec(f"{source} is not valid YAML: {error}") from error


def _unfolded(node: Node, above: tuple[int, ...]) -> Iterator[None]:
    """One item for each value, those of aliases wherever they stand. Raises RecursionError."""
    if id(node) in above or len(above) > MAX_DEPTH:
        raise RecursionError
    yield
    for part in node.value if not isinstance(node, ScalarNode) else ():
        for inner in part if isinstance(part, tuple) else (part,):
            yield from _unfolded(inner, (*above, id(node)))


def _compose(text: str, tree: Tree) -> Node | None:
    try:
        loader = _Loader(text)
        root: Node | None = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        tree.add_at(position, (), _syntax_message(error, text, position[0]))
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        position = (before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
        tree.add_at(position, (), f"character U+{ord(text[error.position]):04X} is not allowed")
    except RecursionError:
        tree.add_at((1, 1), (), "nested too deeply")
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML lets these out of escapes such as "\UFFFFFFFF" and of absurd %YAML directives.
        tree.add_at((1, 1), (), f"not valid YAML: {error}")
    else:
        return root
    return None


def _syntax_message(error: yaml.MarkedYAMLError, text: str, line: int) -> str:
    problem = error.problem or "syntax error"
    lines = text.split("\n")
    here = lines[line - 1] if line <= len(lines) else ""
    if "\\t" in problem or here[: len(here) - len(here.lstrip())].count("\t"):
        return "tab in the indentation; YAML allows only spaces"
    if "single document" in (error.context or ""):
        return "second document; a spec is a single document (remove the `---`)"
    context = f" ({error.context})" if error.context else ""
    return f"not valid YAML: {problem}{context}"


def _position(node: Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


class _Reading:
    """Nodes to values. One use per document."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._nodes = 0
        self.gave_up = False

    def node(self, node: Node, path: Path, above: tuple[int, ...]) -> Any:
        """The value; None when there is none or it had to be skipped."""
        self._nodes += 1
        if self.gave_up:
            return None
        if self._nodes > MAX_NODES or len(above) > MAX_DEPTH or id(node) in above:
            self.gave_up = True
            why = (
                "an alias that contains itself"
                if id(node) in above
                else "too many or too deeply nested values"
            )
            self._tree.add_at(_position(node), path, f"{why}: this is not a job spec")
            return None
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if not node.tag.endswith((":map", ":seq")):
            self._refuse_tag(node, path)
            return None
        if isinstance(node, SequenceNode):
            return self._sequence(node, path, above)
        assert isinstance(node, MappingNode)
        return self._mapping(node, path, above)

    def _scalar(self, node: ScalarNode, path: Path) -> Any:
        if node.tag not in {_PLAIN, _QUOTED, _TAG_STR}:
            self._refuse_tag(node, path)
            return None
        value = resolve_plain(node.value) if node.tag == _PLAIN else node.value
        if value is None:
            self._tree.add(path, "has no value; write one or remove the key")
        elif isinstance(value, str) and not _is_text(value):
            self._tree.add(path, _NOT_TEXT)
            return None
        return value

    def _refuse_tag(self, node: Node, path: Path) -> None:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        self._tree.add_at(_position(node), path, f"YAML tags are not allowed: remove {tag}")
        self._tree.broken.add(path)

    def _sequence(self, node: SequenceNode, path: Path, above: tuple[int, ...]) -> list[Any]:
        items = []
        for index, item in enumerate(node.value):
            inner = (*path, index)
            self._tree.places[inner] = _position(item)
            value = self.node(item, inner, (*above, id(node)))
            # A gap would shift the places of the items after it.
            items.append(PLACEHOLDER if value is None else value)
        return items

    def _mapping(self, node: MappingNode, path: Path, above: tuple[int, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: dict[str, tuple[Node, Node]] = {}
        own: dict[str, tuple[Node, Node]] = {}
        for key_node, value_node in node.value:
            if isinstance(key_node, ScalarNode) and (key_node.tag, key_node.value) == (
                _PLAIN,
                "<<",
            ):
                for name, pair in self._merged(value_node, path, (*above, id(node))):
                    merged.setdefault(name, pair)
                continue
            key = self._key(key_node, path)
            if key is None:
                continue
            if key in own:
                first = own[key][0].start_mark.line + 1
                self._tree.add_at(
                    _position(key_node), (*path, key), f"duplicate key; first used in line {first}"
                )
                continue
            own[key] = (key_node, value_node)
        for key, (key_node, value_node) in {**merged, **own}.items():
            inner = (*path, key)
            self._tree.places[inner] = _position(key_node)
            self._tree.values[inner] = _position(value_node)
            value = self.node(value_node, inner, (*above, id(node)))
            if value is not None:
                result[key] = value
        return result

    def _key(self, node: Node, path: Path) -> str | None:
        if not isinstance(node, ScalarNode):
            self._tree.add_at(_position(node), path, "a key must be a plain word")
        elif node.tag not in {_PLAIN, _QUOTED, _TAG_STR}:
            self._refuse_tag(node, path)
        elif not node.value:
            self._tree.add_at(_position(node), path, "empty key")
        elif not _is_text(node.value):
            self._tree.add_at(_position(node), path, _NOT_TEXT)
        else:
            return str(node.value)
        return None

    def _merged(
        self, node: Node, path: Path, above: tuple[int, ...]
    ) -> Iterator[tuple[str, tuple[Node, Node]]]:
        """The pairs that ``<<`` brings in; the first of several mappings wins, as in YAML."""
        sources = node.value if isinstance(node, SequenceNode) else [node]
        for source in sources:
            self._nodes += 1
            if self._nodes > MAX_NODES:
                return
            if id(source) in above or len(above) > MAX_DEPTH:
                self._tree.add_at(_position(node), path, "`<<` merges a mapping into itself")
                continue
            if not isinstance(source, MappingNode):
                self._tree.add_at(
                    _position(node), path, "`<<` needs a mapping: an alias such as *base"
                )
                continue
            self._nodes += len(source.value)
            for key_node, value_node in source.value:
                is_scalar = isinstance(key_node, ScalarNode)
                if is_scalar and (key_node.tag, key_node.value) == (_PLAIN, "<<"):
                    yield from self._merged(value_node, path, (*above, id(source)))
                else:
                    key = self._key(key_node, path)
                    if key is not None:
                        yield key, (key_node, value_node)


def tree_from_mapping(mapping: Mapping[str, Any], source: str) -> Tree:
    """The same from Python values: mappings, sequences, paths, scalars."""
    tree = Tree(source)
    tree.places[()] = (0, 0)
    tree.value = _from_python(mapping, (), tree)
    if not isinstance(tree.value, dict):
        tree.add((), "a spec must be a mapping of keys to values")
        tree.value = None
    return tree


def _from_python(value: Any, path: Path, tree: Tree) -> Any:
    tree.places.setdefault(path, (0, len(tree.places)))
    if len(path) > MAX_DEPTH:
        tree.add(path, "nested too deeply")
        return None
    if isinstance(value, Mapping):
        result = {}
        for key, inner in value.items():
            if not isinstance(key, str) or not key or not _is_text(key):
                tree.add(path, f"a key must be text, not {key!r}")
                continue
            plain = _from_python(inner, (*path, key), tree)
            if plain is not None:
                result[key] = plain
        return result
    if isinstance(value, (list, tuple)):
        items = [_from_python(item, (*path, index), tree) for index, item in enumerate(value)]
        return [PLACEHOLDER if item is None else item for item in items]
    if isinstance(value, PathLike):
        value = fspath(value)
    if isinstance(value, str) and not _is_text(value):
        tree.add(path, _NOT_TEXT)
        return None
    if value is None:
        tree.add(path, "has no value; write one or remove the key")
        return None
    if not isinstance(value, (str, int, float, bool)):
        tree.add(path, f"values of type {type(value).__name__} are not supported")
        return None
    return value
