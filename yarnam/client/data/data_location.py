"""Finds the file system of a path, and the user name on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from hdfs_utils import FileSystem, connect
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.client.site import Site, user_name
from yarnam.errors import UsageError


@dataclass(frozen=True, slots=True)
class DataLocation:
    """The file system of some data. ``site`` is the cluster; ``None`` for data of this machine."""

    files: FileSystem
    user: str
    site: Site | None = None

    @property
    def is_on_cluster(self) -> bool:
        """Whether it is the cluster's own file system."""
        return self.site is not None and self.files.uri == self.site.files.uri


def is_local(path: str) -> bool:
    """Whether a path is of this machine, so that no cluster is needed."""
    return path.startswith("file:")


def locate_data(path: str, open_site: Callable[[], Site]) -> DataLocation:
    """Where ``path`` lies: an absolute path on the cluster, or any URI (``file:///`` too). Raises
    UsageError for a relative path, BadConfig for a URI that is none."""
    if is_local(path):
        with hdfs_errors(f"reaching {path}"):
            return DataLocation(connect(path), user_name())
    parts = urlsplit(path)
    if not parts.scheme and not path.startswith("/"):
        raise UsageError(
            f"{path} is not an absolute path",
            hint="Use hdfs://..., an absolute path on the cluster, or file:///...",
        )
    site = open_site()
    if not parts.netloc or site.files.uri.endswith(f"//{parts.netloc}"):
        return DataLocation(site.files, site.user, site)
    with hdfs_errors(f"reaching {path}"):
        files = site.connect(path)
    return DataLocation(files, site.user, site)
