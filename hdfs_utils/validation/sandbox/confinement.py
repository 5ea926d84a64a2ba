"""The rights that a process gives up before it decodes foreign bytes."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from contextlib import suppress

MAX_WRITTEN = 64 << 10
"""Bytes of the longest file that it may write: what a library says on standard error."""
MAX_OPEN_FILES = 64

# linux/sched.h, linux/prctl.h, linux/capability.h
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_CAPABILITY_VERSION_3 = 0x20080522


def confine(max_memory: int, parent: int) -> None:
    """Bound this process for good, and tie its life to that of the thread that started it.

    The network goes where the kernel lets an ordinary user make a namespace; elsewhere it stays.

    Args:
        max_memory: bytes of address space, the libraries' code included.
        parent: the process that it belongs to.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0:
        _drop_capabilities(libc)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for which, most in (
        (resource.RLIMIT_AS, max_memory),
        (resource.RLIMIT_FSIZE, MAX_WRITTEN),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(which)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (bound, bound))
    # Ctrl-C is the parent's to answer: it ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Last: a change of credentials takes it back. A check in a loop never asks whether to continue.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """In its own user namespace the process has all of them, which opens much of the kernel."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    with suppress(AttributeError):  # not every C library has it
        libc.capset(header, (ctypes.c_uint32 * 6)())
