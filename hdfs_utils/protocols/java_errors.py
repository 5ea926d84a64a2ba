"""From the native client's exceptions to those of this package.

The client raises a few Python built-ins and, for everything else, RuntimeError with the debug form
of its own error: ``RPCError("java.class.Name", "message\\n\\tat stack…")``. What is here was seen
from the client 0.14.7 against Hadoop 3.4.1.
"""

from __future__ import annotations

import re

from hdfs_utils import errors
from hdfs_utils.errors import HdfsError
from hdfs_utils.protocols.kerberos_errors import explained

_RPC = re.compile(r'(?:Fatal)?RPCError\("(?P<name>[\w.$]+)", "(?P<message>.*)"\)', re.DOTALL)
_OTHER = re.compile(r'(?P<kind>\w+)(?:\("(?P<message>.*)"\))?', re.DOTALL)

_BY_JAVA_CLASS: dict[str, type[HdfsError]] = {
    "AccessControlException": errors.PermissionDenied,
    "AuthorizationException": errors.PermissionDenied,
    "InvalidToken": errors.NotAuthenticated,
    "SecretManager$InvalidToken": errors.NotAuthenticated,
    "SafeModeException": errors.SafeMode,
    "RetriableException": errors.Unavailable,
    "StandbyException": errors.Unavailable,
    "ServerTooBusyException": errors.Unavailable,
    "ParentNotDirectoryException": errors.NotADirectory,
    "PathIsNotDirectoryException": errors.NotADirectory,
    "PathIsNotEmptyDirectoryException": errors.DirectoryNotEmpty,
    "NSQuotaExceededException": errors.QuotaExceeded,
    "DSQuotaExceededException": errors.QuotaExceeded,
    "QuotaByStorageTypeExceededException": errors.QuotaExceeded,
    "InvalidPathException": errors.InvalidPath,
    "AlreadyBeingCreatedException": errors.LeaseConflict,
    "RecoveryInProgressException": errors.LeaseConflict,
    "LeaseExpiredException": errors.LeaseLost,
    "BlockMissingException": errors.CorruptData,
    "FileNotFoundException": errors.NotFound,
    "FileAlreadyExistsException": errors.AlreadyExists,
    "UnsupportedOperationException": errors.NotSupported,
}

# Messages decide where the class says nothing or the wrong thing; the first that fits.
_BY_MESSAGE: tuple[tuple[str, type[HdfsError]], ...] = (
    ("does not have any open files", errors.LeaseLost),
    ("Path is not a file", errors.IsADirectory),
    ("already exists as a directory", errors.IsADirectory),
    ("Path is not a directory", errors.NotADirectory),
    ("(is not a directory)", errors.NotADirectory),
    ("lease is currently owned by", errors.LeaseConflict),
    ("is already the current lease holder", errors.LeaseConflict),
    ("is being recovered", errors.LeaseConflict),
    ("lease recovery is in progress", errors.LeaseConflict),
    ("destination directory is not empty", errors.DirectoryNotEmpty),
    ("must both be directories", errors.IsADirectory),
    ("could only be written to 0 of", errors.Unavailable),
    # The error of a file that is still open after its DataNode has restarted.
    ("Cannot obtain block length", errors.Unavailable),
    # The native client's error in an encryption zone when it finds no KMS to ask for the keys.
    ("KMS", errors.NotSupported),
    # A NameNode that has just taken over, asked over HTTP where to write.
    ("Failed to find datanode", errors.Unavailable),
    # An active NameNode of a pair reports its wait for DataNodes by another class and this name.
    ("namenode.SafeModeException: ", errors.Starting),
    ("Name node is in safe mode", errors.SafeMode),
)

_BY_KIND: dict[str, type[HdfsError]] = {
    "DataTransferError": errors.Unavailable,
    "OperationFailed": errors.Unavailable,
    "ChecksumError": errors.CorruptData,
    "BlocksNotFound": errors.CorruptData,
    "InvalidPath": errors.InvalidPath,
    "InvalidArgument": errors.BadConfig,
    "UrlParseError": errors.BadConfig,
    "XmlParseError": errors.BadConfig,
    "UnsupportedFeature": errors.NotSupported,
    "UnsupportedErasureCodingPolicy": errors.NotSupported,
    "SASLError": errors.NotAuthenticated,
    "GSSAPIError": errors.NotAuthenticated,
    "NoSASLMechanism": errors.NotAuthenticated,
}

_BY_BUILTIN: tuple[tuple[type[BaseException], type[HdfsError]], ...] = (
    (FileNotFoundError, errors.NotFound),
    (FileExistsError, errors.AlreadyExists),
    (IsADirectoryError, errors.IsADirectory),
    (NotImplementedError, errors.NotSupported),
    (OSError, errors.Unavailable),
)

# Errors after which a change may have been made all the same: the connection broke, not the rule.
_UNKNOWN_OUTCOME = (errors.Unavailable,)


def translate(error: BaseException, operation: str, path: str, where: str) -> HdfsError:
    """The error of this package that ``error`` stands for.

    Args:
        error: what the native client raised.
        operation: what was tried.
        path: on which path.
        where: the file system, for the message where it did not answer.
    """
    text = str(error)
    java = _RPC.search(text)
    message = _first_line(java["message"] if java else text)
    kind = _classify(error, text, java, message)
    if kind is errors.Unavailable:
        message = f"{where} failed: {message}; is HDFS up and reachable from here?"
    elif issubclass(kind, errors.SafeMode):
        message = f"{message}; it leaves safe mode once its blocks are reported"
    elif message in ("", path):
        # The client said which path and nothing else; the class says what.
        message = (kind.__doc__ or kind.__name__).partition(".")[0].lower()
    elif "KMS" in message:
        message = f"{message}; in an encryption zone use the back-end webhdfs or arrow"
    elif issubclass(kind, errors.PermissionDenied):
        message = explained(message)
    unknown = issubclass(kind, _UNKNOWN_OUTCOME) and not issubclass(kind, errors.SafeMode)
    return kind(message, path=path, operation=operation, outcome_unknown=unknown)


def from_java(java_class: str, text: str, operation: str, path: str) -> HdfsError:
    """The error for a Java exception in a server's response."""
    message = _first_line(text)
    by_message = next((kind for part, kind in _BY_MESSAGE if part in message), None)
    kind = by_message or _BY_JAVA_CLASS.get(java_class.rpartition(".")[2], HdfsError)
    if issubclass(kind, errors.PermissionDenied):
        message = explained(message)
    return kind(message, path=path, operation=operation)


def _classify(
    error: BaseException, text: str, java: re.Match[str] | None, message: str
) -> type[HdfsError]:
    for part, kind in _BY_MESSAGE:
        if part in message:
            return kind
    if java:
        return _BY_JAVA_CLASS.get(java["name"].rpartition(".")[2], HdfsError)
    for builtin, kind in _BY_BUILTIN:
        if isinstance(error, builtin):
            return kind
    if other := _OTHER.match(text):
        return _BY_KIND.get(other["kind"], HdfsError)
    return HdfsError


def _first_line(message: str) -> str:
    # Both forms: a real line break, and one written as backslash-n inside a debug string.
    return message.split("\n", 1)[0].split("\\n", 1)[0].replace('\\"', '"').strip()
