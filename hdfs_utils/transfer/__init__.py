"""Copies files and trees between file systems, many in parallel; none ends half-written.

:func:`copy` does everything; ``put_*`` and ``get_*`` are it with the local disk at one end.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hdfs_utils.filesystem import FileSystem
from hdfs_utils.transfer.compare import Comparison, Difference, compare
from hdfs_utils.transfer.copy import copy
from hdfs_utils.transfer.options import MANIFEST, PIECE, SUCCESS, Options, TransferResult
from hdfs_utils.transfer.progress import NoProgress, Progress
from hdfs_utils.transfer.scan import scan_local
from hdfs_utils.transfer.sync import SyncResult, sync

__all__ = [
    "MANIFEST", "PIECE", "SUCCESS", "Comparison", "Difference", "NoProgress", "Options",
    "Progress", "SyncResult", "TransferResult", "compare", "copy", "get_file", "get_tree",
    "put_file", "put_tree", "sha256_tree", "sync",
]  # fmt: skip

THREADS = 8


def put_file(fs: FileSystem, local: str | Path, target: str, *, overwrite: bool = True) -> int:
    """Upload one file; returns its bytes.

    Raises:
        OSError: the local file cannot be read.
        HdfsError: the target cannot be written; it is then as it was.
    """
    options = Options(overwrite=overwrite, resume=False)
    return copy(_local(), _absolute(local), fs, target, options).size


def get_file(fs: FileSystem, source: str, local: str | Path) -> int:
    """Download one file, replacing ``local``; returns its bytes.

    Raises:
        OSError: the local file cannot be written; it is then as it was.
        HdfsError: the source cannot be read.
    """
    options = Options(overwrite=True, resume=False)
    return copy(fs, source, _local(), _absolute(local), options).size


def put_tree(
    fs: FileSystem,
    local: str | Path,
    target: str,
    *,
    threads: int = THREADS,
    options: Options | None = None,
    progress: Progress | None = None,
) -> TransferResult:
    """Upload a directory with everything below it.

    Symbolic links to files are followed. Empty directories and the executable bit are kept.

    Raises:
        AlreadyExists: the target is there.
        InvalidPath: a link to a directory, a socket or the like is in the tree.
        OSError: a local file cannot be read.
    """
    chosen = options or Options(threads=threads, resume=False)
    return copy(_local(), _absolute(local), fs, target, chosen, progress)


def get_tree(
    fs: FileSystem,
    source: str,
    local: str | Path,
    *,
    threads: int = THREADS,
    options: Options | None = None,
    progress: Progress | None = None,
) -> TransferResult:
    """Download a directory with everything below it; ``local`` must not exist.

    Raises:
        FileExistsError: ``local`` is there.
        HdfsError: the source cannot be read.
    """
    chosen = options or Options(threads=threads, resume=False)
    if Path(local).exists() and not chosen.overwrite:
        raise FileExistsError(f"{local} already exists")
    return copy(fs, source, _local(), _absolute(local), chosen, progress)


def sha256_tree(local: str | Path) -> str:
    """A hash of a file or of a directory's names, executable bits and contents.

    The same content gives the same hash whatever its place, times, owners or the order in which
    the disk lists it.

    Raises:
        InvalidPath: as :func:`put_tree`.
        OSError: a file cannot be read.
    """
    root = Path(local)
    digest = hashlib.sha256()
    for entry in scan_local(root):
        kind = "d" if entry.is_dir else ("x" if entry.is_executable else "f")
        digest.update(f"{kind} {len(os.fsencode(entry.relative))} ".encode())
        digest.update(os.fsencode(entry.relative))
        if not entry.is_dir:
            digest.update(_sha256_file(root / entry.relative))
    return digest.hexdigest()


def _sha256_file(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while piece := source.read(PIECE):
            digest.update(piece)
    return digest.digest()


def _local() -> FileSystem:
    from hdfs_utils.backends.local import LocalFileSystem

    return LocalFileSystem()


def _absolute(local: str | Path) -> str:
    return os.path.abspath(local)  # noqa: PTH100 - a link is to keep its own name
