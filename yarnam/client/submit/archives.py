"""Code directories as archives: the same content gives the same bytes."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from yarnam.client.environments.runtime_archive import anonymous_entry, reproducible_tar
from yarnam.errors import BadSpec
from yarnam.spec.shipping.shipped_folder import ShippedFolder, entries

if TYPE_CHECKING:
    from hdfs_utils.transfer import Progress

_GZIP_LEVEL = 4
_CHUNK = 1 << 20


def pack_folder(shipped: ShippedFolder, archive: Path) -> None:
    """Pack the folder's content as tar.gz. Links to files are packed as the files. Raises BadSpec
    for what cannot travel: a link that leads out of the folder to another folder, a broken link, an
    unreadable file, a socket or a device."""
    try:
        with reproducible_tar(archive, _GZIP_LEVEL) as tar:
            for path in entries(shipped):
                _add(tar, shipped.folder, path)
    except OSError as error:
        raise BadSpec(
            f"cannot pack {shipped.folder}: {error}", hint="Check the files' permissions."
        ) from (error)


def sha256_of(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as stream:
        return sha256_read(lambda: stream.read(_CHUNK))


def sha256_read(read: Callable[[], bytes], progress: Progress | None = None) -> str:
    """Hex digest of all that ``read`` gives, up to the first empty piece."""
    digest = hashlib.sha256()
    while chunk := read():
        digest.update(chunk)
        if progress is not None:
            progress.add(len(chunk))
    return digest.hexdigest()


def _add(tar: tarfile.TarFile, folder: Path, path: Path) -> None:
    name = path.relative_to(folder).as_posix()
    if path.is_dir():
        if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
            raise BadSpec(
                f"{path} links to a directory outside {folder}",
                hint="Copy the directory, or ship it as a separate entry of `files`.",
            )
        tar.add(path, arcname=name, recursive=False, filter=anonymous_entry)
    elif path.is_file():
        entry = tarfile.TarInfo(name)
        with path.open("rb") as stream:
            found = os.fstat(stream.fileno())
            entry.size, entry.mode = found.st_size, found.st_mode & 0o777
            tar.addfile(anonymous_entry(entry), stream)
    else:
        raise BadSpec(f"cannot ship {path}: a broken link, or neither a file nor a directory")
