"""Leases of GPUs, for nodes where YARN counts GPUs but does not isolate them.

A lease is a Unix socket with the device's name in Linux's abstract namespace. The kernel gives a
name to one socket at a time, and takes it back with the last descriptor, however
agent and keeper end. Another user has no file to remove, rename or replace, and nothing
remains to clean up. Any user can still take a name that is free: then the kernel names that user.
What a holder says of its job is shown, and decides nothing.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import logging
import pwd
import re
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_record
from yarnam.agent.resources.gpu_devices import GpuDevice
from yarnam.errors import Unavailable

_LOG = logging.getLogger("yarnam.agent")

WAIT_LIMIT_S = 10.0
"""A container that has just ended may hold its devices for a moment longer."""

RETRY_S = 0.1

ANSWER_LIMIT_S = 0.3
"""For a holder's answer; its agent may be gone, while what it started is not."""

_SHOWN = 16
_MAX_ANSWER_BYTES = 2000
_APPLICATION = re.compile(r"application_[0-9]{1,20}_[0-9]{1,20}")
_NAME_BYTES = 100
"""Part of the 107 that an abstract name may have (unix(7))."""
_BACKLOG = 128
_CREDENTIALS = struct.Struct("iII")
"""``struct ucred``: pid, uid, gid."""


class DevicesTaken(Unavailable):
    """Others on the node hold what the task needs. This says nothing against the node."""


class LeaseHolder(NamedTuple):
    """Who leases, for the messages that others get."""

    application: str
    job: str
    user: str


class GpuLease(NamedTuple):
    """One device, held for as long as the socket is open anywhere."""

    device: GpuDevice
    sock: socket.socket

    def introduce_as(self, holder: LeaseHolder) -> None:
        """From now on everybody who connects gets an answer, on the running event loop."""
        said = json.dumps(holder._asdict()).encode()[:_MAX_ANSWER_BYTES]

        def introduce() -> None:
            with suppress(OSError):
                asker, _ = self.sock.accept()
                with asker:
                    asker.send(said, socket.MSG_DONTWAIT)

        asyncio.get_running_loop().add_reader(self.sock, introduce)

    def release(self) -> None:
        """On the event loop, if it introduces itself there."""
        with suppress(RuntimeError):  # no loop runs any more
            asyncio.get_running_loop().remove_reader(self.sock)
        self.sock.close()


async def acquire_leases(
    devices: Sequence[GpuDevice], count: int, holder: LeaseHolder, wait_s: float = WAIT_LIMIT_S
) -> tuple[GpuLease, ...]:
    """All of ``count`` devices, the first free ones, or none. Raises DevicesTaken, naming holders,
    and Unavailable. Never waits with some devices in hand: two tasks that each hold half would
    wait for ever."""
    if count == 0:
        return ()
    if count > len(devices):
        raise Unavailable(
            f"the task needs {count} GPUs, the node shows {len(devices)}",
            hint="YARN counts more GPUs on this node than it has: notify its administrator.",
        )
    loop = asyncio.get_running_loop()
    limit = loop.time() + wait_s
    is_waiting = False
    while True:
        taken = _try_all(devices, count)
        if taken:
            for each in taken:
                each.introduce_as(holder)
            return taken
        if loop.time() >= limit:
            raise DevicesTaken(await asyncio.to_thread(_refusal, devices, count, wait_s))
        if not is_waiting:
            is_waiting = True
            _LOG.info("waiting up to %.0f s for %d GPUs that others hold", wait_s, count)
        await asyncio.sleep(RETRY_S)


def _try_all(devices: Sequence[GpuDevice], count: int) -> tuple[GpuLease, ...]:
    taken: list[GpuLease] = []
    for device in devices:
        sock = _try(device)
        if sock is not None:
            taken.append(GpuLease(device, sock))
        if len(taken) == count:
            return tuple(taken)
    for each in taken:
        each.release()
    return ()


def _try(device: GpuDevice) -> socket.socket | None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.bind(lease_name(device))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise Unavailable(f"cannot lease GPU {device.ident}: {error}") from error
    return sock


def lease_name(device: GpuDevice) -> bytes:
    """The abstract name; ``ss -xlp`` shows it as ``@yarnam-lease/…``."""
    name = device.lock.encode()
    if len(name) > _NAME_BYTES - len(_PREFIX):
        name = hashlib.sha256(name).hexdigest().encode()
    return _PREFIX + name


_PREFIX = b"\0yarnam-lease/"


def _refusal(devices: Sequence[GpuDevice], count: int, wait_s: float) -> str:
    holders = []
    for device in devices[:_SHOWN]:
        holder = _holder_of(device)
        if holder:
            holders.append(f"GPU {device.ident}: {holder}")
    return (
        f"{count} of the node's {len(devices)} GPUs could not be leased within {wait_s:.0f} s; "
        f"holders: {'; '.join(holders) or 'unknown'}"
    )


def _holder_of(device: GpuDevice) -> str:
    """Process and user by the kernel's word, the job by the holder's; empty if it is not known."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(ANSWER_LIMIT_S)
        try:
            sock.connect(lease_name(device))
            found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return ""
        said = b""
        with suppress(OSError):
            said = sock.recv(_MAX_ANSWER_BYTES)
    pid, uid, _ = _CREDENTIALS.unpack(found)
    return f"process {pid or 'unknown'} of user {_user_name(uid)}{_claim(said)}"


def _claim(said: bytes) -> str:
    """The holder's own description. ``repr``: it may be anybody, and this goes into logs."""
    try:
        holder = decode_record(said, max_bytes=_MAX_ANSWER_BYTES)
        application = holder.text("application", pattern=_APPLICATION)
        job, user = repr(holder.text("job")[:80]), repr(holder.text("user")[:80])
    except MalformedData:
        return ""
    return f", by its own word job {job} of {user} ({application})"


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
