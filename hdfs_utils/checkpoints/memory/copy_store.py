"""Which copies a holder has, and which of them give way to new ones."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hdfs_utils.checkpoints.memory.copy_messages import CopyKey, WantedShard
from hdfs_utils.checkpoints.memory.shared_memory import MemoryFile

PEERS_SHARE = 0.5
"""The part of the limit that copies of other nodes may take."""


class NoSpace(Exception):
    """A copy is not kept; the text says why, and what helps."""


@dataclass(eq=False)
class MemoryCopy:
    """One shard of one save.

    Attributes:
        key: of which save.
        length: of the shard, in bytes.
        memory: where it is.
        is_of_peer: another node's.
        crc32c: of all of it; None until it is whole.
        sent_to: the peer that has it as well; empty if there is none.
        readers: threads of the holder that read it now.
        is_recalled: they should stop, since its memory is needed.
    """

    key: CopyKey
    length: int
    memory: MemoryFile
    is_of_peer: bool
    crc32c: int | None = None
    sent_to: str = ""
    readers: int = 0
    is_dropped: bool = False
    is_recalled: bool = False


class CopyStore:
    """The copies of one holder. For many threads.

    Of each shard it has the save being written, the newest whole one, and the one before as long as
    there is space: the newest may not be committed yet. A save that is older than two whole ones of
    its directory goes, whatever wrote it.

    Args:
        limit: of all memory together, in bytes.
        free_bytes: how much more the container may use by now.
        new_memory: raises OSError where there is none.
    """

    def __init__(
        self,
        limit: int,
        free_bytes: Callable[[], int],
        new_memory: Callable[[int], MemoryFile] = MemoryFile,
    ) -> None:
        self._limit = limit
        self._free_bytes = free_bytes
        self._new_memory = new_memory
        self._lock = threading.RLock()
        self._copies: dict[CopyKey, MemoryCopy] = {}
        self._busy: list[MemoryCopy] = []
        """Dropped, but still read."""
        self._spare: dict[bool, list[MemoryFile]] = {False: [], True: []}
        """Memory to use again, for copies of this node and of others: to make memory costs more
        than to fill it."""
        self._promised = 0
        """Bytes of memory that is being made."""

    @property
    def size(self) -> int:
        """Bytes of memory, spare memory included."""
        with self._lock:
            return self._promised + sum(memory.capacity for memory in self._memories())

    def begin(self, key: CopyKey, length: int, *, is_of_peer: bool = False) -> MemoryCopy:
        """Memory for a copy that is about to be written. Raises NoSpace."""
        with self._lock:
            memory = self._spare_or_promise(key, length, is_of_peer)
        memory = memory or self._made(length)
        with self._lock:
            if (again := self._copies.get(key)) is not None:
                self._drop(again)
            copy = MemoryCopy(key, length, memory, is_of_peer)
            self._copies[key] = copy
            return copy

    def prepare(self, copy: MemoryCopy) -> None:
        """Make memory for the next save of a shard, if there is none: a save must not wait for it.
        Raises NoSpace."""
        with self._lock:
            if self._fitting_spare(copy.length, copy.is_of_peer):
                return
            self._promise(copy.length, copy.is_of_peer, may_drop=False)
        memory = self._made(copy.length)
        memory.count()
        with self._lock:
            self._spare[copy.is_of_peer].append(memory)

    def seal(self, copy: MemoryCopy, crc32c: int) -> None:
        """It is whole now, unless it was dropped meanwhile."""
        with self._lock:
            if copy.is_dropped:
                return
            copy.crc32c = crc32c
            root = copy.key.root
            whole = {
                k.order for k, c in self._copies.items() if k.root == root and c.crc32c is not None
            }
            for order in sorted(whole, reverse=True)[2:]:
                for key in [k for k in self._copies if k.root == root and k.order == order]:
                    self._drop(self._copies[key])

    def at(self, key: CopyKey) -> MemoryCopy | None:
        with self._lock:
            return self._copies.get(key)

    def find(self, wanted: WantedShard) -> MemoryCopy | None:
        """A whole copy of just these bytes."""
        copy = self.at(wanted.key)
        if copy is None or (copy.length, copy.crc32c) != (wanted.length, wanted.crc32c):
            return None
        return copy

    @contextlib.contextmanager
    def reading(self, copy: MemoryCopy) -> Iterator[None]:
        """Its memory is not used for anything else meanwhile."""
        with self._lock:
            if copy.is_dropped:
                raise NoSpace("the copy has given way to another one")
            copy.readers += 1
        try:
            yield
        finally:
            with self._lock:
                copy.readers -= 1
                if copy in self._busy and not copy.readers:
                    self._busy.remove(copy)
                    copy.memory.close()

    def drop(self, copy: MemoryCopy) -> None:
        with self._lock:
            if not copy.is_dropped:
                self._drop(copy)

    def unsent(self, peer: str) -> list[MemoryCopy]:
        """Newest whole copies of this node that this peer does not have."""
        with self._lock:
            newest: dict[tuple[str, str], MemoryCopy] = {}
            for key, copy in self._copies.items():
                if copy.is_of_peer or copy.crc32c is None:
                    continue
                known = newest.get((key.root, key.file))
                if known is None or known.key.order < key.order:
                    newest[(key.root, key.file)] = copy
            return [copy for copy in newest.values() if copy.sent_to != peer]

    def shed(self, excess: int) -> int:
        """Give back ``excess`` bytes: spare memory first, then copies of other nodes, then this
        node's, the oldest first. Returns how many copies that cost."""
        with self._lock:
            left = self.size - excess
            dropped = 0
            self._close_spare()
            order = sorted(self._copies.values(), key=lambda c: (not c.is_of_peer, c.key.order))
            for copy in order:
                if self.size <= left:
                    break
                self._drop(copy)
                self._close_spare()
                dropped += 1
            return dropped

    # ---- with the lock -------------------------------------------------------------------

    def _memories(self) -> Iterator[MemoryFile]:
        yield from (copy.memory for copy in (*self._copies.values(), *self._busy))
        for spare in self._spare.values():
            yield from spare

    def _spare_or_promise(self, key: CopyKey, length: int, is_of_peer: bool) -> MemoryFile | None:
        """Memory to use again; None if new memory is to be made, which is allowed for then."""
        for keep in (2, 1):
            for old in self._replaced_by(key, is_of_peer, keep):
                self._drop(old)
            if (spare := self._taken_from_spare(length, is_of_peer)) is not None:
                return spare
            try:
                self._promise(length, is_of_peer)
            except NoSpace:
                if not self._replaced_by(key, is_of_peer, keep=1):
                    raise
            else:
                return None
        raise AssertionError("the last try returns or raises")

    def _replaced_by(self, key: CopyKey, is_of_peer: bool, keep: int) -> list[MemoryCopy]:
        """All saves of a shard but the newest whole ones."""
        same = [
            copy
            for other, copy in self._copies.items()
            if (other.root, other.file) == (key.root, key.file) and copy.is_of_peer == is_of_peer
        ]
        whole = [copy for copy in same if copy.crc32c is not None and copy.key != key]
        newest = sorted(whole, key=lambda copy: copy.key.order)[-keep:]
        again = self._copies.get(key)
        gone = [copy for copy in same if copy not in newest]
        return gone + ([again] if again is not None and again not in gone else [])

    def _fitting_spare(self, length: int, is_of_peer: bool) -> list[MemoryFile]:
        """Not much larger than needed: the rest would lie idle."""
        spare = self._spare[is_of_peer]
        return [m for m in spare if length <= m.capacity <= 2 * length + (8 << 20)]

    def _taken_from_spare(self, length: int, is_of_peer: bool) -> MemoryFile | None:
        fit = self._fitting_spare(length, is_of_peer)
        if not fit:
            return None
        found = min(fit, key=lambda memory: memory.capacity)
        self._spare[is_of_peer].remove(found)
        return found

    def _promise(self, length: int, is_of_peer: bool, *, may_drop: bool = True) -> None:
        """Allow for memory that will be made. Raises NoSpace."""
        try:
            self._check_space(length, is_of_peer)
        except NoSpace:
            if not may_drop:
                raise
            self._close_spare()
            if not is_of_peer:
                self._make_way(length)
            for copy in self._busy:
                copy.is_recalled = True
            self._check_space(length, is_of_peer)
        self._promised += length

    def _check_space(self, length: int, is_of_peer: bool) -> None:
        of_peers = [c for c in (*self._copies.values(), *self._busy) if c.is_of_peer]
        used, limit = self.size, self._limit
        if is_of_peer and used + length <= limit:
            used = sum(copy.memory.capacity for copy in of_peers)
            limit = int(self._limit * PEERS_SHARE)
        if used + length > limit:
            raise NoSpace(
                f"a copy of {mib(length)} does not fit into {mib(limit)}, the share of the "
                f"container's memory for copies, of which {mib(used)} are used; raise the memory "
                "of the task"
            )
        uncounted = sum(m.capacity for m in self._memories() if not m.is_counted)
        free = self._free_bytes() - uncounted - self._promised
        if length > free:
            raise NoSpace(
                f"a copy of {mib(length)} does not fit: of the container's memory "
                f"{mib(max(0, free))} are free; raise the memory of the task"
            )

    def _made(self, length: int) -> MemoryFile:
        """Make promised memory, without the lock: some gigabytes take a second."""
        try:
            return self._new_memory(length)
        except OSError as error:
            why = error.strerror or str(error)
            raise NoSpace(f"the node has no memory for a copy of {mib(length)}: {why}") from error
        finally:
            with self._lock:
                self._promised -= length

    def _make_way(self, length: int) -> None:
        """This node's copies come before those of others."""
        of_peers = [copy for copy in self._copies.values() if copy.is_of_peer]
        for copy in sorted(of_peers, key=lambda copy: copy.key.order):
            if self.size + length <= self._limit:
                return
            self._drop(copy)
            self._close_spare()

    def _drop(self, copy: MemoryCopy) -> None:
        del self._copies[copy.key]
        copy.is_dropped = True
        if copy.readers:
            self._busy.append(copy)
        elif copy.crc32c is not None:
            self._spare[copy.is_of_peer].append(copy.memory)
        else:
            # A process may still upload from it: whatever else came there would be uploaded too.
            copy.memory.close()

    def _close_spare(self) -> None:
        for spare in self._spare.values():
            while spare:
                spare.pop().close()


def mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
