"""The archives on this machine: environments, interpreters and runtimes of earlier submits, of some
hundred megabytes to gigabytes each. Those that are used stay."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from yarnam.errors import BadConfig

BUILDING_PREFIX = "building-"
"""Directories in which archives are made."""

UNUSED_S = 90 * 86400.0
MOST_BYTES = 20 << 30
"""Total size of the archives; the longest unused ones go first."""

IN_USE_S = 86400.0
"""A submit that has just found its archive may still be uploading it."""

COMPARED_FOLDER = "compared"
"""Notes of the archives on HDFS that were compared with their digests."""
RESOLVED_FOLDER = "resolved"
"""The packages that requirements files have asked for, with versions and hashes."""

_FOLDERS = ("environments", "interpreters", "runtime", COMPARED_FOLDER, RESOLVED_FOLDER)


@dataclass(frozen=True, slots=True)
class CachedArchive:
    path: Path
    size_bytes: int
    used_at_s: float


def surplus(archives: Sequence[CachedArchive], now_s: float) -> list[CachedArchive]:
    """The archives that should go: unused for too long, or beyond the total size."""
    kept_bytes, found = 0, []
    for each in sorted(archives, key=lambda one: one.used_at_s, reverse=True):
        age_s = now_s - each.used_at_s
        if age_s > UNUSED_S or (age_s > IN_USE_S and kept_bytes + each.size_bytes > MOST_BYTES):
            found.append(each)
        else:
            kept_bytes += each.size_bytes
    return found


def check_cache(folder: Path) -> None:
    """Raise BadConfig if another user could have put there what is found in a folder of the cache:
    it, the cache or the directory that holds the cache was made by somebody else, or is open to
    others."""
    for part in (folder.parents[1], folder.parent, folder):
        with suppress(FileNotFoundError):
            if reason := _why_open(part, part.stat()):
                raise BadConfig(
                    f"the local cache {folder.parent} is not used, since what is in it runs as you:"
                    f" {reason}",
                    hint="Name a directory of your own (YARNAM_HOME or XDG_CACHE_HOME), or take"
                    " the right to write from others (chmod go-w).",
                )


def _why_open(path: Path, status: os.stat_result) -> str:
    if status.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to another user"
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return ""  # Nobody else can touch in it what is ours.
    if status.st_mode & stat.S_IWOTH:
        return f"everybody may write to {path}"
    is_shared = status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid)
    return f"a group may write to {path}" if is_shared else ""


def _is_private_group(gid: int) -> bool:
    """Whether this is the group that many systems make for each user alone."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return user.pw_gid == gid and not set(group.gr_mem) - {user.pw_name}


def is_cached(archive: Path) -> bool:
    """Whether the archive is there, and this user's own; it counts as used now. Raises as
    ``check_cache``."""
    check_cache(archive.parent)
    try:
        if _why_open(archive, archive.stat()):
            return False
    except OSError:
        return False
    with suppress(OSError):
        os.utime(archive)
    return True


def clear_cache(cache: Path, now_s: float | None = None) -> None:
    """Remove unused archives, and what killed builders have left. Raises nothing."""
    at_s = time.time() if now_s is None else now_s
    for each in surplus(_archives(cache, at_s), at_s):
        with suppress(OSError):
            each.path.unlink()


def remove_unused(cache: Path, unused_s: float, *, is_trial: bool = False) -> list[CachedArchive]:
    """Remove the archives that no submit has used for ``unused_s`` seconds, and return them.
    ``is_trial``: removes nothing. Raises OSError."""
    at_s = time.time()
    found = [each for each in _archives(cache, at_s) if at_s - each.used_at_s >= unused_s]
    if not is_trial:
        for each in found:
            each.path.unlink(missing_ok=True)
    return sorted(found, key=lambda each: each.used_at_s)


def _archives(cache: Path, now_s: float) -> list[CachedArchive]:
    """Removes what killed builders have left."""
    archives = []
    for folder in _FOLDERS:
        with suppress(OSError):
            for path in (cache / folder).iterdir():
                status = path.lstat()
                if path.name.startswith(BUILDING_PREFIX):
                    if now_s - status.st_mtime > IN_USE_S:
                        shutil.rmtree(path, ignore_errors=True)
                elif path.is_file():
                    archives.append(CachedArchive(path, status.st_size, status.st_mtime))
    return archives
