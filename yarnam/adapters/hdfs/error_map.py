"""The one map from errors of ``hdfs_utils`` to yarnam's own, for client and ApplicationMaster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hdfs_utils import errors as hdfs
from hdfs_utils.errors import HdfsError
from yarnam.errors import (
    BadConfig,
    NoPermission,
    QuotaFull,
    Unavailable,
    WireMismatch,
    YarnamError,
)

_MAP: tuple[tuple[tuple[type[HdfsError], ...], type[YarnamError], str], ...] = (
    (
        (hdfs.NotAuthenticated,),
        NoPermission,
        "yarnam docs kerberos has what to do about each of Kerberos's errors.",
    ),
    (
        (hdfs.PermissionDenied,),
        NoPermission,
        "Ask the owner of the path, or an administrator of HDFS.",
    ),
    ((hdfs.QuotaExceeded,), QuotaFull, "Delete files below the quota, or ask for a larger quota."),
    (
        (hdfs.NoCredentials,),
        BadConfig,
        "Add the gateway to ~/.netrc, or name a file with a token: yarnam docs gateway.",
    ),
    (
        (hdfs.BadConfig, hdfs.NotSupported, hdfs.InvalidPath),
        BadConfig,
        "Check the Hadoop configuration: core-site.xml, hdfs-site.xml, yarn-site.xml.",
    ),
    ((hdfs.SafeMode,), Unavailable, "Try again when the NameNode has left safe mode."),
    (
        (hdfs.AlreadyExists, hdfs.NotADirectory, hdfs.IsADirectory, hdfs.DirectoryNotEmpty),
        BadConfig,
        "Something else is at that path: move it away, or name another path.",
    ),
    (
        (hdfs.MalformedData,),
        WireMismatch,
        "Another version of yarnam or another program wrote it: move it away, or delete it.",
    ),
    ((HdfsError,), Unavailable, "Check that HDFS (NameNode and DataNodes) runs: 'yarnam doctor'."),
)
"""The first row that fits counts."""


@contextmanager
def hdfs_errors(doing: str) -> Iterator[None]:
    """Raise what HDFS raises in this block as yarnam's own error. ``doing`` is what failed, as in
    ``writing the job's directory``."""
    try:
        yield
    except HdfsError as error:
        raise as_yarnam(error, doing) from error


def as_yarnam(error: HdfsError, doing: str) -> YarnamError:
    """The nearest class, with the path and what to do next."""
    if isinstance(error, hdfs.Fenced):
        # With the ports comes the whole model; who reads the configuration first needs neither.
        from yarnam.ports import Superseded

        return Superseded(f"{doing}: {error}")
    kind, hint = next((kind, hint) for known, kind, hint in _MAP if isinstance(error, known))
    return kind(f"{doing}: {error}", hint=hint)
