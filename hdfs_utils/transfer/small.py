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
from hdfs_utils.transfer.values import MEMORY, SENDING
from hdfs_utils.transfer.workers import Crew, Stopped

# Refused for the moment (a busy DataNode, a lease of one's own): tried again after these pauses.
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)


class SmallFiles:
    """Writes whole files for the threads of a crew, of which only some send at a time."""

    def __init__(self, sink: FileSystem, crew: Crew, replication: int | None) -> None:
        self._sink = sink
        self._crew = crew
        self._replication = replication
        self._sending = threading.Semaphore(SENDING)
        self._memory = _Budget(MEMORY)

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
        # The client has a file's bytes until the DataNodes have acknowledged them: so do we count.
        with self._memory.of(size):
            with self._sending:
                self._crew.check()
                data = read()
                writer = self._sink.open_writer(target, True, self._replication)
                try:
                    writer.write(data)
                    writer.flush()
                except BaseException:
                    writer.abort()
                    raise
            crc = crc32c(data)
            del data
            writer.close()
        return crc


class _Budget:
    """At most so many bytes at a time; who wants more than there are at all goes alone."""

    def __init__(self, size: int) -> None:
        self._limit = self._left = size
        self._changed = threading.Condition()

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        size = min(size, self._limit)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= size)
            self._left -= size
        try:
            yield
        finally:
            with self._changed:
                self._left += size
                self._changed.notify_all()
