"""Leases of GPUs by file lock, for nodes where YARN counts GPUs but does not isolate them.

One file per device in a directory that all users of the node share. The lock belongs to the open
file: however agent and keeper end, the kernel gives it back. Files are never removed, because a
lock on a removed file excludes nobody.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hdfs_utils.concurrency.process_locks import try_lock
from yarnam.agent.resources.gpu_devices import GpuDevice
from yarnam.errors import Unavailable

_LOG = logging.getLogger("yarnam.agent")

WAIT_LIMIT_S = 10.0
"""A container that has just ended may hold its devices for a moment longer."""

RETRY_S = 0.1

REFRESH_S = 3600.0
"""Cleaners of temporary directories remove files that nobody touched for days."""

_DIRECTORY_MODE = 0o1777
_FILE_MODE = 0o666
_MAX_HOLDER_BYTES = 2000


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Who leases, for the messages that others get."""

    application: str
    container: str
    job: str
    user: str
    pid: int


@dataclass(frozen=True, slots=True)
class GpuLease:
    """One device, held for as long as ``fd`` is open anywhere."""

    device: GpuDevice
    fd: int

    def refresh(self) -> None:
        """Keep cleaners away. Best effort."""
        try:
            os.utime(self.fd)
        except OSError:
            pass

    def release(self) -> None:
        try:
            os.ftruncate(self.fd, 0)
        except OSError:
            pass  # a stale name in the message of others
        os.close(self.fd)


async def acquire_leases(
    directory: Path,
    devices: Sequence[GpuDevice],
    count: int,
    holder: LeaseHolder,
    wait_s: float = WAIT_LIMIT_S,
) -> tuple[GpuLease, ...]:
    """All of ``count`` devices, the first free ones, or none. Raises Unavailable, naming holders.
    Never waits with some devices in hand: two tasks that each hold half would wait for ever."""
    if count == 0:
        return ()
    if count > len(devices):
        raise Unavailable(
            f"the task needs {count} GPUs, the node shows {len(devices)}",
            hint="YARN counts more GPUs on this node than it has: notify its administrator.",
        )
    open_lease_directory(directory)
    loop = asyncio.get_running_loop()
    limit = loop.time() + wait_s
    is_waiting = False
    while True:
        taken = _try_all(directory, devices, count, holder)
        if taken:
            return taken
        if loop.time() >= limit:
            raise Unavailable(_refusal(directory, devices, count, wait_s))
        if not is_waiting:
            is_waiting = True
            _LOG.info("waiting up to %.0f s for %d GPUs that others hold", wait_s, count)
        await asyncio.sleep(RETRY_S)


def open_lease_directory(directory: Path) -> None:
    """Make it for everybody, or check the one that is there. Raises Unavailable."""
    try:
        directory.mkdir(parents=True)
        directory.chmod(_DIRECTORY_MODE)
    except FileExistsError:
        pass
    except OSError as error:
        raise Unavailable(f"cannot make the directory of GPU leases: {error}") from error
    mode = directory.lstat().st_mode
    if not stat.S_ISDIR(mode):
        raise Unavailable(
            f"{directory} is not a directory: GPU leases cannot be kept there",
            hint="Ask the node's administrator to remove what is there.",
        )


def _try_all(
    directory: Path, devices: Sequence[GpuDevice], count: int, holder: LeaseHolder
) -> tuple[GpuLease, ...]:
    taken: list[GpuLease] = []
    for device in devices:
        fd = _open(_path(directory, device))
        if not try_lock(fd):
            os.close(fd)
            continue
        taken.append(GpuLease(device, fd))
        if len(taken) == count:
            for each in taken:
                _sign(each.fd, holder)
            return tuple(taken)
    for each in taken:
        each.release()
    return ()


def _path(directory: Path, device: GpuDevice) -> Path:
    return directory / (re.sub(r"[^A-Za-z0-9._-]", "_", device.lock) + ".lock")


def _open(path: Path) -> int:
    """Symlinks are not followed: the directory is open to all users."""
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        for _ in range(10):
            try:
                # Without O_CREAT: the kernel may forbid to "create" what another user owns here.
                return _checked(os.open(path, os.O_RDWR | flags))
            except FileNotFoundError:
                pass
            except PermissionError:
                # Another user died before widening the mode. A lock needs no right to write.
                return _checked(os.open(path, os.O_RDONLY | flags))
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, _FILE_MODE)
            except FileExistsError:
                continue
            os.fchmod(fd, _FILE_MODE)
            return fd
    except OSError as error:
        what = "is a symbolic link" if error.errno == errno.ELOOP else str(error)
        raise Unavailable(f"cannot open the GPU lease {path}: {what}") from error
    raise Unavailable(f"cannot open the GPU lease {path}: it comes and goes")


def _checked(fd: int) -> int:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file")
    return fd


def _sign(fd: int, holder: LeaseHolder) -> None:
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(asdict(holder)).encode()[:_MAX_HOLDER_BYTES], 0)
    except OSError:
        pass  # only the message of others gets poorer


def _refusal(directory: Path, devices: Sequence[GpuDevice], count: int, wait_s: float) -> str:
    holders = []
    for device in devices:
        try:
            with _path(directory, device).open("rb") as stream:
                holder = json.loads(stream.read(_MAX_HOLDER_BYTES))
            holders.append(
                f"GPU {device.ident}: job {holder['job']!r} of {holder['user']} "
                f"({holder['application'] or holder['container']}, pid {holder['pid']})"
            )
        except (OSError, ValueError, KeyError, TypeError):
            continue
    shown = "; ".join(holders[:16]) or "unknown"
    return (
        f"{count} of the node's {len(devices)} GPUs could not be leased within {wait_s:.0f} s; "
        f"last holders: {shown}"
    )
