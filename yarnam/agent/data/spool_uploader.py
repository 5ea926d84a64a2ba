"""Uploads checkpoint shards that the task's processes left on the node's disk: before the container
is gone, or before the next attempt's processes choose their checkpoint.

A process that ends well has waited for them itself, for some minutes. One that was killed has not.
Sending is done by another process (``hdfs_utils.checkpoints.orphaned_spools``), which needs HDFS's
client: the agent has none, and starts it only where something was left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from hdfs_utils.concurrency.process_locks import is_abandoned
from yarnam.agent.data.own_programs import start_program

_LOG = logging.getLogger("yarnam.agent")

PATTERN = "checkpoints-*/*.shard"
LOCK = ".lock"
MODULE = "hdfs_utils.checkpoints.orphaned_spools"


class SpoolUploader:
    """The uploads of one container. All containers of the job on a node share the directories."""

    def __init__(self, env: Mapping[str, str], limit_s: float) -> None:
        names = env.get("LOCAL_DIRS", "").split(",")
        self._directories = [Path(name) for name in names if name]
        self._env = dict(env)
        self.limit_s = limit_s
        """How long a checkpoint may wait, by the job's spec."""
        self._sender: asyncio.subprocess.Process | None = None

    def has_any(self) -> bool:
        """Whether a shard waits whose own process is gone."""
        shards = (shard for place in self._directories for shard in place.glob(PATTERN))
        spools = {shard.parent for shard in shards if shard.with_suffix(".json").exists()}
        return any(is_abandoned(spool / LOCK) for spool in spools)

    async def upload(self, wait_s: float, why: str) -> bool:
        """Upload what was left, waiting up to ``wait_s``. Whether nothing waits any more."""
        if self._sender is not None and self._sender.returncode is not None:
            self._sender = None
        if self._sender is None:
            if self.limit_s <= 0 or not self.has_any():
                return True
            _LOG.info("uploading a checkpoint that waits on this node's disk, %s", why)
            self._sender = await self._start()
        try:
            await asyncio.wait_for(self._sender.wait(), max(0.0, wait_s))
        except asyncio.TimeoutError:
            _LOG.warning("the checkpoint on this disk was not uploaded within %.0f s", wait_s)
            return False
        return self._sender.returncode == 0

    async def close(self) -> None:
        """End an upload; its checkpoint stays on the disk until the job's end."""
        sender = self._sender
        if sender is not None and sender.returncode is None:
            sender.kill()
            await sender.wait()

    async def _start(self) -> asyncio.subprocess.Process:
        directories = map(str, self._directories)
        limit = ("--limit", str(self.limit_s))
        return await start_program(MODULE, *directories, *limit, env=self._env)
