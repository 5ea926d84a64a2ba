"""The two ends of a transfer, and what its errors mean to the user."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hdfs_utils import connect
from hdfs_utils import errors as hdfs
from hdfs_utils.errors import HdfsError
from yarnam.adapters.hdfs.error_map import as_yarnam
from yarnam.errors import BadSpec, NoPermission, Unavailable, UsageError
from yarnam.errors.full_disks import disk_full

if TYPE_CHECKING:
    from hdfs_utils import FileSystem

_USER_MISTAKES = (
    hdfs.NotFound,
    hdfs.AlreadyExists,
    hdfs.IsADirectory,
    hdfs.NotADirectory,
    hdfs.InvalidPath,
)


def local_end(path: str) -> tuple[FileSystem, str]:
    """A path of this machine, relative ones too, as a file system and a path on it."""
    plain = path.removeprefix("file://") if path.startswith("file://") else path
    return connect("file:///"), str(Path(plain).expanduser().absolute())


def target_name(fs: FileSystem, source: str, target: str) -> str:
    """The path that a copy gets: ``target``, or a name below it if it ends with ``/``."""
    if not target.endswith("/"):
        return target
    name = source.rstrip("/").rpartition("/")[2]
    if not name:
        raise UsageError(f"{source} has no file name to keep", hint="Write the full target path.")
    return f"{target}{name}"


@contextmanager
def transfer_errors(doing: str) -> Iterator[None]:
    """``doing`` is what failed, as in ``putting data``."""
    try:
        yield
    except _USER_MISTAKES as error:
        raise UsageError(f"{doing}: {error}", hint=_hint(error)) from error
    except hdfs.CorruptData as error:
        hint = "The target is unchanged. Run the command again; 'hdfs fsck' shows bad blocks."
        raise BadSpec(f"{doing}: {error}", hint=hint) from error
    except HdfsError as error:
        # Local files are a file system too.
        raise disk_full(error, error.path) or as_yarnam(error, doing) from error
    except FileNotFoundError as error:
        raise UsageError(f"{doing}: no such file: {error.filename}") from error
    except OSError as error:
        if full := disk_full(error):
            raise full from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise NoPermission(f"{doing}: {error}", hint="Ask for access.") from error
        raise Unavailable(f"{doing}: {error}", hint="Check the local disk.") from error


def _hint(error: HdfsError) -> str:
    if isinstance(error, hdfs.AlreadyExists):
        return "To replace it, use --overwrite; to update it, use 'yarnam data sync'."
    if isinstance(error, hdfs.NotFound):
        return "To list files: yarnam data ls"
    return ""
