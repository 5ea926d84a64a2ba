"""What the native client raises, as seen on a real cluster, and what becomes of it."""

from __future__ import annotations

import pytest

from hdfs_utils import errors
from hdfs_utils.errors import HdfsError
from hdfs_utils.protocols.java_errors import translate

HDFS = "org.apache.hadoop.hdfs.protocol"


def rpc(java_class: str, message: str) -> RuntimeError:
    return RuntimeError(
        f'RPCError("{java_class}", "{message}\\n\\tat org.apache.hadoop.X(X.java)")'
    )


CASES: list[tuple[BaseException, type[HdfsError]]] = [
    (FileNotFoundError("/a"), errors.NotFound),
    (FileNotFoundError("File does not exist: /a\n\tat x"), errors.NotFound),
    (FileNotFoundError("Path is not a file: /a\n\tat x"), errors.IsADirectory),
    (
        FileNotFoundError(
            "File does not exist: /a (inode 1) Holder c does not have any open files."
        ),
        errors.LeaseLost,
    ),
    (FileExistsError("/a for client 127.0.0.1 already exists\n"), errors.AlreadyExists),
    (FileExistsError("/a already exists as a directory\n"), errors.IsADirectory),
    (FileExistsError("Path is not a directory: /a\n"), errors.NotADirectory),
    (
        FileExistsError(
            "Failed to CREATE_FILE /a for c because this file lease is currently owned by d"
        ),
        errors.LeaseConflict,
    ),
    (FileExistsError("x because c is already the current lease holder."), errors.LeaseConflict),
    (OSError("Connection refused (os error 111)"), errors.Unavailable),
    (NotImplementedError("erasure coding"), errors.NotSupported),
    (
        RuntimeError('OperationFailed("KMS URI must start with `kms://`, got `jceks://file/k`")'),
        errors.NotSupported,
    ),
    (
        RuntimeError(
            'OperationFailed("File is in an HDFS encryption zone but no KMS provider is '
            'configured (set `hadoop.security.key.provider.path` in core-site.xml)")'
        ),
        errors.NotSupported,
    ),
    (
        rpc("org.apache.hadoop.security.AccessControlException", "Permission denied: user=bob"),
        errors.PermissionDenied,
    ),
    (
        rpc("org.apache.hadoop.security.AccessControlException", "/a (is not a directory)"),
        errors.NotADirectory,
    ),
    (rpc("org.apache.hadoop.fs.ParentNotDirectoryException", "/a"), errors.NotADirectory),
    (
        rpc("org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", "`/a is non empty'"),
        errors.DirectoryNotEmpty,
    ),
    (
        rpc("java.io.IOException", "rename destination directory is not empty: /a"),
        errors.DirectoryNotEmpty,
    ),
    (
        rpc("java.io.IOException", "Cannot obtain block length for LocatedBlock{BP-1:blk_1}"),
        errors.Unavailable,
    ),
    (rpc(f"{HDFS}.NSQuotaExceededException", "The NameSpace quota"), errors.QuotaExceeded),
    (rpc(f"{HDFS}.DSQuotaExceededException", "The DiskSpace quota"), errors.QuotaExceeded),
    (
        rpc("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot create /a"),
        errors.SafeMode,
    ),
    (
        rpc(
            "org.apache.hadoop.ipc.RetriableException",
            "org.apache.hadoop.hdfs.server.namenode.SafeModeException: Cannot create directory /a."
            " Name node is in safe mode.",
        ),
        errors.Starting,
    ),
    (rpc("org.apache.hadoop.ipc.RetriableException", "x"), errors.Unavailable),
    (
        rpc("org.apache.hadoop.ipc.RetriableException", "Name node is in safe mode."),
        errors.SafeMode,
    ),
    (
        rpc("org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException", "File is not open"),
        errors.LeaseLost,
    ),
    (
        rpc("org.apache.hadoop.fs.InvalidPathException", "Invalid path name /a:b"),
        errors.InvalidPath,
    ),
    (
        rpc(
            "java.io.IOException",
            "File /a could only be written to 0 of the 1 minReplication nodes",
        ),
        errors.Unavailable,
    ),
    (rpc("java.lang.NullPointerException", "null"), HdfsError),
    (RuntimeError('DataTransferError("All nodes failed for write")'), errors.Unavailable),
    (RuntimeError('OperationFailed("Failed to complete file in time")'), errors.Unavailable),
    (RuntimeError("ChecksumError"), errors.CorruptData),
    (RuntimeError('InvalidArgument("No NameNode hosts found")'), errors.BadConfig),
    (RuntimeError('SASLError("no")'), errors.NotAuthenticated),
    (RuntimeError("something new"), HdfsError),
]


@pytest.mark.parametrize(("raised", "expected"), CASES, ids=lambda case: str(case)[:40])
def test_translation(raised: BaseException, expected: type[HdfsError]) -> None:
    error = translate(raised, "rename", "/a", "hdfs://nn:8020")
    assert type(error) is expected
    assert error.path == "/a"
    assert str(error).startswith("rename /a: ")
    assert "\tat" not in str(error)
    assert "java" not in str(error)
    assert len(error.message) > 3


def test_what_may_be_tried_again() -> None:
    retriable = {
        kind.__name__
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, HdfsError) and kind.retriable
    }
    assert retriable == {"Unavailable", "SafeMode", "Starting", "LeaseConflict"}


def test_a_broken_connection_leaves_the_outcome_open() -> None:
    broken = translate(OSError("Connection reset"), "rename", "/a", "hdfs://nn:8020")
    assert broken.outcome_unknown
    assert "hdfs://nn:8020" in str(broken)
    refused = translate(rpc("a.SafeModeException", "no"), "rename", "/a", "hdfs://nn:8020")
    assert not refused.outcome_unknown
    assert not translate(FileNotFoundError("/a"), "rename", "/a", "hdfs://nn").outcome_unknown
