"""The contents of a source."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hdfs_utils import uri as uris
from hdfs_utils.backends.base import is_temporary
from hdfs_utils.errors import InvalidPath
from hdfs_utils.filesystem import FileStatus, FileSystem
from hdfs_utils.transfer.options import SourceEntry

_EXECUTABLE = 0o111


def scan(fs: FileSystem, root: str) -> list[SourceEntry]:
    """Everything below ``root`` by name, or ``root`` itself, as ``""``, where it is a file.

    Links to files of the local disk are followed; hidden temporary names are left out.

    Raises:
        NotFound: nothing is there.
        InvalidPath: a link to a directory, a socket or the like is in it.
    """
    plain = fs.own_path(root)
    top = fs.stat(plain)
    if not top.is_dir:
        return [_of_status(top, "")]
    if fs.capabilities.is_local:
        return [
            entry for entry in scan_local(Path(plain)) if not is_temporary("/" + entry.relative)
        ]
    base = len(plain.rstrip("/")) + 1
    return [
        _of_status(status, status.path[base:])
        for status in fs.walk(plain)
        if not is_temporary(status.path)
    ]


def _of_status(status: FileStatus, relative: str) -> SourceEntry:
    is_executable = not status.is_dir and bool(status.permission & _EXECUTABLE)
    return SourceEntry(relative, status.is_dir, status.length, status.mtime_ms, is_executable)


def scan_local(root: Path) -> list[SourceEntry]:
    """The files below ``root`` by name, or ``root`` itself if it is a file.

    Raises:
        InvalidPath: a link to a directory, a socket or the like is in it.
        OSError: it cannot be read.
    """
    if not root.is_dir():
        return [_entry(root, "")]
    entries: list[SourceEntry] = []
    for directory, directories, files in os.walk(root, onerror=_raise):
        directories.sort()
        here = Path(directory)
        for name in [*directories, *files]:
            path = here / name
            entries.append(_entry(path, path.relative_to(root).as_posix()))
    return sorted(entries, key=lambda entry: entry.relative)


def _raise(error: OSError) -> None:
    raise error


def _entry(path: Path, relative: str) -> SourceEntry:
    found = path.stat()
    mtime_ms = found.st_mtime_ns // 1_000_000
    if stat.S_ISDIR(found.st_mode):
        if path.is_symlink():
            message = "a symbolic link to a directory is not sent; put the files themselves there"
            raise InvalidPath(message, path=str(path))
        return SourceEntry(relative, True, 0, mtime_ms, False)
    if not stat.S_ISREG(found.st_mode):
        raise InvalidPath("neither a file nor a directory", path=str(path))
    try:
        relative.encode()
    except UnicodeEncodeError as error:
        raise InvalidPath(
            "its name is not UTF-8", path=os.fsencode(path).decode(errors="replace")
        ) from error
    return SourceEntry(relative, False, found.st_size, mtime_ms, bool(found.st_mode & _EXECUTABLE))


def path_below(root: str, relative: str) -> str:
    """The path of an entry below a root; the root itself where it is a file."""
    return uris.join(root, relative) if relative else root
