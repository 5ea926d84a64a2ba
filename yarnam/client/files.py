"""Which file system a path means, and who we are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from hdfs_utils import FileSystem
from yarnam.client.hdfs_errors import hdfs_errors
from yarnam.client.site import HDFS_LIMITS, Site, user_name
from yarnam.errors import UsageError


@dataclass(frozen=True, slots=True)
class DataPlace:
    """The file system of some data. ``site``: the cluster; None: data of this machine, without."""

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


def data_place(path: str, open_site: Callable[[], Site]) -> DataPlace:
    """Where ``path`` lies: an absolute path on the cluster, or any URI (``file:///`` too).

    Raises UsageError for a relative path, BadConfig for a URI that is none.
    """
    from hdfs_utils import connect

    if is_local(path):
        with hdfs_errors(f"reaching {path}"):
            return DataPlace(connect(path), user_name())
    parts = urlsplit(path)
    if not parts.scheme and not path.startswith("/"):
        raise UsageError(
            f"{path} is not absolute",
            hint="Write hdfs://..., an absolute path on the cluster, or file:///... .",
        )
    site = open_site()
    if not parts.netloc or site.files.uri.endswith(f"//{parts.netloc}"):
        return DataPlace(site.files, site.user, site)
    with hdfs_errors(f"reaching {path}"):
        files = connect(path, conf_dir=str(site.conf_dir), limits=HDFS_LIMITS)
    return DataPlace(files, site.user, site)
