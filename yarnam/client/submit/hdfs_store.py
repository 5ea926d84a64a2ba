"""Writes files for containers to HDFS, and describes them to YARN."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hdfs_utils import FileSystem, Writer
from hdfs_utils.transfer import NoProgress, Progress
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.hdfs.small_files import put_once
from yarnam.client.site import Site

if TYPE_CHECKING:
    # Brings Skein and grpc along: loaded while the driver starts.
    from skein_specs import LocalizedFile

with on_first_use():
    import skein_specs

_CHUNK = 4 << 20
"""The native client is fastest with pieces of 1 to 8 MiB."""

ReportProgress = Callable[[str], None]
OpenProgress = Callable[[str], AbstractContextManager[Progress]]
"""Makes what counts the bytes of a step of this name."""


def no_progress(_label: str) -> AbstractContextManager[Progress]:
    """Counts nothing."""
    return nullcontext(NoProgress())


class HdfsStore:
    """The files of one submit."""

    def __init__(
        self, site: Site, report: ReportProgress, open_progress: OpenProgress = no_progress
    ) -> None:
        self._site = site
        self._open_progress = open_progress
        self._files: FileSystem = site.files
        self._report = report
        self._owners = site.path_owners(report)

    def put_bytes(
        self, target: str, content: bytes, kind: Literal["file", "archive"]
    ) -> LocalizedFile:
        """A small file of one application."""
        with hdfs_errors(f"writing {target}"):
            self._site.quick.put(target, content)
        return self.localized(target, kind, "APPLICATION")

    def upload(self, local: Path, target: str, what: str) -> None:
        """A file that may be large."""
        size = local.stat().st_size
        if size >= _CHUNK:
            self._report(f"Uploading {what} ({size / 1e6:.0f} MB)")
        with hdfs_errors(f"uploading {local} to {target}"):
            self._files.write_atomic(target, lambda writer: _copy(local, writer, NoProgress()))

    def upload_once(self, made: Callable[[], Path], target: str, what: str) -> None:
        """A file that is named by its content, unless it is there."""
        with hdfs_errors(f"checking {target}"):
            if self._files.exists(target):
                return
        local = made()
        self._report(f"Uploading {what} ({local.stat().st_size / 1e6:.0f} MB), once")
        with (
            hdfs_errors(f"uploading {local} to {target}"),
            self._open_progress(f"Uploading {what}") as progress,
        ):
            progress.begin(1, local.stat().st_size)
            put_once(self._files, target, lambda writer: _copy(local, writer, progress))

    def must_be_own(self, path: str, *, is_code: bool = True) -> None:
        """See ``PathOwners.must_be_own``."""
        self._owners.must_be_own(path, is_code=is_code)

    def localized(
        self,
        target: str,
        kind: Literal["file", "archive"],
        visibility: Literal["APPLICATION", "PRIVATE"],
    ) -> LocalizedFile:
        """Includes size and time, so that Skein need not ask the NameNode once per service. Raises
        NoPermission for what lies there from job to job, if others could have put it there."""
        if visibility == "PRIVATE":
            self.must_be_own(target)
        with hdfs_errors(f"reading {target}"):
            status = self._files.stat(target)
        return skein_specs.LocalizedFile(
            target, kind, visibility, size_bytes=status.length, modified_ms=status.mtime_ms
        )


def _copy(local: Path, writer: Writer, progress: Progress) -> None:
    with local.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            writer.write(chunk)
            progress.add(len(chunk))
