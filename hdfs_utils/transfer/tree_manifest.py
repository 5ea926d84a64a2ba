"""The manifest of a copied tree: the length and the CRC32C of each of its files.

A file is listed only while its entry is true. Whoever replaces one drops its entry first and adds
the new one last, so that a break in between leaves a file unlisted, never listed wrongly.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from hdfs_utils import uri as uris
from hdfs_utils.errors import (
    HdfsError,
    InvalidPath,
    MalformedData,
    NotADirectory,
    NotFound,
    PermissionDenied,
)
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.protocols.untrusted import at_path, decode_record
from hdfs_utils.transfer.options import MANIFEST, SUCCESS
from hdfs_utils.transfer.scan import path_below

_log = logging.getLogger(__name__)

MAX_BYTES = 256 << 20
"""A million files with paths of 200 characters."""
MAX_LINE = 64 << 10
"""A path of 4,096 characters, each escaped, and two numbers."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file: its bytes, and their CRC32C."""

    size: int
    crc: int


Entries = Mapping[str, ListedFile]
"""By the path relative to the tree."""


def encode_manifest(entries: Entries) -> bytes:
    """One line a file, by name: path, size, CRC32C in hexadecimal."""
    lines = (
        json.dumps({"path": path, "size": one.size, "crc32c": f"{one.crc:08x}"}, ensure_ascii=False)
        for path, one in sorted(entries.items())
        if path not in (SUCCESS, MANIFEST)
    )
    return ("\n".join(lines) + "\n").encode()


def decode_manifest(data: bytes) -> dict[str, ListedFile]:
    """Raises MalformedData."""
    if len(data) > MAX_BYTES:
        raise MalformedData(f"longer than {MAX_BYTES} bytes")
    found = {}
    for line in filter(None, data.split(b"\n")):
        record = decode_record(line, max_bytes=MAX_LINE)
        crc = record.text("crc32c", max_length=8)
        path = record.text("path")
        try:
            uris.join("/", path)
            found[path] = ListedFile(record.integer("size"), int(crc, 16))
        except (ValueError, InvalidPath) as error:
            raise MalformedData(f"not an entry of a manifest: {error}") from None
    return found


def read_manifest(fs: FileSystem, root: str) -> dict[str, ListedFile] | None:
    """The manifest of the tree at ``root``; ``None`` if it has none that this user may read. Raises
    MalformedData, HdfsError."""
    path = uris.join(root, MANIFEST)
    try:
        data = fs.read_bytes(path, max_bytes=MAX_BYTES)
    except (NotFound, NotADirectory, PermissionDenied):
        return None
    with at_path(path, "read manifest"):
        return decode_manifest(data)


def trees_around(fs: FileSystem, path: str) -> list[str]:
    """The directories at or above ``path`` that have a manifest, the nearest first."""
    plain = fs.own_path(path)
    found = []
    while plain != "/":
        with suppress(PermissionDenied):
            if fs.exists(uris.join(plain, MANIFEST)):
                found.append(plain)
        plain = uris.parent(plain)
    return found


def drop_entries(fs: FileSystem, path: str, names: frozenset[str] | None = None) -> list[str]:
    """Unlist what is about to be replaced or deleted, in every manifest around: ``path`` itself and
    all below it, or only these ``names`` below it. Returns the trees with a manifest.

    Raises:
        HdfsError: a manifest cannot be read or written; nothing may be replaced then.
    """
    plain = fs.own_path(path)
    trees = []
    for root in trees_around(fs, plain):
        entries = _readable(fs, root)
        if entries is None:
            continue
        trees.append(root)
        kept = {name: one for name, one in entries.items() if not _is_of(root, name, plain, names)}
        if len(kept) < len(entries):
            _write(fs, root, kept)
    return trees


def add_entries(fs: FileSystem, trees: list[str], path: str, entries: Entries) -> None:
    """List what has been put at ``path``; ``entries`` are relative to it, ``""`` is the
    file itself. A failure leaves the files unlisted, with a warning."""
    plain = fs.own_path(path)
    for root in trees:
        try:
            before = _readable(fs, root)
            if before is not None and entries:
                full = {path_below(plain, name): one for name, one in entries.items()}
                added = {_relative(root, path): one for path, one in full.items()}
                _write(fs, root, {**before, **added})
        except HdfsError as error:
            _log.warning("the manifest of %s does not list the new files: %s", root, error)


class TreeManifests:
    """The manifests around the files that are looked at. Each is read once. For one thread."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._by_directory: dict[str, tuple[str, dict[str, ListedFile]] | None] = {}
        self._seen: set[str] = set()

    def entry(self, path: str) -> ListedFile | None:
        """The file's entry in the nearest manifest; ``None`` if none lists it."""
        self._seen.add(path)
        found = self._around(uris.parent(path))
        return None if found is None else found[1].get(_relative(found[0], path))

    def unseen(self, path: str) -> Iterator[str]:
        """The files at or below ``path`` that a manifest lists and nobody has asked for. Hidden
        names are not data, and left out."""
        plain = self._fs.own_path(path).rstrip("/")
        self._around(plain or "/")
        around = dict(filter(None, self._by_directory.values()))
        for root, entries in around.items():
            for name in entries:
                full = path_below(root, name)
                is_below = full == plain or full.startswith(f"{plain}/")
                is_hidden = any(part.startswith(("_", ".")) for part in name.split("/"))
                if is_below and not is_hidden and full not in self._seen:
                    yield full

    def _around(self, directory: str) -> tuple[str, dict[str, ListedFile]] | None:
        if directory not in self._by_directory:
            entries = _readable(self._fs, directory)
            found = (directory, entries) if entries is not None else None
            if found is None and directory != "/":
                found = self._around(uris.parent(directory))
            self._by_directory[directory] = found
        return self._by_directory[directory]


def _readable(fs: FileSystem, root: str) -> dict[str, ListedFile] | None:
    """``None`` also for a manifest that others have damaged."""
    try:
        return read_manifest(fs, root)
    except MalformedData as error:
        _log.warning("%s is ignored: %s", uris.join(root, MANIFEST), error)
        return None


def _write(fs: FileSystem, root: str, entries: Entries) -> None:
    fs.write_atomic(uris.join(root, MANIFEST), encode_manifest(entries), overwrite=True)


def _is_of(root: str, name: str, plain: str, names: frozenset[str] | None) -> bool:
    full = path_below(root, name)
    if names is None:
        return full == plain or full.startswith(f"{plain}/")
    return full.startswith(f"{plain}/") and full[len(plain) + 1 :] in names


def _relative(root: str, full: str) -> str:
    return full[len(root.rstrip("/")) + 1 :]
