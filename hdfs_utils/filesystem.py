"""What every file system here can do: the protocol, its values and its time limits.

Paths are absolute paths or URIs of the same file system. Every operation ends within its time
limit (:class:`TimeLimits`); the errors are those of :mod:`hdfs_utils.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Union

if TYPE_CHECKING:
    from typing_extensions import Self

    from hdfs_utils.errors import HdfsError

# The native client's sync now and then never returns when the DataNode dies under it (0.14.7), so
# it has a shorter limit than other data. A healthy one takes milliseconds.
SYNC_S = 5.0

Data = Union[bytes, bytearray, memoryview]


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long an operation may take, in seconds.

    Attributes:
        metadata_s: one question or change to the NameNode (stat, list, rename, open...).
        data_s: one piece of data (at most 8 MiB) read or written.
        sync_s: making what was written durable.
        close_s: completing a file; the NameNode waits for the DataNodes' reports.
        lease_s: taking a file over from a writer that died.
        outage_s: how long a transfer under way waits for a NameNode that changes over or a DataNode
            that restarts. Of the two sides of a transfer the smaller one counts.
    """

    metadata_s: float = 30.0
    data_s: float = 60.0
    sync_s: float = SYNC_S
    close_s: float = 60.0
    lease_s: float = 60.0
    outage_s: float = 60.0

    @classmethod
    def all(cls, timeout_s: float) -> TimeLimits:
        """The same limit for every operation; that of a sync is never longer than its default."""
        return cls(timeout_s, timeout_s, min(timeout_s, SYNC_S), timeout_s, timeout_s)


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One file or directory. ``length`` and ``block_size`` in bytes; both 0 for a directory."""

    path: str
    length: int
    is_dir: bool
    mtime_ms: int
    owner: str
    group: str
    permission: int
    replication: int
    block_size: int


@dataclass(frozen=True, slots=True)
class BlockLocation:
    """One block of a file: where it lies in the file (bytes) and on which hosts.

    ``is_corrupt``: the storage knows of no good replica; without hosts it knows of none at all.
    ``racks`` goes with ``hosts`` where the NameNode was asked over RPC, and is empty else.
    """

    offset: int
    length: int
    hosts: tuple[str, ...]
    is_corrupt: bool = False
    racks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileChecksum:
    """A checksum by the storage itself: comparable where ``algorithm`` is the same."""

    algorithm: str
    value: str


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """Bytes of the whole file system, replicas counted separately."""

    capacity: int
    used: int
    remaining: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What callers may rely on, so that nobody has to know the back-ends by name.

    Attributes:
        is_local: its files are on this machine's disks, under the same paths.
        verifies_reads: what is read was checked against the storage's checksums.
        stores_crc32c: ``crc32c`` answers from stored checksums, without reading the files.
        reports_md5_of_crc: ``checksum`` is Hadoop's MD5-of-CRC where ``crc32c`` is not supported.
        recovers_leases: ``recover_lease`` cuts a writer off.
        completes_slowly: closing a file waits, asleep, for most of a second: keep many in flight.
    """

    is_local: bool = False
    verifies_reads: bool = False
    stores_crc32c: bool = False
    reports_md5_of_crc: bool = False
    recovers_leases: bool = False
    completes_slowly: bool = False


class _OpenFile(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...


class Reader(_OpenFile, Protocol):
    """A binary file open for reading; an ``io.RawIOBase``, so ``io.BufferedReader`` takes it."""

    @property
    def size(self) -> int:
        """Length in bytes when it was opened."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes (all that is left if negative); fewer only at the end."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a position; at most to the end."""

    def tell(self) -> int:
        """The position in bytes."""

    def close(self) -> None:
        """Close the file."""


class Writer(_OpenFile, Protocol):
    """A binary file open for writing. Leaving its block by an error aborts it."""

    def write(self, data: Data, /) -> int:
        """Write all of ``data``; it is durable only after ``sync`` or ``close``."""

    def flush(self) -> None:
        """Pass on what was buffered; it need not be durable."""

    def sync(self) -> None:
        """Return when all that was written is durable on every replica.

        Raises:
            LeaseLost: the file was recovered by somebody else: nothing more can be written.
        """

    def tell(self) -> int:
        """Length of the file in bytes, all that was written included."""

    def close(self) -> None:
        """Complete the file. An error is raised only where the file is not whole."""

    def abort(self) -> None:
        """Abort: a new file is deleted, an appended one keeps what was synced.

        After a failed write or sync nothing is touched: the lease may be lost, and the file be
        another writer's.
        """


Content = Union[Data, Callable[[Writer], object]]


class FileSystem(Protocol):
    """One file system, synchronous; safe to share between threads."""

    @property
    def uri(self) -> str:
        """``hdfs://host:port`` or ``file://``; a path appended to it names the file anywhere."""

    @property
    def limits(self) -> TimeLimits:
        """The time limits of the operations."""

    @property
    def backend(self) -> str:
        """The client's name, to be shown: ``native``, ``webhdfs``, ``arrow`` or ``local``."""

    @property
    def capabilities(self) -> Capabilities:
        """What callers may rely on; may change when another client takes over."""

    def own_path(self, path: str) -> str:
        """The plain path of a path or URI. Raises InvalidPath if it is of another file system."""

    def stat(self, path: str) -> FileStatus:
        """Status of a path. Raises NotFound."""

    def exists(self, path: str) -> bool:
        """Whether the path exists."""

    def list(self, path: str) -> list[FileStatus]:
        """Entries of a directory by name. Raises NotFound, NotADirectory."""

    def walk(self, path: str) -> Iterator[FileStatus]:
        """Everything below a directory, each directory before its entries, by name."""

    def open_reader(self, path: str) -> Reader:
        """Open for reading. Raises NotFound, IsADirectory."""

    def open_writer(
        self,
        path: str,
        overwrite: bool = False,
        replication: int | None = None,
        block_size: int | None = None,
    ) -> Writer:
        """Create a file, its directories too. Raises AlreadyExists, IsADirectory."""

    def open_appender(self, path: str) -> Writer:
        """Open an existing file to append to it. Raises NotFound, LeaseConflict."""

    def recover_lease(self, path: str) -> None:
        """Take a file over from its writer, dead or alive: it is closed and cannot be written on.

        Returns when it is closed. Raises Unavailable after ``limits.lease_s``.
        """

    def read_bytes(self, path: str, max_bytes: int | None = None) -> bytes:
        """The whole file. Raises MalformedData where it is longer than ``max_bytes``: for files
        that others may write."""

    def read_synced(self, path: str) -> bytes:
        """The whole file with all that a writer which still has it open has synced."""

    def write_bytes(self, path: str, data: Data, overwrite: bool = False) -> None:
        """Write a file in place: a reader may see it half-written. See write_atomic."""

    def write_atomic(self, path: str, content: Content, overwrite: bool = True) -> None:
        """Write a file that is there whole or not at all.

        It is written under a unique name beside the target, completed, then renamed.

        Args:
            path: the target.
            content: the bytes, or a function that writes them to the writer it is given.
            overwrite: replace an existing file.
        """

    def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        """Rename atomically. Raises NotFound, AlreadyExists, IsADirectory, DirectoryNotEmpty."""

    def delete(self, path: str, recursive: bool = False) -> bool:
        """Delete; False if it was not there. Raises DirectoryNotEmpty."""

    def mkdirs(self, path: str, permission: int = 0o755) -> None:
        """Make a directory and its parents; an existing one stays as it is."""

    def chmod(self, path: str, permission: int) -> None:
        """Set the permission bits."""

    def acl(self, path: str) -> tuple[str, ...]:
        """The access entries of a path beyond its permission bits, as ``user:alice:rw-`` or
        ``group::r-x``; none if it has no ACL. Where there are some, the group's bits are the mask:
        no entry of a user or a group gives more than they do. Raises NotFound, NotSupported."""

    def set_times(self, path: str, mtime_ms: int, atime_ms: int | None = None) -> None:
        """Set the times of modification and of access, in milliseconds since 1970."""

    def concat(self, target: str, sources: Sequence[str]) -> None:
        """Move the bytes of ``sources``, in order, to the end of ``target``; they are gone then.

        All are files of one directory and none is empty. Atomic.

        Raises:
            NotSupported: this file system cannot (encryption zones, erasure coding).
        """

    def checksum(self, path: str) -> FileChecksum:
        """The storage's own checksum. Raises NotSupported."""

    def crc32c(self, paths: Sequence[str]) -> tuple[int, ...]:
        """CRC32C of each file's bytes as the storage has them, from its own stored checksums.

        Raises:
            NotSupported: it cannot tell (Kerberos, encryption, erasure coding, HTTP only).
        """

    def glob(self, pattern: str) -> tuple[FileStatus, ...]:
        """The paths that match a shell pattern, by name; wildcards do not match ``/``."""

    def block_locations(self, path: str) -> tuple[BlockLocation, ...]:
        """Which hosts hold which part. Raises NotSupported."""

    def free_space(self) -> FreeSpace:
        """Space of the whole file system. Raises NotSupported."""

    def report_replicas(self, path: str, offset: int, length: int) -> None:
        """Have a client read a part of a file that tells the NameNode of bad replicas.

        HDFS then makes good ones from good ones, or ``block_locations`` says that there are none.

        Raises:
            Unavailable: the part cannot be read.
            NotSupported: there is no such client.
        """

    def give_up_on(self, error: HdfsError) -> bool:
        """After a broken read or write: whether to begin it again, because another client does it
        from now on."""


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def format_bytes(size: float) -> str:
    """Bytes in the unit that fits, as in ``1.5 GiB``."""
    for unit in _UNITS:
        if abs(size) < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")
