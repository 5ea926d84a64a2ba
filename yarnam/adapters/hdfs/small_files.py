"""Small files to HDFS in a tenth of the native client's time.

The native client's close waits half a second for the NameNode's second answer, asleep; a DataNode
that is asked over HTTP has the file in some 40 ms. Where HTTP does not get through, the native
client writes the file.

A request that was given up on may still be carried out, seconds later. It must not touch the file
by then: YARN refuses a file whose time of modification differs from the one in its request. So a
request writes to a name of its own, and the file gets its place by a rename, which keeps that time.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress

from hdfs_utils import FileSystem, HdfsError, TimeLimits
from hdfs_utils import uri as uris
from hdfs_utils.errors import AlreadyExists, NotFound, NotSupported, PermissionDenied, Unavailable
from hdfs_utils.filesystem import Content
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.wire.codec import MAX_BYTES

HTTP_LIMITS = TimeLimits.all(4.0)
"""A DataNode that cannot be reached from here is given up on after this long, once."""

_log = logging.getLogger(__name__)


def put_once(files: FileSystem, target: str, content: Content) -> None:
    """Write what is named by its content: whoever is first wins, and the other's copy is the same.
    Raises HdfsError."""
    with suppress(AlreadyExists):
        files.write_atomic(target, content, overwrite=False)


def read_if_exists(files: FileSystem, path: str) -> bytes | None:
    """A file that a job or a client has written; ``None`` if it does not exist. Raises
    YarnamError."""
    with hdfs_errors(f"reading {path}"), suppress(NotFound):
        return files.read_bytes(path, max_bytes=MAX_BYTES)
    return None


def clock_s(files: FileSystem, directory: str) -> float:
    """The NameNode's clock, which the times of files are by; ``directory`` may be written to.
    Raises YarnamError."""
    probe = f"{directory}/.clock-{secrets.token_hex(4)}"
    with hdfs_errors(f"making {probe}"):
        files.mkdirs(probe, 0o700)
        try:
            return files.stat(probe).mtime_ms / 1000
        finally:
            with suppress(HdfsError):
                files.delete(probe, recursive=True)


class SmallFiles:
    """Writes small files. Safe to share between threads.

    Args:
        files: writes what HTTP does not.
        open_web: the same file system over HTTP, or None where it should not be tried.
    """

    def __init__(self, files: FileSystem, open_web: Callable[[], FileSystem] | None = None) -> None:
        self.files = files
        self._open_web = open_web
        self._web: FileSystem | None = None
        self._lock = threading.Lock()

    def put(self, path: str, data: bytes, *, overwrite: bool = True) -> None:
        """Write a file in place, over an older one. Raises HdfsError; AlreadyExists without
        ``overwrite``, where of several writers one succeeds."""
        plain = self.files.own_path(path)
        web = self._connected()
        if web is not None:
            name = uris.cut_name(f".{uris.name(plain)}", f".{secrets.token_hex(6)}")
            draft = uris.join(uris.parent(plain), name)
            try:
                web.write_bytes(draft, data)
            except (Unavailable, NotSupported, PermissionDenied) as error:
                # PermissionDenied: what HTTP lets in is not always who the NameNode lets in.
                self._give_up(error)
                with suppress(HdfsError):
                    self.files.delete(draft)
            except HdfsError:
                # Also one without room for its block is there, empty.
                with suppress(HdfsError):
                    self.files.delete(draft)
                raise
            else:
                try:
                    self.files.rename(draft, plain, overwrite=overwrite)
                except AlreadyExists:
                    self.files.delete(draft)
                    raise
                return
        if overwrite:
            self.files.write_bytes(plain, data, overwrite=True)
        else:
            self.files.write_atomic(plain, data, overwrite=False)

    def _connected(self) -> FileSystem | None:
        with self._lock:
            if self._web is None and self._open_web is not None:
                try:
                    self._web = self._open_web()
                except HdfsError as error:
                    self._open_web = None
                    _log.info("small files go by the native client: %s", error)
            return self._web

    def _give_up(self, error: HdfsError) -> None:
        _log.info("small files go by the native client from now on: %s", error)
        with self._lock:
            self._web = self._open_web = None
