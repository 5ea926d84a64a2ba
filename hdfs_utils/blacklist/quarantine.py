"""Moves proved corrupt files out of the way, with a record of where from, and back again.

A quarantined file lies in ``.yarnam-quarantine`` beside where it was (a rename stays within its
directory's mount and encryption zone); the record lies beside it. Hadoop's input
formats and :func:`hdfs_utils.validation.data_files` ignore names that begin with a dot.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from hdfs_utils import uri as uris
from hdfs_utils.blacklist.entries import MAX_TIME_S
from hdfs_utils.errors import (
    AlreadyExists,
    CorruptData,
    HdfsError,
    NotADirectory,
    NotFound,
    PermissionDenied,
)
from hdfs_utils.filesystem import FileStatus, FileSystem
from hdfs_utils.protocols.untrusted import decode_record
from hdfs_utils.transfer.tree_manifest import drop_entries

QUARANTINE_NAME = ".yarnam-quarantine"
_RECORD = ".origin.json"
# Two paths and a reason.
_MAX_RECORD = 64 << 10
_OWN = re.compile(r"[0-9a-f]{12}")
_NAME = re.compile(r"(.+)\.[0-9a-f]{12}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One file that was moved away.

    Attributes:
        origin: where it was.
        now: where it is.
        length, mtime_ms: of the file, in bytes and milliseconds; a move changes neither.
        reason: why, by the record.
        by: who moved it, by the record.
        at_s: when, seconds since the epoch, by the record.
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
    now = _path_in(directory, uris.name(status.path), unique.hexdigest()[:12])
    moved = Quarantined(status.path, now, status.length, status.mtime_ms, reason, by, at_s)
    fs.mkdirs(uris.parent(now))
    fs.write_atomic(_record_of(now), json.dumps(asdict(moved), ensure_ascii=False).encode())
    with contextlib.suppress(HdfsError):  # a check would report it as missing
        drop_entries(fs, status.path)
    try:
        fs.rename(status.path, now)
    except NotFound:
        if not fs.exists(now):  # another one of the same mind has not been faster either
            fs.delete(_record_of(now))
            raise
    return moved


def _path_in(directory: str, name: str, unique: str) -> str:
    """Where a file of this name goes: beside its record, or where both names would be too long into
    a directory of its own, because its name says where it came from."""
    flat = f"{name}.{unique}"
    if len(flat.encode()) + len(_RECORD) <= uris.MAX_NAME_BYTES:
        return uris.join(directory, flat)
    return uris.join(directory, unique, name)


def _origin_name(now: str) -> str:
    """The name that a file in quarantine had; empty for another file."""
    name = uris.name(now)
    if _OWN.fullmatch(uris.name(uris.parent(now))):
        return name if name != _RECORD else ""
    match = _NAME.fullmatch(name)
    return match[1] if match else ""


def _record_of(now: str) -> str:
    """The path of the record of a file in quarantine."""
    own = uris.parent(now)
    return uris.join(own, _RECORD) if _OWN.fullmatch(uris.name(own)) else now + _RECORD


def quarantined(fs: FileSystem, directories: Iterable[str]) -> tuple[Quarantined, ...]:
    """What lies in the quarantines of these directories, by origin."""
    found = []
    for directory in directories:
        try:
            listed = fs.list(uris.join(directory, QUARANTINE_NAME))
        except (NotFound, NotADirectory):
            continue
        own = [one.path for one in listed if one.is_dir and _OWN.fullmatch(uris.name(one.path))]
        for path in own:
            with contextlib.suppress(NotFound):
                listed += fs.list(path)
        files = {status.path: status for status in listed if not status.is_dir}
        for path, status in files.items():
            name = _origin_name(path)
            if name and (record := files.get(_record_of(path))):
                found.append(_quarantined(fs, status, uris.join(directory, name), record))
    return tuple(sorted(found, key=lambda q: q.origin))


def _quarantined(
    fs: FileSystem, status: FileStatus, origin: str, record: FileStatus
) -> Quarantined:
    """Where it is and was follows from where it lies. The record is the word of whoever may write
    there, so it only says why: a restore that believed it would rename any file of the restorer."""
    reason, by, at_s = "its record cannot be read", "", 0.0
    with contextlib.suppress(CorruptData, NotFound, PermissionDenied):
        data = fs.read_bytes(record.path, max_bytes=_MAX_RECORD)
        told = decode_record(data, max_bytes=_MAX_RECORD)
        words = told.text("reason"), told.text("by"), told.number("at_s", least=0, most=MAX_TIME_S)
        reason, by, at_s = words
    return Quarantined(origin, status.path, status.length, status.mtime_ms, reason, by, at_s)


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
    record = _record_of(item.now)
    own = uris.parent(record)
    if _OWN.fullmatch(uris.name(own)):
        fs.delete(own, recursive=True)
    else:
        fs.delete(record)
