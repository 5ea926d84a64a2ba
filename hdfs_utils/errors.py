"""The errors of this package: one tree, each with the path, the operation and what to do next.

``retriable`` says whether the same call may succeed later with nothing changed by the caller.
``outcome_unknown`` says that the call may have taken effect, or may still take effect: look at the
file before doing it again.
"""

from __future__ import annotations

from typing import ClassVar


class HdfsError(Exception):
    """Something on a file system failed.

    Args:
        message: what happened and, where there is something to do, what to do next.
        path: the path it happened to; empty where it concerns the whole file system.
        operation: the operation that failed, such as ``rename``.
        outcome_unknown: the operation may have taken effect.
    """

    retriable: ClassVar[bool] = False

    def __init__(
        self, message: str, *, path: str = "", operation: str = "", outcome_unknown: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.operation = operation
        self.outcome_unknown = outcome_unknown

    @property
    def cause(self) -> BaseException | None:
        """The error of the client below, if there was one."""
        return self.__cause__

    def __str__(self) -> str:
        where = " ".join(part for part in (self.operation, self.path) if part)
        return f"{where}: {self.message}" if where else self.message


class NotFound(HdfsError):
    """No such file or directory."""


class AlreadyExists(HdfsError):
    """The target exists already and was not to be overwritten."""


class PermissionDenied(HdfsError):
    """The user may not do this."""


class NotAuthenticated(PermissionDenied):
    """Kerberos, or the server by it, does not accept the caller. The message says what to do."""


class NotADirectory(HdfsError):
    """A directory was needed, a file is there."""


class IsADirectory(HdfsError):
    """A file was needed, a directory is there."""


class DirectoryNotEmpty(HdfsError):
    """The directory still has entries."""


class InvalidPath(HdfsError):
    """The path or URI cannot be one of this file system."""


class QuotaExceeded(HdfsError):
    """A quota of names or of space does not allow it, or the disk is full."""


class Unavailable(HdfsError):
    """The NameNode or the DataNodes did not answer in time, or refused the connection."""

    retriable = True


class SafeMode(Unavailable):
    """The NameNode is in safe mode: it serves reads and refuses changes."""


class Starting(SafeMode):
    """In safe mode only until the DataNodes have reported, which is a matter of seconds: one of a
    pair of NameNodes has just taken over."""


class LeaseConflict(HdfsError):
    """Somebody else has the file open for writing."""

    retriable = True


class LeaseLost(HdfsError):
    """This writer's lease was taken away: the file was recovered, deleted or replaced."""


class Fenced(HdfsError):
    """A newer epoch has taken over: this writer must stop."""


class FencedByAnother(Fenced):
    """Another owner, not a later attempt of this one, has taken over: to start again is in vain."""


class CorruptData(HdfsError):
    """The bytes read are not those written: a checksum, a length or a framing does not fit."""


class MalformedData(CorruptData):
    """The bytes read are not a value of the expected kind: too long, too deep, or not of its type.

    The only error of :mod:`hdfs_utils.protocols.untrusted`. A kind of CorruptData, since to the
    reader of a file it is the same: these bytes are of no use, and reading them again does not
    help. Where they did not come from a file, the caller makes it the error of its own service.
    """


class NotSupported(HdfsError):
    """This client or this cluster does not support the operation."""


class BadConfig(HdfsError):
    """The Hadoop configuration is missing, unreadable or does not name what is needed."""


class NoCredentials(BadConfig):
    """Neither a password nor a token for a gateway was found."""
