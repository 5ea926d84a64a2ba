"""Moves the entries of one source into a staging directory: small files, large ones, checks."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from hdfs_utils import uri as uris
from hdfs_utils.backends.local import LocalFileSystem
from hdfs_utils.concurrency.retry import retry
from hdfs_utils.concurrency.worker_pool import WorkerPool
from hdfs_utils.errors import CorruptData, HdfsError, NotSupported
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.protocols.checksums import combine_all, crc32c
from hdfs_utils.transfer.compare import storage_crcs
from hdfs_utils.transfer.file_copy import SmallFileWriter, copy_file, copy_range
from hdfs_utils.transfer.options import LARGE_PIECE, MEMORY, WAITING, Options, SourceEntry
from hdfs_utils.transfer.progress import Progress
from hdfs_utils.transfer.scan import path_below
from hdfs_utils.transfer.staging_dir import Finished, StagingDir, log_outage, rename_once

# Tries of one file before the transfer fails: a DataNode may have died in the middle.
TRIES = 3
# Below this a file read by a client that checks each chunk is not asked for again (verify: auto).
SMALL = 1 << 20
# Asked for together: the answers for more would only wait.
VERIFY_BATCH = 2000
# Hundreds of threads wait for completions: the address space of a container may be limited
# (yarn.nodemanager.vmem-check-enabled), and stacks of 8 MiB each would count.
SMALL_STACK = 512 << 10
# Beyond this many small files one call that settles the whole disk is quicker than one for each.
SETTLE_TOGETHER = 16


class TreeTransfer:
    """One transfer between two file systems."""

    def __init__(
        self,
        source: FileSystem,
        root: str,
        sink: FileSystem,
        staging: StagingDir,
        options: Options,
        progress: Progress,
    ) -> None:
        self._source = source
        self._root = root
        self._sink = sink
        self._staging = staging
        self._options = options
        self._progress = progress
        self._lock = threading.Lock()
        self.crcs: dict[str, int] = {}
        self.resumed = 0
        self.verified = 0
        self._unsettled: LocalFileSystem | None = None

    def run(self, entries: list[SourceEntry], base: str) -> None:
        """Bring all ``entries`` below ``base`` and check them."""
        for entry in entries:
            if entry.is_dir:
                self._sink.mkdirs(uris.join(base, entry.relative))
        files = [entry for entry in entries if not entry.is_dir]
        todo = [entry for entry in files if not self._is_finished(entry, base)]
        self._send(todo, base)
        self._check(files, base)
        if self._unsettled is not None:
            self._unsettled.settle(base)

    def _send(self, files: list[SourceEntry], base: str) -> None:
        limit = self._options.part
        large = [entry for entry in files if entry.size > limit]
        small = [entry for entry in files if entry.size <= limit]
        for entry in large:
            self._large(entry, base)
        tiny = [e for e in small if e.size <= LARGE_PIECE]
        rest = small
        if self._sink.capabilities.completes_slowly and len(tiny) > 1:
            self._tiny(tiny, base)
            rest = [e for e in small if e.size > LARGE_PIECE]
        elif isinstance(self._sink, LocalFileSystem) and len(tiny) > SETTLE_TOGETHER:
            self._near(tiny, base, self._sink)
            rest = [e for e in small if e.size > LARGE_PIECE]
        pool = WorkerPool(min(self._options.threads, max(len(rest), 1)))
        if rest:
            pool.run(lambda entry: self._small(entry, base, pool), rest)

    # -- small files

    def _small(self, entry: SourceEntry, base: str, pool: WorkerPool) -> None:
        target = path_below(base, entry.relative)

        def send() -> int:
            return self._copied(entry, target, pool)

        self._done(entry, target, self._retried(send))

    def _near(self, files: list[SourceEntry], base: str, sink: LocalFileSystem) -> None:
        """Many small files to a local disk, which is asked once at the end whether it has them."""
        self._unsettled = sink
        pool = WorkerPool(self._options.threads)

        def fetch(entry: SourceEntry) -> None:
            target = path_below(base, entry.relative)

            def send() -> int:
                data = self._read_whole(entry)
                sink.write_unsettled(target, data)
                return crc32c(data)

            crc = self._retried(send)
            self._progress.add(entry.size)
            self._done(entry, target, crc)

        pool.run(fetch, files)

    def _tiny(self, files: list[SourceEntry], base: str) -> None:
        # More threads than may have their file in memory would only cost memory of their own.
        at_once = MEMORY * len(files) // max(1, sum(entry.size for entry in files))
        threads = min(WAITING, len(files), max(self._options.threads, at_once))
        pool = WorkerPool(threads, stack=SMALL_STACK)
        small = SmallFileWriter(self._sink, pool, self._options.replication)

        def send(entry: SourceEntry) -> None:
            target = path_below(base, entry.relative)
            crc = self._retried(
                lambda: small.write(target, entry.size, lambda: self._read_whole(entry))
            )
            self._progress.add(entry.size)
            self._done(entry, target, crc)

        pool.run(send, files)

    def _read_whole(self, entry: SourceEntry) -> bytes:
        data = self._source.read_bytes(path_below(self._root, entry.relative))
        if len(data) != entry.size:
            message = f"has {len(data)} bytes and had {entry.size} when the transfer began"
            raise CorruptData(message, path=entry.relative, operation="transfer")
        return data

    def _retried(self, send: Callable[[], int]) -> int:
        """Again from the start after a break: nothing half-written is ever continued."""
        outage_s = min(self._source.limits.outage_s, self._sink.limits.outage_s)
        return retry(send, outage_s, on_failure=self._in_trouble, at_least=TRIES)

    def _in_trouble(self, error: HdfsError, spent_s: float) -> None:
        log_outage(error, spent_s)
        for fs in (self._source, self._sink):
            if fs.give_up_on(error):
                break

    def _done(self, entry: SourceEntry, target: str, crc: int) -> None:
        if entry.is_executable:
            self._sink.chmod(target, 0o755)
        with self._lock:
            self.crcs[entry.relative] = crc
        self._staging.note(entry.relative, Finished(entry.size, entry.mtime_ms, crc))
        self._progress.file_done()

    # -- resuming

    def _is_finished(self, entry: SourceEntry, base: str) -> bool:
        found = self._staging.finished.get(entry.relative)
        if found is None or (found.size, found.mtime_ms) != (entry.size, entry.mtime_ms):
            return False
        target = path_below(base, entry.relative)
        with contextlib.suppress(HdfsError):
            if self._sink.stat(target).length == entry.size:
                self.crcs[entry.relative] = found.crc
                self._resumed(entry.size)
                self._progress.file_done()
                return True
        return False

    def _resumed(self, size: int) -> None:
        with self._lock:
            self.resumed += size
        self._progress.add(size)

    # -- large files

    def _large(self, entry: SourceEntry, base: str) -> None:
        target = path_below(base, entry.relative)
        is_local = self._sink.capabilities.is_local
        crc = (self._large_get if is_local else self._large_put)(entry, target)
        self._done(entry, target, crc)

    def _large_get(self, entry: SourceEntry, target: str) -> int:
        """Read ranges in parallel and write each into its place of one file."""
        path = path_below(self._root, entry.relative)
        local = Path(self._sink.own_path(target))
        local.parent.mkdir(parents=True, exist_ok=True)
        # Smaller than the parts of a put: they are what the threads share.
        ranges = _ranges(entry.size, min(self._options.part, 64 << 20))
        crcs = [0] * len(ranges)
        descriptor = os.open(local, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, entry.size)
            pool = WorkerPool(min(self._options.threads, 4, len(ranges)))

            def fetch(index: int) -> None:
                offset, size = ranges[index]
                key = f"{entry.relative}\0{index}"
                found = self._staging.finished.get(key)
                is_there = found and (found.size, found.mtime_ms) == (size, entry.mtime_ms)
                # The state of the disk, whatever the journal says.
                if found and is_there and _crc_of(descriptor, offset, size) == found.crc:
                    crcs[index] = found.crc
                    self._resumed(size)
                    return

                def send() -> int:
                    return copy_range(
                        self._source, path, descriptor, offset, size,
                        pool=pool, progress=self._progress,
                    )  # fmt: skip

                crcs[index] = self._retried(send)
                self._staging.note(key, Finished(size, entry.mtime_ms, crcs[index]))

            pool.run(fetch, range(len(ranges)))
        finally:
            os.close(descriptor)
        return combine_all((crc, size) for crc, (_, size) in zip(crcs, ranges, strict=True))

    def _large_put(self, entry: SourceEntry, target: str) -> int:
        """Parts written as files of their own and joined; one stream where that is refused."""
        ranges = _ranges(entry.size, self._options.part)
        digest = hashlib.sha256(entry.relative.encode()).hexdigest()[:12]
        parts = [uris.join(self._staging.parts, f"{digest}-{i:05}") for i in range(len(ranges))]
        crcs = [0] * len(ranges)
        # Two more than send: a part is completed while the next is being sent.
        pool = WorkerPool(min(self._options.streams + 1, len(ranges)))
        sending = threading.Semaphore(self._options.streams)

        def send_part(index: int) -> None:
            _, size = ranges[index]
            found = self._staging.finished.get(f"{entry.relative}\0{index}")
            if found and (found.size, found.mtime_ms) == (size, entry.mtime_ms):
                with contextlib.suppress(HdfsError):
                    if self._sink.stat(parts[index]).length == size:
                        crcs[index] = found.crc
                        self._resumed(size)
                        return

            def send() -> int:
                return self._copied(entry, parts[index], pool, ranges[index], sending)

            crcs[index] = self._retried(send)
            key = f"{entry.relative}\0{index}"
            self._staging.note(key, Finished(size, entry.mtime_ms, crcs[index]))

        joined = self._joined_before(entry, parts[0], ranges)
        if joined is not None:
            crcs = joined
        else:
            pool.run(send_part, range(len(ranges)))
            try:
                self._sink.concat(parts[0], parts[1:])
            except NotSupported:
                return self._one_stream(entry, target)
        self._sink.mkdirs(uris.parent(target))
        rename_once(self._sink, parts[0], target, overwrite=True)
        return combine_all((crc, size) for crc, (_, size) in zip(crcs, ranges, strict=True))

    def _joined_before(
        self, entry: SourceEntry, first: str, ranges: list[tuple[int, int]]
    ) -> list[int] | None:
        """The parts' CRCs where an earlier run joined them and did not come to the rename."""
        found = [self._staging.finished.get(f"{entry.relative}\0{i}") for i in range(len(ranges))]
        known = [f for f in found if f is not None and f.mtime_ms == entry.mtime_ms]
        if len(known) < len(ranges) or [f.size for f in known] != [size for _, size in ranges]:
            return None
        with contextlib.suppress(HdfsError):
            if self._sink.stat(first).length == entry.size:
                self._resumed(entry.size)
                return [f.crc for f in known]
        return None

    def _one_stream(self, entry: SourceEntry, target: str) -> int:
        self._progress.add(-entry.size)
        pool = WorkerPool(1)
        crc = [0]

        def send(_: int) -> None:
            crc[0] = self._copied(entry, target, pool)

        pool.run(send, [0])
        return crc[0]

    def _copied(
        self,
        entry: SourceEntry,
        target: str,
        pool: WorkerPool,
        extent: tuple[int, int] | None = None,
        sending: contextlib.AbstractContextManager[object] | None = None,
    ) -> int:
        """The file, or offset and size of a part of it, sent once; its CRC32C."""
        return copy_file(
            self._source,
            path_below(self._root, entry.relative),
            self._sink,
            target,
            extent[1] if extent else entry.size,
            offset=extent[0] if extent else None,
            sending=sending,
            pool=pool,
            progress=self._progress,
            replication=self._options.replication,
        )

    # -- checking

    def _check(self, files: list[SourceEntry], base: str) -> None:
        """Compare what was sent with what the storage has; once more for what differs."""
        if self._options.verify == "none":
            return
        self._progress.phase("verifying")
        for fs, root in ((self._source, self._root), (self._sink, base)):
            wanted = [entry for entry in files if self._is_asked(fs, entry)]
            wrong = self._differing(fs, root, wanted)
            if not wrong:
                continue
            for entry in wrong:
                self._progress.add(-entry.size)
            self._send(wrong, base)
            still = self._differing(fs, root, wrong)
            if still:
                path = path_below(root, still[0].relative)
                message = "its checksum on the storage is not that of the bytes sent, twice"
                raise CorruptData(message, path=path, operation="verify")

    def _is_asked(self, fs: FileSystem, entry: SourceEntry) -> bool:
        if fs.capabilities.is_local or not entry.size:
            return False
        is_read_side = fs is self._source
        if self._options.verify == "full" or not is_read_side:
            return True
        return entry.size >= SMALL or not fs.capabilities.verifies_reads

    def _differing(self, fs: FileSystem, root: str, files: list[SourceEntry]) -> list[SourceEntry]:
        wrong: list[SourceEntry] = []
        for start in range(0, len(files), VERIFY_BATCH):
            batch = files[start : start + VERIFY_BATCH]
            paths = [path_below(root, entry.relative) for entry in batch]
            found = storage_crcs(fs, paths)
            if found is None:
                continue
            self.verified += len(batch)
            for entry, crc in zip(batch, found, strict=True):
                if crc != self.crcs[entry.relative]:
                    wrong.append(entry)
        return wrong


def _ranges(size: int, part: int) -> list[tuple[int, int]]:
    return [(start, min(part, size - start)) for start in range(0, size, part)]


def _crc_of(descriptor: int, offset: int, size: int) -> int:
    crc = 0
    end = offset + size
    while offset < end:
        data = os.pread(descriptor, min(LARGE_PIECE, end - offset), offset)
        if not data:
            return -1
        crc = crc32c(data, crc)
        offset += len(data)
    return crc
