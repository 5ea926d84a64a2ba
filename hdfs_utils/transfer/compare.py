"""Checksums that a storage keeps of its files, and the comparison of trees by them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from hdfs_utils.concurrency.worker_pool import WorkerPool
from hdfs_utils.errors import NotSupported
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.protocols.checksums import Crc32c, Md5OfCrc
from hdfs_utils.transfer.options import LARGE_PIECE, MANIFEST, SUCCESS
from hdfs_utils.transfer.progress import NoProgress, Progress
from hdfs_utils.transfer.scan import path_below, scan

_log = logging.getLogger(__name__)
_THREADS = 4
_SLICE = 250
# FileChecksum over HTTP: bytes per CRC (4), CRCs per block (8), MD5 (16).
_MD5_AT = slice(24, 56)


def storage_crcs(fs: FileSystem, paths: Sequence[str]) -> list[int] | None:
    """CRC32C of each file as the storage has it, or None where it cannot tell.

    Where it can tell only MD5-of-CRC (HTTP alone), the files are read for their CRC32C, which is
    believed where their MD5-of-CRC fits.
    """
    slices = [paths[start : start + _SLICE] for start in range(0, len(paths), _SLICE)]
    found: list[Sequence[int]] = [()] * len(slices)
    pool = WorkerPool(min(_THREADS, len(slices)) or 1)

    def ask(index: int) -> None:
        found[index] = fs.crc32c(slices[index])

    try:
        pool.run(ask, range(len(slices)))
    except NotSupported as error:
        if not fs.capabilities.reports_md5_of_crc:
            _log.warning("not verified against the storage's checksums: %s", error)
            return None
        return [_by_reading(fs, path) for path in paths]
    return [crc for part in found for crc in part]


def _by_reading(fs: FileSystem, path: str) -> int:
    status = fs.stat(path)
    md5, crc = Md5OfCrc(status.block_size), Crc32c()
    with fs.open_reader(path) as reader:
        while data := reader.read(LARGE_PIECE):
            crc.update(data)
            md5.update(data)
    told = fs.checksum(path)
    if status.length and told.value[_MD5_AT] != md5.hexdigest():
        return -1
    return crc.value


@dataclass(frozen=True, slots=True)
class Difference:
    """How two entries differ: ``missing``, ``extra``, ``size`` or ``checksum``."""

    relative: str
    what: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two trees compare; ``method`` says by what: ``crc32c`` or ``length``."""

    files: int
    size: int
    method: str
    differences: tuple[Difference, ...]


def compare(
    source: FileSystem,
    path: str,
    other: FileSystem,
    other_path: str,
    progress: Progress | None = None,
) -> Comparison:
    """Compare a file or tree with its copy by the CRC32C of every file; bytes of HDFS stay there.

    ``_SUCCESS`` and the manifest of a copied tree do not count as differences.
    """
    told = progress or NoProgress()
    mine = {e.relative: e for e in scan(source, path) if not e.is_dir}
    theirs = {e.relative: e for e in scan(other, other_path) if not e.is_dir}
    for name in (SUCCESS, MANIFEST):
        if name not in mine:
            theirs.pop(name, None)
    differences = [Difference(name, "missing") for name in sorted(mine.keys() - theirs.keys())]
    differences += [Difference(name, "extra") for name in sorted(theirs.keys() - mine.keys())]
    both = sorted(mine.keys() & theirs.keys())
    differences += [Difference(n, "size") for n in both if mine[n].size != theirs[n].size]
    same = [name for name in both if mine[name].size == theirs[name].size]
    told.begin(len(same), sum(mine[name].size for name in same))
    method = "crc32c"
    left = _crcs(source, path, same, told)
    right = _crcs(other, other_path, same, NoProgress())
    if left is None or right is None:
        method = "length"
    else:
        differences += [
            Difference(name, "checksum")
            for name, a, b in zip(same, left, right, strict=True)
            if a != b
        ]
    told.end()
    size = sum(entry.size for entry in mine.values())
    return Comparison(len(mine), size, method, tuple(differences))


def _crcs(fs: FileSystem, root: str, names: list[str], progress: Progress) -> list[int] | None:
    if not fs.capabilities.is_local:
        return storage_crcs(fs, [path_below(root, name) for name in names])
    found = dict.fromkeys(names, 0)
    lock = threading.Lock()
    pool = WorkerPool(2)

    def read(name: str) -> None:
        crc = Crc32c()
        with fs.open_reader(path_below(root, name)) as reader:
            while data := reader.read(LARGE_PIECE):
                pool.check()
                crc.update(data)
                progress.add(len(data))
        with lock:
            found[name] = crc.value
        progress.file_done()

    pool.run(read, names)
    return list(found.values())
