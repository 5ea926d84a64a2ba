"""Many small files as a few tar files (webdataset) with an index.

Small files are slow on HDFS whatever the client: each is a question to the NameNode, a connection
and, when written, a wait. Shards are read and written at the rate of large files. Files whose names
are the same up to the first dot of their last part (``a/7.jpg``, ``a/7.json``) are one sample and
stay together, as webdataset wants it. The same files give the same shards, byte for byte.
"""

from __future__ import annotations

import contextlib
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hdfs_utils import uri as uris
from hdfs_utils.concurrency.worker_pool import WorkerPool
from hdfs_utils.errors import AlreadyExists, CorruptData, HdfsError
from hdfs_utils.filesystem import FileSystem, Writer
from hdfs_utils.protocols.checksums import crc32c
from hdfs_utils.transfer.compare import storage_crcs
from hdfs_utils.transfer.options import PIECE, SUCCESS, Options, SourceEntry
from hdfs_utils.transfer.progress import NoProgress, Progress
from hdfs_utils.transfer.scan import path_below, scan
from hdfs_utils.transfer.staging_dir import claim_staging, rename_once

INDEX = "index.jsonl"
DEFAULT_SIZE = 256 << 20
_THREADS = 2
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class ShardResult:
    """How many shards were written, how many files they hold, and the bytes of these files."""

    shards: int
    files: int
    size: int


@dataclass(frozen=True, slots=True)
class _Member:
    path: str
    offset: int
    size: int
    crc: int


def pack_shards(
    source: FileSystem,
    path: str,
    sink: FileSystem,
    target: str,
    *,
    size: int = DEFAULT_SIZE,
    name: str = "shard",
    options: Options | None = None,
    progress: Progress | None = None,
) -> ShardResult:
    """Pack every file below ``path`` into ``target/shard-000000.tar`` and so on.

    ``target/index.jsonl`` has a line for each file: shard, path, offset of its bytes in the shard,
    size, CRC32C; so a file can be read by range without the rest. The directory appears whole.

    Args:
        source: where the files are.
        path: their directory.
        sink: where the shards go.
        target: their directory; must not be there.
        size: of a shard, bytes; a larger sample gets one of its own.
        name: what the names of the shards begin with.
        options: ``verify`` counts.
        progress: receives the progress.

    Raises:
        AlreadyExists: the target is there.
        CorruptData: a file changed meanwhile, or a shard's checksum on the storage differs.
    """
    options, progress = options or Options(), progress or NoProgress()
    plain, goal = source.own_path(path), sink.own_path(target)
    if sink.exists(goal):
        raise AlreadyExists("already exists", path=goal, operation="shard")
    files = [entry for entry in scan(source, plain) if not entry.is_dir]
    total = sum(entry.size for entry in files)
    progress.begin(len(files), total)
    shards = list(_divided(files, size))
    names = [f"{name}-{number:06}.tar" for number in range(len(shards))]
    identity = f"shard\n{source.uri}{plain}\n{goal}"
    staging = claim_staging(sink, goal, identity, replace(options, resume=False))
    paths = [uris.join(staging.tree, shard_name) for shard_name in names]
    pool = WorkerPool(min(_THREADS, max(len(shards), 1)))
    found: dict[int, tuple[int, list[_Member]]] = {}

    def pack(number: int) -> None:
        found[number] = _pack(
            source, plain, sink, paths[number], shards[number], pool, progress, options
        )

    try:
        sink.mkdirs(staging.tree)
        pool.run(pack, range(len(shards)))
        if options.verify != "none" and paths:
            progress.phase("verifying")
            _verify(sink, paths, [found[number][0] for number in range(len(shards))])
        members = [(names[number], found[number][1]) for number in range(len(shards))]
        sink.write_bytes(uris.join(staging.tree, INDEX), _index(members))
        sink.write_bytes(uris.join(staging.tree, SUCCESS), b"")
        rename_once(sink, staging.tree, goal, overwrite=False)
    finally:
        with contextlib.suppress(HdfsError):
            staging.remove()
    progress.end()
    return ShardResult(len(shards), len(files), total)


def _verify(sink: FileSystem, paths: list[str], sent: list[int]) -> None:
    """Raises CorruptData. A storage without checksums has nothing to compare."""
    stored = storage_crcs(sink, paths)
    for path, crc, expected in zip(paths, stored or sent, sent, strict=True):
        if crc != expected:
            message = "its checksum on the storage is not that of the bytes sent"
            raise CorruptData(message, path=path, operation="shard")


def _index(shards: list[tuple[str, list[_Member]]]) -> bytes:
    """One line of JSON for each file, in the order of the shards."""
    lines = [
        json.dumps(
            {
                "shard": shard,
                "path": member.path,
                "offset": member.offset,
                "size": member.size,
                "crc32c": f"{member.crc:08x}",
            },
            ensure_ascii=False,
        )
        for shard, members in shards
        for member in members
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def _divided(files: list[SourceEntry], size: int) -> Iterator[list[SourceEntry]]:
    current: list[SourceEntry] = []
    weight = 0
    for sample in _samples(files):
        # Header and padding of each member.
        more = sum(entry.size + 2 * _BLOCK for entry in sample)
        if current and weight + more > size:
            yield current
            current, weight = [], 0
        current += sample
        weight += more
    if current:
        yield current


def _samples(files: list[SourceEntry]) -> Iterator[list[SourceEntry]]:
    by_key: dict[str, list[SourceEntry]] = {}
    for entry in files:
        directory, _, last = entry.relative.rpartition("/")
        key = f"{directory}/{last.split('.', 1)[0] or last}"
        by_key.setdefault(key, []).append(entry)
    yield from by_key.values()


class _Tar:
    """Writes a tar to a writer and keeps the CRC32C of it all."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.crc = 0
        self.position = 0

    def write(self, data: bytes) -> None:
        self.crc = crc32c(data, self.crc)
        self._writer.write(data)
        self.position += len(data)


def _pack(
    source: FileSystem,
    root: str,
    sink: FileSystem,
    target: str,
    files: list[SourceEntry],
    pool: WorkerPool,
    progress: Progress,
    options: Options,
) -> tuple[int, list[_Member]]:
    members = []
    with sink.open_writer(target, replication=options.replication) as writer:
        tar = _Tar(writer)
        for entry in files:
            pool.check()
            info = tarfile.TarInfo(entry.relative)
            info.size = entry.size
            info.mtime = entry.mtime_ms // 1000
            info.mode = 0o755 if entry.is_executable else 0o644
            tar.write(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict"))
            begin = tar.position
            crc = _append(source, path_below(root, entry.relative), tar, entry, progress)
            members.append(_Member(entry.relative, begin, entry.size, crc))
            tar.write(bytes(-entry.size % _BLOCK))
            progress.file_done()
        tar.write(bytes(2 * _BLOCK))
        tar.write(bytes(-tar.position % tarfile.RECORDSIZE))
    return tar.crc, members


def _append(
    source: FileSystem, path: str, tar: _Tar, entry: SourceEntry, progress: Progress
) -> int:
    crc = sent = 0
    with source.open_reader(path) as reader:
        while data := reader.read(PIECE):
            crc = crc32c(data, crc)
            sent += len(data)
            if sent > entry.size:
                break
            tar.write(data)
            progress.add(len(data))
    if sent != entry.size:
        message = f"had {entry.size} bytes and changed while it was packed"
        raise CorruptData(message, path=path, operation="shard")
    return crc
