"""Moves proved corrupt files out of the way, with a record of where from, and back again.

A quarantined file lies in ``.yarnam-quarantine`` beside where it was (a rename stays within its
directory's mount and encryption zone); the record lies beside it. Names that begin with a dot are
no data to Hadoop's input formats and to :func:`hdfs_utils.validation.data_files`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from hdfs_utils import uri as uris
from hdfs_utils.errors import AlreadyExists, CorruptData, NotADirectory, NotFound
from hdfs_utils.filesystem import FileStatus, FileSystem

QUARANTINE_NAME = ".yarnam-quarantine"
_RECORD = ".origin.json"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One file that was moved away.

    Attributes:
        origin: where it was.
        now: where it is.
        length, mtime_ms: of the file, in bytes and milliseconds; a move changes neither.
        reason: why.
        by: who moved it.
        at_s: when, seconds since the epoch.
    """

    origin: str
    now: str
    length: int
    mtime_ms: int
    reason: str
    by: str
    at_s: float


def quarantine(
    fs: FileSystem, status: FileStatus, *, reason: str, by: str, at_s: float
) -> Quarantined:
    """Move a file away. The record is written first: a file is never away without one.

    Raises:
        NotFound: it is gone already.
        PermissionDenied: this user may not move it.
    """
    directory = uris.join(uris.parent(status.path), QUARANTINE_NAME)
    unique = hashlib.sha256(f"{status.path}\0{status.length}\0{status.mtime_ms}".encode())
    now = uris.join(directory, f"{uris.name(status.path)}.{unique.hexdigest()[:12]}")
    moved = Quarantined(status.path, now, status.length, status.mtime_ms, reason, by, at_s)
    fs.mkdirs(directory)
    fs.write_atomic(now + _RECORD, json.dumps(asdict(moved), ensure_ascii=False).encode())
    try:
        fs.rename(status.path, now)
    except NotFound:
        if not fs.exists(now):  # another one of the same mind has not been faster either
            fs.delete(now + _RECORD)
            raise
    return moved


def quarantined(fs: FileSystem, directories: Iterable[str]) -> tuple[Quarantined, ...]:
    """What lies in the quarantines of these directories, by origin."""
    found = []
    for directory in directories:
        try:
            listed = fs.list(uris.join(directory, QUARANTINE_NAME))
        except (NotFound, NotADirectory):
            continue
        names = {status.path for status in listed}
        for path in sorted(names):
            if path.endswith(_RECORD) and path.removesuffix(_RECORD) in names:
                found.append(_record(fs, path))
    return tuple(sorted(found, key=lambda q: q.origin))


def _record(fs: FileSystem, path: str) -> Quarantined:
    try:
        return Quarantined(**json.loads(fs.read_bytes(path)))
    except (ValueError, TypeError) as error:
        raise CorruptData("is no record of a quarantined file", path=path) from error


def restore(fs: FileSystem, item: Quarantined) -> None:
    """Move a file back to where it was.

    Raises:
        AlreadyExists: another file is there by now; nothing was changed.
    """
    try:
        fs.rename(item.now, item.origin)
    except AlreadyExists as error:
        message = f"another file is at its place by now; the old one stays at {item.now}"
        raise AlreadyExists(message, path=item.origin, operation="restore") from error
    fs.delete(item.now + _RECORD)
