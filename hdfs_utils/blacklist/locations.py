"""Where entries lie, and which of these places a dataset's owner trusts.

Trust is by place, and the place is guarded by HDFS itself: ``.yarnam-blacklist`` in a directory
above the file can be written only by those who could as well replace, move or delete the file.
Entries of everybody else go to one open place, where anybody may write; those warn and decide
nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from hdfs_utils import uri as uris
from hdfs_utils.filesystem import FileStatus

DIRECTORY_NAME = ".yarnam-blacklist"
OPEN_DIRECTORY_VARIABLE = "YARNAM_OPEN_BLACKLIST"
OPEN_DIRECTORY = "/tmp/yarnam-open-blacklist"  # noqa: S108 - on HDFS, where /tmp is sticky too
OPEN_PERMISSION = 0o1777
STICKY = 0o1000

_GROUP_WRITE, _OTHER_WRITE = 0o020, 0o002


@dataclass(frozen=True, slots=True)
class Location:
    """A directory of entries; ``is_trusted`` as far as ``guards`` tells."""

    directory: str
    is_trusted: bool


def open_directory() -> str:
    """The directory that is open to all; YARNAM_OPEN_BLACKLIST names another one."""
    return os.environ.get(OPEN_DIRECTORY_VARIABLE) or OPEN_DIRECTORY


def location_in(directory: str) -> str:
    """The place for what is below a directory."""
    return uris.join(directory, DIRECTORY_NAME)


def ancestors(path: str) -> tuple[str, ...]:
    """The directories above a path, from the top; without the root."""
    found: list[str] = []
    while (path := uris.parent(path)) != "/":
        found.insert(0, path)
    return tuple(found)


def locations_for_writing(path: str) -> tuple[str, ...]:
    """Directories to keep an entry about ``path`` in, the best first: the highest that one may
    write, so that one look serves all jobs below.

    The tops (``/data``, ``/user``) are for no dataset alone, so they come last.
    """
    above = ancestors(path)
    return (*above[1:], *above[:1])


def guards(parent: FileStatus, location: FileStatus, below: str = "") -> bool:
    """Whether only those can write to the place who could as well replace what lies beside it.

    Args:
        parent: of the directory that holds the place.
        location: the directory of entries itself.
        below: owner of the next directory or file towards the data; empty means not known.
    """
    if parent.permission & STICKY and parent.permission & (_OTHER_WRITE | _GROUP_WRITE):
        # Everybody may make things here, but not touch those of others: /tmp.
        return location.owner in (parent.owner, below) and not _is_wider(
            location, parent, sticky=True
        )
    return _may_make(location, parent) and not _is_wider(location, parent, sticky=False)


def _may_make(location: FileStatus, parent: FileStatus) -> bool:
    """Whether the owner of the location may still write to its parent directory."""
    is_team = parent.permission & _GROUP_WRITE and location.group == parent.group
    return bool(location.owner == parent.owner or is_team or parent.permission & _OTHER_WRITE)


def _is_wider(location: FileStatus, parent: FileStatus, *, sticky: bool) -> bool:
    """Whether the place admits writers that its parent does not."""
    allowed = 0 if sticky else parent.permission
    if location.permission & _OTHER_WRITE and not allowed & _OTHER_WRITE:
        return True
    same_group = location.group == parent.group and allowed & _GROUP_WRITE
    return bool(
        location.permission & _GROUP_WRITE and not same_group and not allowed & _OTHER_WRITE
    )
