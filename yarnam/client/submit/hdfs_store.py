"""Writes files for containers to HDFS, and describes them to YARN."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hdfs_utils import FileSystem, Writer
from hdfs_utils import uri as uris
from hdfs_utils.errors import NotFound
from hdfs_utils.transfer import NoProgress, Progress
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.hdfs.small_files import put_once
from yarnam.client.environments.environment_layers import ARCHIVE_SUFFIX, layers_named
from yarnam.client.environments.local_cache import COMPARED_FOLDER, check_cache
from yarnam.client.site import Site
from yarnam.client.submit.archives import sha256_of, sha256_read
from yarnam.errors import BadConfig

if TYPE_CHECKING:
    # Brings Skein and grpc along: loaded while the driver starts.
    from skein_specs import LocalizedFile

with on_first_use():
    import skein_specs

_CHUNK = 4 << 20
"""The native client is fastest with pieces of 1 to 8 MiB."""

DIGEST_LENGTH = 20
"""Hexadecimal digits of a SHA-256."""

MOST_COMPARED_BYTES = 256 << 20
"""Larger archives are compared with their names while they are uploaded alone: a machine that has
not made them would read gigabytes."""

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

    def store_once(self, made: Callable[[], Path], directory: str, name: str, what: str) -> str:
        """Where the archive of this name is, which is stored there unless it is already. Its name
        on HDFS has the digest of its bytes besides."""
        with hdfs_errors(f"checking {directory}"):
            found = stored_archive(self._files, directory, name)
        if found is None:
            local = made()
            found = f"{directory}/{named_by_digest(name, sha256_of(local))}"
            return self.upload_once(local, found, what)
        self._compare(found, what)
        return found

    def upload_once(self, local: Path, target: str, what: str) -> str:
        """Store a file under a name with the digest of its bytes, unless it is there. Returns
        ``target``."""
        name = target.rpartition("/")[2]
        with hdfs_errors(f"checking {target}"):
            is_there = self._files.exists(target)
        if is_there:
            self._compare(target, what)
            return target
        self._report(f"Uploading {what} ({local.stat().st_size / 1e6:.0f} MB), once")

        def send(writer: Writer) -> None:
            if (digest := _copy(local, writer, progress)) not in name:
                raise BadConfig(f"{local} has changed during the upload (to {digest})")

        with (
            hdfs_errors(f"uploading {local} to {target}"),
            self._open_progress(f"Uploading {what}") as progress,
        ):
            progress.begin(1, local.stat().st_size)
            put_once(self._files, target, send)
        return target

    def _compare(self, target: str, what: str) -> None:
        """Compare what lies there with the digest in its name, once on this machine. Raises
        BadConfig."""
        with hdfs_errors(f"reading {target}"):
            status = self._files.stat(target)
            name = uris.name(status.path)
            note = self._site.cache / COMPARED_FOLDER / name
            state = f"{status.mtime_ms} {status.length}"
            check_cache(note.parent)
            if status.length > MOST_COMPARED_BYTES or _text_of(note) == state:
                return
            with (
                self._open_progress(f"Comparing {what}") as progress,
                self._files.open_reader(target) as reader,
            ):
                progress.begin(1, status.length)
                digest = sha256_read(lambda: reader.read(_CHUNK), progress)[:DIGEST_LENGTH]
        if digest not in name:
            raise BadConfig(
                f"{status.path} is not what was stored there: its digest is {digest}",
                hint=f"hdfs dfs -rm {status.path}, and submit again: it is stored anew.",
            )
        with suppress(OSError):
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(state)

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


def named_by_digest(name: str, digest: str) -> str:
    """``x-0123.tar.gz`` for ``x.tar.gz``."""
    return f"{name.removesuffix(ARCHIVE_SUFFIX)}-{digest[:DIGEST_LENGTH]}{ARCHIVE_SUFFIX}"


def stored_archive(files: FileSystem, directory: str, name: str) -> str | None:
    """The path on HDFS of the archive with this name, whatever its digest; the oldest, so that the
    nodes need one only. Raises HdfsError."""
    try:
        listed = files.list(directory)
    except NotFound:
        return None
    stem = re.escape(name.removesuffix(ARCHIVE_SUFFIX))
    pattern = re.compile(rf"{stem}-[0-9a-f]{{{DIGEST_LENGTH}}}{re.escape(ARCHIVE_SUFFIX)}")
    found = [one for one in listed if pattern.fullmatch(uris.name(one.path))]
    if not found:
        return None
    oldest = min(found, key=lambda one: (one.mtime_ms, one.path))
    return f"{directory}/{uris.name(oldest.path)}"


def stored_environment(files: FileSystem, directory: str, key: str) -> list[str]:
    """The names, without digests, of the environment's archive on HDFS and of its layers, all of
    which are there; empty otherwise. Raises HdfsError."""
    try:
        listed = [uris.name(one.path) for one in files.list(directory)]
    except NotFound:
        return []
    digest = rf"-[0-9a-f]{{{DIGEST_LENGTH}}}{re.escape(ARCHIVE_SUFFIX)}"
    pattern = re.compile(rf"({re.escape(key)}(?:\.[0-9a-f]+)*){digest}")
    for name in sorted(listed):
        if found := pattern.fullmatch(name):
            names = [found[1] + ARCHIVE_SUFFIX]
            names += layers_named(names[0])
            stems = (re.escape(each.removesuffix(ARCHIVE_SUFFIX)) for each in names)
            if all(any(re.fullmatch(stem + digest, each) for each in listed) for stem in stems):
                return names
    return []


def _text_of(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _copy(local: Path, writer: Writer, progress: Progress) -> str:
    """Returns the digest of what was written."""
    with local.open("rb") as stream:

        def read() -> bytes:
            if chunk := stream.read(_CHUNK):
                writer.write(chunk)
            return chunk

        return sha256_read(read, progress)[:DIGEST_LENGTH]
