"""The archives on this machine: environments, interpreters and runtimes of earlier submits, of some
hundred megabytes to gigabytes each. Those that are used stay."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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


def is_cached(archive: Path) -> bool:
    """Whether the archive is there; it counts as used now."""
    if not archive.exists():
        return False
    with suppress(OSError):
        os.utime(archive)
    return True


def clear_cache(cache: Path, now_s: float | None = None) -> None:
    """Remove unused archives, and what killed builders have left. Raises nothing."""
    at_s = time.time() if now_s is None else now_s
    archives = []
    for folder in _FOLDERS:
        with suppress(OSError):
            for path in (cache / folder).iterdir():
                status = path.lstat()
                if path.name.startswith(BUILDING_PREFIX):
                    if at_s - status.st_mtime > IN_USE_S:
                        shutil.rmtree(path, ignore_errors=True)
                elif path.is_file():
                    archives.append(CachedArchive(path, status.st_size, status.st_mtime))
    for each in surplus(archives, at_s):
        with suppress(OSError):
            each.path.unlink()
