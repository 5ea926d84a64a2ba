"""The part of a process that saves and restores: it writes its shards into the holder's memory, and
reads copies from there."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hdfs_utils.checkpoints.format.manifest import CHUNK, Checkpoint
from hdfs_utils.checkpoints.format.shard_file import Identity, chunks_of, end_of_shard
from hdfs_utils.checkpoints.format.values import FileRange, Source
from hdfs_utils.checkpoints.memory.copy_messages import (
    MAX_MESSAGE,
    CopyKey,
    WantedShard,
    decode,
    encode,
)
from hdfs_utils.checkpoints.memory.shared_memory import RangeReader, write_all
from hdfs_utils.errors import HdfsError, MalformedData
from hdfs_utils.protocols.checksums import crc32c
from hdfs_utils.protocols.untrusted import Record
from hdfs_utils.uri import name as last_part

_log = logging.getLogger("hdfs_utils.checkpoints")

CALL_S = 10.0
LEAST_RATE = 50 << 20
"""A call gets as long as its bytes take at this rate besides."""

MAX_TRIES = 3
"""Copies of one shard that may prove damaged before the storage is read."""

_TROUBLE = (OSError, MalformedData)


class MemoryUnavailable(Exception):
    """The holder refuses, or does not answer; the text says why."""


class CheckpointMemory:
    """The holder of this container. ``address``: its socket, ``@`` for the leading zero byte."""

    def __init__(self, address: str) -> None:
        self._socket: socket.socket | None = None
        self._address = address.replace("@", "\0", 1)
        self._lock = threading.Lock()
        self._noted = ""

    def __del__(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def hold(self, key: CopyKey, identity: Identity, given: Sequence[Source]) -> HeldShard | None:
        """Memory for a shard; None if there is none, which is a warning in the log."""
        try:
            return HeldShard(self, key, identity, given)
        except MemoryUnavailable as error:
            self.note(f"step {identity.step} is not kept in memory: {error}", str(error))
            return None

    def call(
        self, message: Mapping[str, Any], size: int = 0, *, wants_fd: bool = False
    ) -> tuple[Record, int]:
        """One request; the descriptor that came with its answer or -1. Raises MemoryUnavailable."""
        with self._lock:
            try:
                answer, fds = self._exchange(encode(message), CALL_S + size / LEAST_RATE)
            except _TROUBLE as error:
                if self._socket is not None:
                    self._socket.close()
                    self._socket = None
                why = getattr(error, "strerror", None) or str(error)
                raise MemoryUnavailable(f"the holder of the copies: {why}") from error
        why = answer.text("why", max_length=MAX_MESSAGE, default="")
        if why or wants_fd != bool(fds):
            for fd in fds:
                os.close(fd)
            raise MemoryUnavailable(why or "the holder of the copies sent no memory")
        return answer, fds[0] if fds else -1

    def note(self, text: str, reason: str) -> None:
        """A warning, once for each reason in a row."""
        if reason != self._noted:
            _log.warning("%s; restores read the storage", text)
        self._noted = reason

    def _exchange(self, data: bytes, limit_s: float) -> tuple[Record, list[int]]:
        if self._socket is None:
            opened = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                opened.settimeout(CALL_S)
                opened.connect(self._address)
            except OSError:
                opened.close()
                raise
            self._socket = opened
        self._socket.settimeout(limit_s)
        self._socket.sendall(data)
        flags = socket.MSG_CMSG_CLOEXEC
        reply, fds, _, _ = socket.recv_fds(self._socket, MAX_MESSAGE + 1, 4, flags)
        try:
            if not reply:
                raise ConnectionResetError("it has ended")
            return decode(reply), fds
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise


class HeldShard:
    """A shard on its way into memory: values one after the other, as the file will have them.

    Attributes:
        sources: what is to be uploaded; from memory as far as it is there.
    """

    def __init__(
        self, memory: CheckpointMemory, key: CopyKey, identity: Identity, given: Sequence[Source]
    ) -> None:
        """Raises MemoryUnavailable."""
        self._memory = memory
        self._key = key
        self._identity = identity
        self._data_length = sum(source.length for source in given)
        count = -(-self._data_length // CHUNK)
        self._size = self._data_length + len(end_of_shard(identity, given, [0] * count))
        _, self._fd = memory.call(
            {"do": "begin", "size": self._size, **key.plain}, self._size, wants_fd=True
        )
        self.sources: tuple[Source, ...] = tuple(given)
        self._is_failed = False

    def fill(self, *, changing_only: bool) -> None:
        """Copy the values into memory. ``changing_only``: only what the caller may change as soon
        as this returns. An error is noted, and leaves the rest where it is."""
        at, filled = 0, []
        for source in self.sources:
            content = source.content
            is_changing = isinstance(content, memoryview) and not source.is_frozen
            if not isinstance(content, FileRange) and (is_changing or not changing_only):
                source = self._filled(source, at)
            filled.append(source)
            at += source.length
        self.sources = tuple(filled)

    def _filled(self, source: Source, at: int) -> Source:
        if self._is_failed:
            return source
        target = at
        try:
            for piece in source.pieces():
                write_all(self._fd, piece, target)
                target += len(piece)
        except OSError as error:
            self._fail(error.strerror or str(error))
            return source
        return Source(source.name, source.length, FileRange(self._fd, at), source.array)

    def seal(self, chunks: Sequence[int] | None = None) -> None:
        """It is whole, uploaded or spooled. ``chunks``: the checksums, where they are known."""
        if not self._is_failed:
            try:
                if chunks is None:
                    chunks = [crc32c(piece) for piece in chunks_of(self.sources)]
                end = end_of_shard(self._identity, self.sources, chunks)
                write_all(self._fd, memoryview(end), self._data_length)
                self._memory.call({"do": "seal", **self._key.plain})
            except (OSError, HdfsError, MemoryUnavailable) as error:
                self._fail(str(error))
        self.close()

    def _fail(self, why: str) -> None:
        self._is_failed = True
        self._memory.note(f"step {self._identity.step} is not kept in memory: {why}", why)

    def close(self) -> None:
        """Let go of the memory; what could not be sealed is dropped."""
        if self._fd < 0:
            return
        os.close(self._fd)
        self._fd = -1
        if self._is_failed:
            with contextlib.suppress(MemoryUnavailable):
                self._memory.call({"do": "abandon", **self._key.plain})

    def abandon(self) -> None:
        """The save has failed."""
        self._is_failed = True
        self.close()


class CopyReader(RangeReader):
    """A reader of a copy. ``source``: ``memory`` of this node, or ``peer``; ``serial``: of the
    copies of this shard that were found one after the other."""

    def __init__(self, fd: int, size: int, source: str, serial: int) -> None:
        super().__init__(fd, size, owns=True)
        self.source = source
        self.serial = serial


class ShardCopies:
    """The copies of one checkpoint's shards, for a restore by many threads."""

    def __init__(self, memory: CheckpointMemory, root: str, checkpoint: Checkpoint) -> None:
        self._memory = memory
        self._root = root
        self._checkpoint = checkpoint
        self._lock = threading.Lock()
        self._found: dict[int, tuple[int, str] | None] = {}
        self._tries: Counter[int] = Counter()

    def open(self, number: int) -> CopyReader | None:
        """A reader of a copy; None if there is none."""
        with self._lock:
            if number not in self._found:
                self._found[number] = self._find(number)
            found = self._found[number]
            if found is None:
                return None
            fd, source = found
            length = self._checkpoint.shards[number].length
            return CopyReader(os.dup(fd), length, source, self._tries[number])

    def reject(self, number: int, reader: CopyReader) -> None:
        """The copy that was read is damaged: the next one is searched for."""
        with self._lock:
            found = self._found.get(number)
            if found is None or reader.serial != self._tries[number]:
                return  # another thread has said so
            os.close(found[0])
            del self._found[number]
            self._tries[number] += 1
            with contextlib.suppress(MemoryUnavailable):
                self._memory.call({"do": "reject", **self._key(number).plain})

    def close(self) -> None:
        with self._lock:
            for found in self._found.values():
                if found is not None:
                    os.close(found[0])
            self._found.clear()

    def _key(self, number: int) -> CopyKey:
        checkpoint = self._checkpoint
        return CopyKey(self._root, last_part(checkpoint.path), checkpoint.shards[number].file)

    def _find(self, number: int) -> tuple[int, str] | None:
        if self._tries[number] >= MAX_TRIES:
            return None
        shard = self._checkpoint.shards[number]
        wanted = WantedShard(self._key(number), shard.length, shard.crc32c)
        try:
            answer, fd = self._memory.call(
                {"do": "find", **wanted.plain}, shard.length, wants_fd=True
            )
        except MemoryUnavailable as error:
            _log.info("%s of %s: %s", shard.file, wanted.key.name, error)
            return None
        return fd, answer.text("from", max_length=20, default="memory")
