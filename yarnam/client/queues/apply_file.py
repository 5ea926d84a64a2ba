"""Puts an allocation file where the ResourceManager reads it, and watches that it does."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from itertools import count
from pathlib import Path

from yarnam.adapters.yarn.allocation_xml import load_allocations
from yarnam.client.queues.allocation_versions import noted_version
from yarnam.client.queues.queue_view import queues_now
from yarnam.client.site import Site
from yarnam.core.queues.comparison import not_taken
from yarnam.errors import NoPermission, Unavailable, UsageError
from yarnam.errors.full_disks import disk_full

TAKEN_LIMIT_S = 40.0
"""YARN looks at the file every 10 s and leaves one alone that is younger than 5 s
(AllocationFileLoaderService); with a margin for a busy ResourceManager."""
POLL_S = 1.0


def replace_file(source: Path, target: Path, undid: str = "") -> Path | None:
    """Atomically, with a backup of what was there and a line of ``allocation_versions`` beside it;
    returns the backup. The new file has the rights of the old one. Raises UsageError,
    NoPermission."""
    try:
        content = source.read_bytes()
        backup = None
        if target.exists():
            backup = _unused_backup(target)
            shutil.copy2(target, backup)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # mkstemp's 0600 would hide the file from the ResourceManager's user.
            Path(name).chmod(target.stat().st_mode & 0o777 if backup else 0o644)
            with noted_version(target, content, backup, undid):
                Path(name).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except PermissionError as error:
        raise NoPermission(
            f"cannot write {target}: {error.strerror}",
            hint="Run this where the ResourceManager runs, as the owner of the file.",
        ) from error
    except OSError as error:
        if full := disk_full(error, target):
            raise full from error
        raise UsageError(f"cannot write {target}: {error.strerror}") from error
    return backup


def _unused_backup(target: Path) -> Path:
    stamp = f"{target.name}.{time.strftime('%Y%m%d-%H%M%S')}"
    names = (f"{stamp}.bak" if not number else f"{stamp}-{number}.bak" for number in count())
    return next(path for path in map(target.with_name, names) if not path.exists())


def await_taken(site: Site, path: Path, limit_s: float = TAKEN_LIMIT_S) -> float:
    """Waits until the ResourceManager reports the queues of this file; returns after how many
    seconds. Raises Unavailable when it does not within ``limit_s``."""
    planned, began = load_allocations(path), time.monotonic()
    while True:
        different = not_taken(queues_now(site), planned)
        took_s = time.monotonic() - began
        if not different:
            return took_s
        if took_s > limit_s:
            raise Unavailable(
                f"the ResourceManager has not taken {path} within {limit_s:g} s: "
                f"{different[0]} is as before",
                hint="Its log says why: look for 'Failed to reload'. (yarn rmadmin -refreshQueues "
                "reads the file at once, but reports success even for one that YARN refuses.)",
            )
        time.sleep(POLL_S)
