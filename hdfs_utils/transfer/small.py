"""Many small files written at once to a storage that is slow to say that a file is complete.

Each file waits about half a second for its completion after its bytes are safe, whatever the
site's settings (hdfs-native 0.14.7). So a few threads send while many wait, asleep.

Why not coroutines: the native client's are polled with Python's global lock held, on the thread of
the event loop, while its own threads take that lock to wake them. Whichever of its locks or joins
the two meet in, they wait for each other for ever, and with them the process (seen at the end of a
transfer, when the client's threads are joined by whoever drops it). Its blocking calls let go of
the lock first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hdfs_utils.checksums import crc32c
from hdfs_utils.errors import HdfsError
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.transfer.values import SENDING, SENDING_BYTES
from hdfs_utils.transfer.workers import Crew, Stopped

# Refused for the moment (a busy DataNode, a lease of one's own): tried again after these pauses.
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)


class SmallFiles:
    """Writes whole files for the threads of a crew, of which only some send at a time."""

    def __init__(self, sink: FileSystem, crew: Crew, replication: int | None) -> None:
        self._sink = sink
        self._crew = crew
        self._replication = replication
        self._sending = _Turns(SENDING, SENDING_BYTES)

    def write(self, target: str, size: int, read: Callable[[], bytes]) -> int:
        """Write what ``read`` gives, again after a pause where that may help; its CRC32C.

        ``size`` is about how many bytes that will be: it limits how many are in memory at a time.

        Raises:
            HdfsError: the last refusal.
            Stopped: the transfer has ended.
        """
        for pause_s in PAUSES_S:
            try:
                return self._once(target, size, read)
            except HdfsError as error:
                if not error.retriable:
                    raise
            if self._crew.stopping.wait(pause_s):
                raise Stopped
        return self._once(target, size, read)

    def _once(self, target: str, size: int, read: Callable[[], bytes]) -> int:
        with self._sending.of(size):
            self._crew.check()
            data = read()
            writer = self._sink.open_writer(target, True, self._replication)
            try:
                writer.write(data)
                flush = getattr(writer, "flush", None)
                if flush is not None:
                    flush()
            except BaseException:
                writer.abort()
                raise
        crc = crc32c(data)
        del data  # hundreds of threads hold none while they wait
        writer.close()
        return crc


class _Turns:
    """At most so many at a time, and at most so many bytes; who is larger than that goes alone."""

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._limit = self._size = size
        self._changed = threading.Condition()

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        size = min(size, self._limit)
        with self._changed:
            self._changed.wait_for(lambda: self._count > 0 and self._size >= size)
            self._count -= 1
            self._size -= size
        try:
            yield
        finally:
            with self._changed:
                self._count += 1
                self._size += size
                self._changed.notify_all()
