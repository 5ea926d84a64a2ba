"""Shards of checkpoints that the task's processes have left on the node's disk: sent before the
container is gone, or before the next attempt's processes choose their checkpoint.

A process that ends well has waited for them itself, for some minutes. One that was killed has not.
Sending is done by another process (``hdfs_utils.checkpoints.left_behind``), which needs HDFS's
client: the agent has none, and starts it only where something was left.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_LOG = logging.getLogger("yarnam.agent")

BEFORE_LAUNCH_S = 15.0
"""The next attempt's processes are held back so long: a quarter of the usual launch timeout."""

AFTER_CRASH_S = 10.0
"""The end of a task that failed is told so much later at most. Where HDFS is away, nobody could act
on it anyway: the AM writes its journal there."""

PATTERN = "checkpoints-*/*.shard"
LOCK = ".lock"
MODULE = "hdfs_utils.checkpoints.left_behind"


class SpoolCare:
    """Of one container; the directories are all containers' of the job on this node."""

    def __init__(
        self, env: Mapping[str, str], limit_s: float, python: str = sys.executable
    ) -> None:
        names = env.get("LOCAL_DIRS", "").split(",")
        self._directories = [Path(name) for name in names if name]
        self._env = dict(env)
        self._limit_s = limit_s
        self._python = python
        self._sender: asyncio.subprocess.Process | None = None

    def has_any(self) -> bool:
        """Whether something waits whose own process is gone."""
        shards = (shard for place in self._directories for shard in place.glob(PATTERN))
        spools = {shard.parent for shard in shards if shard.with_suffix(".json").exists()}
        return any(not _is_locked(spool) for spool in spools)

    async def send(self, wait_s: float, why: str) -> bool:
        """Begin to send what was left, and wait so long for it. Whether nothing waits any more."""
        if self._sender is not None and self._sender.returncode is not None:
            self._sender = None
        if self._sender is None:
            if self._limit_s <= 0 or not self.has_any():
                return True
            _LOG.info("a checkpoint waits on this node's disk: sending it %s", why)
            self._sender = await self._start(self._directories)
        try:
            await asyncio.wait_for(self._sender.wait(), max(0.0, wait_s))
        except asyncio.TimeoutError:
            _LOG.warning("what waits on this node's disk was not sent within %.0f s", wait_s)
            return False
        return self._sender.returncode == 0

    @property
    def limit_s(self) -> float:
        """How long a checkpoint may wait, by the job's spec."""
        return self._limit_s

    async def close(self) -> None:
        """What is not sent stays on the disk until the job's end."""
        sender = self._sender
        if sender is not None and sender.returncode is None:
            sender.kill()
            await sender.wait()

    async def _start(self, directories: Sequence[Path]) -> asyncio.subprocess.Process:
        command = [self._python, "-m", MODULE, *map(str, directories)]
        limit = ["--limit", str(self._limit_s)]
        return await asyncio.create_subprocess_exec(*command, *limit, env=self._env)


def _is_locked(spool: Path) -> bool:
    """By a process that lives."""
    try:
        fd = os.open(spool / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
