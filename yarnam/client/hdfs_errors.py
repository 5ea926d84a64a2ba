"""Errors of ``hdfs_utils`` as errors of yarnam, said once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hdfs_utils import errors as hdfs
from hdfs_utils.errors import HdfsError
from yarnam.errors import BadConfig, NoPermission, Unavailable, YarnamError


@contextmanager
def hdfs_errors(doing: str) -> Iterator[None]:
    """``doing`` is what failed, as in ``writing the job's directory``."""
    try:
        yield
    except HdfsError as error:
        raise as_yarnam(error, doing) from error


def as_yarnam(error: HdfsError, doing: str) -> YarnamError:
    """The nearest class, with the path and what to do."""
    message = f"{doing}: {error}"
    if isinstance(error, hdfs.PermissionDenied):
        return NoPermission(message, hint="Ask the owner of the path, or an administrator of HDFS.")
    if isinstance(error, hdfs.QuotaExceeded):
        return NoPermission(message, hint="Make room below the quota, or ask for a larger one.")
    if isinstance(error, (hdfs.BadConfig, hdfs.NotSupported, hdfs.InvalidPath)):
        return BadConfig(message, hint="Check core-site.xml and hdfs-site.xml.")
    if isinstance(error, hdfs.SafeMode):
        return Unavailable(message, hint="Try again when the NameNode has left safe mode.")
    return Unavailable(message, hint="Check that HDFS runs: 'yarnam doctor'.")
