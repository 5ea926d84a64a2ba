"""Many small files written at once by the native client.

Each file waits about half a second for its completion after its bytes are safe, whatever the
site's settings (hdfs-native 0.14.7). So a few send while hundreds wait, on one thread, as
coroutines: 2,000 files of 100 KiB take as long as 128 threads would, in a third of the memory.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from hdfs_utils.errors import HdfsError, Unavailable
from hdfs_utils.filesystem import TimeLimits
from hdfs_utils.native_errors import translate
from hdfs_utils.transfer.values import SENDING, WAITING, Options

if TYPE_CHECKING:
    import hdfs_native

# Refused for the moment (a busy DataNode, a lease of one's own): tried again after these pauses.
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)


def write_all(
    client: hdfs_native.AsyncClient,
    items: Iterable[tuple[str, Callable[[], bytes], Callable[[], None]]],
    where: str,
    limits: TimeLimits,
    options: Options,
    stopping: threading.Event,
) -> None:
    """Write each ``(path, read, done)``: ``read`` gives the bytes, ``done`` is told of the end.

    Raises:
        HdfsError: of the first file that cannot be written; some others are then half-written.
    """
    asyncio.run(_Bulk(client, where, limits, options, stopping).run(items))


class _Bulk:
    def __init__(
        self,
        client: hdfs_native.AsyncClient,
        where: str,
        limits: TimeLimits,
        options: Options,
        stopping: threading.Event,
    ) -> None:
        from hdfs_native import WriteOptions

        self._client: Any = client.inner
        self._where = where
        self._limits = limits
        self._options = WriteOptions(
            replication=options.replication, overwrite=True, create_parent=True
        )
        self._stopping = stopping
        self._sending = asyncio.Semaphore(SENDING)
        self._waiting = asyncio.Semaphore(WAITING)

    async def run(
        self, items: Iterable[tuple[str, Callable[[], bytes], Callable[[], None]]]
    ) -> None:
        tasks: set[asyncio.Task[None]] = set()
        failed: list[BaseException] = []

        def ended(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            self._waiting.release()
            if not task.cancelled() and (error := task.exception()) is not None:
                failed.append(error)

        try:
            for path, read, done in items:
                await self._waiting.acquire()
                if failed or self._stopping.is_set():
                    break
                task = asyncio.create_task(self._one(path, read, done))
                tasks.add(task)
                task.add_done_callback(ended)
            while tasks and not failed and not self._stopping.is_set():
                await asyncio.wait(tasks, timeout=0.5, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if failed:
            raise failed[0]

    async def _one(self, path: str, read: Callable[[], bytes], done: Callable[[], None]) -> None:
        silences = 0
        for pause_s in (*PAUSES_S, None):
            try:
                await self._write(path, read)
            except HdfsError as error:
                silences += isinstance(error.cause, asyncio.TimeoutError)
                # Each silence lasted a whole limit: twice is enough to wait for.
                if not error.retriable or pause_s is None or silences > 1:
                    raise
                await asyncio.sleep(pause_s)
            else:
                done()
                return

    async def _write(self, path: str, read: Callable[[], bytes]) -> None:
        operation = "create"
        try:
            async with self._sending:
                data = read()
                writer = await asyncio.wait_for(
                    self._client.create(path, self._options), self._limits.metadata_s
                )
                operation = "write"
                if data:
                    await asyncio.wait_for(writer.write(data), self._limits.data_s)
                del data
            operation = "close"
            await asyncio.wait_for(writer.close(), self._limits.close_s)
        except asyncio.TimeoutError as error:
            message = f"{self._where}: no answer in time; the NameNode or a DataNode hangs"
            raise Unavailable(
                message, path=path, operation=operation, outcome_unknown=True
            ) from error
        except (HdfsError, asyncio.CancelledError, OSError):
            raise
        except Exception as error:
            raise translate(error, operation, path, self._where) from error
