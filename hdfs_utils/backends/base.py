"""Operations that follow from the primitive ones, written once for every file system.

What an operation does is said once, in :class:`hdfs_utils.filesystem.FileSystem`; the back-ends
say only in what they differ.
"""

from __future__ import annotations

import contextlib
import fnmatch
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator

from hdfs_utils import errors
from hdfs_utils import uri as uris
from hdfs_utils.filesystem import Content, Data, FileStatus, Reader, Writer
from hdfs_utils.protocols.untrusted import at_path, read_at_most

# Names that begin with a dot are hidden from Hadoop's input formats and most listings.
TEMPORARY_PREFIX = "."
TEMPORARY_SUFFIX = ".tmp"
_ACLS_ENABLED = "dfs.namenode.acls.enabled"
_WILDCARD = re.compile(r"[*?\[]")


def temporary_name(path: str) -> str:
    """A unique name beside ``path``: a rename from it stays inside one directory.

    Beside the target and not in a shared temporary directory, because a rename across mounts,
    encryption zones or snapshots is refused.
    """
    return uris.hidden_sibling(path, f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")


def is_temporary(path: str) -> bool:
    """Whether a name was made by :func:`temporary_name`."""
    name = uris.name(path)
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)


def access_entries(ask: Callable[[], Iterable[str]]) -> tuple[str, ...]:
    """The entries of an ACL without those that new files of a directory begin with; none where the
    site has no ACLs, which the NameNode refuses to say."""
    try:
        return tuple(entry for entry in ask() if not entry.startswith("default:"))
    except errors.HdfsError as error:
        if _ACLS_ENABLED not in str(error):
            raise
        return ()


class BaseFileSystem(ABC):
    """exists, walk, glob, read_bytes, write_bytes and write_atomic in terms of the rest."""

    uri: str

    @abstractmethod
    def stat(self, path: str) -> FileStatus: ...

    @abstractmethod
    def list(self, path: str) -> list[FileStatus]: ...

    @abstractmethod
    def open_reader(self, path: str) -> Reader: ...

    @abstractmethod
    def open_writer(
        self,
        path: str,
        overwrite: bool = False,
        replication: int | None = None,
        block_size: int | None = None,
    ) -> Writer: ...

    @abstractmethod
    def rename(self, src: str, dst: str, overwrite: bool = False) -> None: ...

    @abstractmethod
    def delete(self, path: str, recursive: bool = False) -> bool: ...

    def own_path(self, path: str) -> str:
        """The plain path of ``path``, which may be a URI of this file system.

        Raises:
            InvalidPath: not a path, or of another file system.
        """
        parsed = uris.parse(path)
        if parsed.scheme:
            own = uris.parse(self.uri)
            if parsed.scheme != own.scheme or parsed.authority not in ("", own.authority):
                raise errors.InvalidPath(
                    f"belongs to another file system than {self.uri}", path=path
                )
        return parsed.path

    def acl(self, path: str) -> tuple[str, ...]:
        raise errors.NotSupported("this back-end reads no ACLs", path=path, operation="read ACL")

    def _deletable(self, path: str) -> str:
        """The plain path; the root is none that can be deleted."""
        plain = self.own_path(path)
        if plain == "/":
            raise errors.InvalidPath("the root cannot be deleted", path=plain, operation="delete")
        return plain

    @contextlib.contextmanager
    def _renaming_to(self, target: str) -> Iterator[None]:
        """What HDFS says of a rename is about the target. It has one message for both mismatches:
        the target tells which it was."""
        try:
            yield
        except errors.IsADirectory as error:
            if not self.stat(target).is_dir:
                raise errors.NotADirectory("is a file", path=target, operation="rename") from error
            raise
        except errors.AlreadyExists as error:
            raise errors.AlreadyExists(error.message, path=target, operation="rename") from error

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except (errors.NotFound, errors.NotADirectory):
            return False
        return True

    def walk(self, path: str) -> Iterator[FileStatus]:
        for status in self.list(path):
            yield status
            if status.is_dir:
                # A directory may have gone since: the listing of a living tree is never exact.
                with contextlib.suppress(errors.NotFound):
                    yield from self.walk(status.path)

    def glob(self, pattern: str) -> tuple[FileStatus, ...]:
        found = [self.own_path("/")]
        statuses: tuple[FileStatus, ...] = ()
        parts = [part for part in self.own_path(pattern).split("/") if part]
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            statuses = tuple(
                status
                for directory in found
                for status in self._fitting(directory, part)
                if is_last or status.is_dir
            )
            found = [status.path for status in statuses]
        return statuses

    def _fitting(self, directory: str, part: str) -> Iterator[FileStatus]:
        with contextlib.suppress(errors.NotFound, errors.NotADirectory):
            if not _WILDCARD.search(part):
                yield self.stat(uris.join(directory, part))
                return
            for status in self.list(directory):
                name = uris.name(status.path)
                # As in a shell: hidden names only where they are meant.
                if name.startswith(".") and not part.startswith("."):
                    continue
                if fnmatch.fnmatchcase(name, part):
                    yield status

    def read_bytes(self, path: str, max_bytes: int | None = None) -> bytes:
        with self.open_reader(path) as reader:
            if max_bytes is None:
                return reader.read()
            with at_path(path, "read"):
                return read_at_most(reader, max_bytes)

    def read_synced(self, path: str) -> bytes:
        return self.read_bytes(path)

    def report_replicas(self, path: str, offset: int, length: int) -> None:
        raise errors.NotSupported("not with this back-end", path=path, operation="report replicas")

    def give_up_on(self, error: errors.HdfsError) -> bool:
        """There is no other client."""
        return False

    def write_bytes(self, path: str, data: Data, overwrite: bool = False) -> None:
        with self.open_writer(path, overwrite=overwrite) as writer:
            writer.write(data)

    def write_atomic(self, path: str, content: Content, overwrite: bool = True) -> None:
        target = self.own_path(path)
        temporary = temporary_name(target)
        try:
            with self.open_writer(temporary) as writer:
                if callable(content):
                    content(writer)
                else:
                    writer.write(content)
            # After the block: a callback may have gone on writing until here.
            length = writer.tell()
            self._publish(temporary, target, length, overwrite)
        except BaseException:
            # The first error is the one to report; what is left behind is hidden and unique.
            with contextlib.suppress(errors.HdfsError):
                self.delete(temporary)
            raise

    def _publish(self, temporary: str, target: str, length: int, overwrite: bool) -> None:
        try:
            self.rename(temporary, target, overwrite)
        except errors.Unavailable:
            if not self._was_renamed(temporary, target, length):
                raise

    def _was_renamed(self, temporary: str, target: str, length: int) -> bool:
        """After a rename without an answer: whether it happened all the same."""
        with contextlib.suppress(errors.HdfsError):
            return not self.exists(temporary) and self.stat(target).length == length
        return False
