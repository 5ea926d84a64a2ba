"""Files without a name in memory, and how much memory a container uses by YARN's count."""

from __future__ import annotations

import io
import mmap
import os
from collections import defaultdict
from pathlib import Path

_ROUND = 2 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")


class MemoryFile:
    """Memory that ends with its last holder.

    YARN adds the resident memory of all processes of a container, what they share included. So it
    is mapped once, by :meth:`count`, and every byte of it goes by ``pread`` and ``pwrite``.
    """

    def __init__(self, size: int) -> None:
        """Raises OSError: the node has not enough memory."""
        self.capacity = -(-size // _ROUND) * _ROUND
        self.fd = os.memfd_create("checkpoint", os.MFD_CLOEXEC)
        self._mapping: mmap.mmap | None = None
        try:
            os.fchmod(self.fd, 0o600)
            # All of it now: a page that is missing later would be a SIGBUS, or an error in the
            # midst of a save.
            os.posix_fallocate(self.fd, 0, self.capacity)
        except OSError:
            os.close(self.fd)
            raise

    @property
    def is_counted(self) -> bool:
        return self._mapping is not None

    def count(self) -> None:
        """Let YARN count it as memory of this process."""
        if self._mapping is None:
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            self._mapping = mmap.mmap(self.fd, self.capacity, flags=flags, prot=mmap.PROT_READ)

    def close(self) -> None:
        if self._mapping is not None:
            self._mapping.close()
        os.close(self.fd)


class RangeReader(io.RawIOBase):
    """The first ``size`` bytes of an open file, with a position of its own. ``owns``: whether the
    descriptor ends with it."""

    def __init__(self, fd: int, size: int, *, owns: bool = False) -> None:
        super().__init__()
        self.size = size
        self._fd = fd
        self._owns = owns
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        left = self.size - self._at
        data = os.pread(self._fd, left if size < 0 else min(size, left), self._at)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        base = (0, self._at, self.size)[whence]
        self._at = max(0, min(base + offset, self.size))
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed and self._owns:
            os.close(self._fd)
        super().close()


def resident_bytes(root: int) -> int:
    """Memory of a process and of all that descend from it, as YARN adds it."""
    children: dict[int, list[int]] = defaultdict(list)
    pages: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            stat = Path(entry.path, "stat").read_bytes()
        except OSError:  # it has ended
            continue
        fields = stat[stat.rindex(b")") + 2 :].split()
        children[int(fields[1])].append(int(entry.name))
        pages[int(entry.name)] = int(fields[21])
    total, left = 0, [root]
    while left:
        pid = left.pop()
        total += pages.get(pid, 0)
        left += children.pop(pid, [])
    return total * _PAGE


def write_all(fd: int, data: memoryview, at: int) -> None:
    """Raises OSError."""
    while data:
        count = os.pwrite(fd, data, at)
        data, at = data[count:], at + count
