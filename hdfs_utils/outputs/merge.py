"""Merges several writers' trees into one: which entry goes where. Pure.

A directory that only one writer created moves as a whole; directories with the same name are
merged. Of several files with the same name, the first writer's keeps it and the others get their
writer's name appended: nothing is lost, and nothing fails after days of training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hdfs_utils import uri as uris
from hdfs_utils.filesystem import FileStatus
from hdfs_utils.protocols.untrusted import Record

MAX_FILES = 2_000_000
MAX_PATH = 8192
"""HDFS allows 8,000 characters."""


@dataclass(frozen=True, slots=True)
class Move:
    """One rename; both paths are relative. ``files`` go with it."""

    source: str
    target: str
    files: int


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of the merged tree; ``path`` is relative to it, ``length`` in bytes."""

    path: str
    length: int
    writer: str


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The renames to do, and the tree they make.

    Attributes:
        directories: to create first, parents before children.
        moves: in any order.
        listed: every file of the merged tree.
        renamed: how many files get another name than their writer gave them.
    """

    directories: tuple[str, ...]
    moves: tuple[Move, ...]
    listed: tuple[ListedFile, ...]
    renamed: int

    @property
    def files(self) -> int:
        return len(self.listed)

    @property
    def size_bytes(self) -> int:
        return sum(file.length for file in self.listed)

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_record(cls, record: Record) -> MergePlan:
        """Inverse of :meth:`plain`. Raises MalformedData."""
        return cls(
            directories=record.texts("directories", max_count=MAX_FILES, max_length=MAX_PATH),
            moves=tuple(
                Move(
                    one.text("source", max_length=MAX_PATH),
                    one.text("target", max_length=MAX_PATH),
                    one.integer("files"),
                )
                for one in record.records("moves", max_count=MAX_FILES)
            ),
            listed=tuple(
                ListedFile(
                    one.text("path", max_length=MAX_PATH),
                    one.integer("length"),
                    one.text("writer", max_length=MAX_PATH),
                )
                for one in record.records("listed", max_count=MAX_FILES)
            ),
            renamed=record.integer("renamed"),
        )


@dataclass(slots=True)
class _Node:
    """A file (``length``) or a directory (``entries``) of one writer."""

    length: int = 0
    entries: dict[str, _Node] | None = None


@dataclass(slots=True)
class _Merging:
    directories: list[str] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    listed: list[ListedFile] = field(default_factory=list)
    renamed: int = 0

    def merge(
        self, trees: Sequence[tuple[str, Mapping[str, _Node]]], at: str, reserved: Iterable[str]
    ) -> None:
        """``trees``: each writer's entries of the directory ``at``, in the order of rights."""
        taken = {*reserved, *(name for _, entries in trees for name in entries)}
        for name in sorted({name for _, entries in trees for name in entries}):
            holders = [(writer, entries[name]) for writer, entries in trees if name in entries]
            path = f"{at}{name}"
            directories = [(w, node.entries) for w, node in holders if node.entries is not None]
            is_free = name not in reserved
            if is_free and len(holders) > 1 and len(directories) == len(holders):
                self.directories.append(path)
                self.merge(directories, f"{path}/", ())
                continue
            for writer, node in holders:
                other = path
                if not is_free:
                    other = self._other_name(at, name, writer, taken)
                is_free = False
                self._move(writer, node, path, other)

    def _other_name(self, at: str, name: str, writer: str, taken: set[str]) -> str:
        other = f"{name}.{writer}"
        while other in taken:
            other += "_"
        taken.add(other)
        return f"{at}{other}"

    def _move(self, writer: str, node: _Node, path: str, target: str) -> None:
        files = list(_files(node, target))
        self.moves.append(Move(f"{writer}/{path}", target, len(files)))
        self.listed += [ListedFile(found, length, writer) for found, length in files]
        if path != target:
            self.renamed += len(files)


def plan_merge(
    root: str, found: Sequence[tuple[str, Iterable[FileStatus]]], reserved: Iterable[str] = ()
) -> MergePlan:
    """One tree of several.

    Args:
        root: below which each writer has a directory of its name.
        found: all that is below it, in the order of the writers' rights.
        reserved: names at the top that no writer may have.
    """
    merging = _Merging()
    trees = [(writer, _tree(uris.join(root, writer), statuses)) for writer, statuses in found]
    merging.merge(trees, "", tuple(reserved))
    return MergePlan(
        directories=tuple(merging.directories),
        moves=tuple(merging.moves),
        listed=tuple(sorted(merging.listed, key=lambda file: file.path)),
        renamed=merging.renamed,
    )


def _tree(base: str, statuses: Iterable[FileStatus]) -> dict[str, _Node]:
    top: dict[str, _Node] = {}
    for status in statuses:
        *parents, name = status.path[len(base) + 1 :].split("/")
        entries = top
        for parent in parents:
            node = entries.setdefault(parent, _Node(entries={}))
            if node.entries is None:
                node.entries = {}
            entries = node.entries
        if status.is_dir:
            entries.setdefault(name, _Node(entries={}))
        else:
            entries[name] = _Node(length=status.length)
    return top


def _files(node: _Node, path: str) -> Iterable[tuple[str, int]]:
    if node.entries is None:
        yield path, node.length
        return
    for name, inner in node.entries.items():
        yield from _files(inner, f"{path}/{name}")
