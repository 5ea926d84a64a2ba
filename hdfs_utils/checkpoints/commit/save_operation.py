"""One save of one rank, from its sources to its end: written, spooled, landed, committed."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hdfs_utils import uri as uris
from hdfs_utils.checkpoints.commit.fence import Fence
from hdfs_utils.checkpoints.format import layout, shard_file
from hdfs_utils.checkpoints.format import manifest as mf
from hdfs_utils.checkpoints.format.manifest import Checkpoint
from hdfs_utils.checkpoints.format.shard_file import Identity, WrittenShard
from hdfs_utils.checkpoints.format.values import Source
from hdfs_utils.checkpoints.memory.copy_messages import CopyKey
from hdfs_utils.checkpoints.memory.memory_client import HeldShard
from hdfs_utils.checkpoints.spool import Spool
from hdfs_utils.concurrency.retry import BACKOFF, is_transient, retry
from hdfs_utils.concurrency.worker_pool import WorkerPool
from hdfs_utils.errors import HdfsError, NotFound, Unavailable


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each wait may last, in seconds.

    Attributes:
        patience_s: how long a save tries before it is spooled, or fails where nothing is spooled.
        commit_s: how long rank 0 waits for the other ranks' shards.
        agree_s: how long ranks wait for each other's part of a restore.
        exit_s: at the end of the process, for saves that are under way.
    """

    patience_s: float = 30.0
    commit_s: float = 600.0
    agree_s: float = 600.0
    exit_s: float = 120.0


@dataclass(frozen=True, slots=True)
class SaveSpec:
    """The contents of the manifest, except its shards."""

    fence: Fence
    name: str
    identity: Identity
    saved_ms: int
    metrics: Mapping[str, float]
    metadata: Mapping[str, Any]

    @property
    def path(self) -> str:
        return uris.join(self.fence.root, self.name)

    @property
    def key(self) -> CopyKey:
        return CopyKey(f"{self.fence.fs.uri}{self.fence.root}", self.name, self.identity.file)

    def note(self, until_s: float) -> dict[str, Any]:
        """All that another process needs to continue this save, for JSON; ``until_s``: when it is
        given up, in seconds since 1970."""
        fence = self.fence
        return {
            "root": f"{fence.fs.uri}{fence.root}",
            "name": self.name,
            "epoch": fence.epoch,
            "token": str(fence.token),
            "step": self.identity.step,
            "rank": self.identity.rank,
            "world_size": self.identity.world_size,
            "saved_ms": self.saved_ms,
            "metrics": dict(self.metrics),
            "metadata": dict(self.metadata),
            "until_s": until_s,
        }

    def manifest(self, written: Sequence[WrittenShard]) -> Checkpoint:
        """With the shards of all ranks, in their order."""
        return Checkpoint(
            path=self.path,
            step=self.identity.step,
            epoch=self.identity.epoch,
            saved_ms=self.saved_ms,
            world_size=self.identity.world_size,
            shards=tuple(one.shard for one in written),
            entries=tuple(entry for one in written for entry in one.entries),
            writer={
                "owner": self.fence.token.owner,
                "attempt": self.fence.token.number,
                "host": socket.gethostname(),
            },
            metrics=self.metrics,
            metadata=self.metadata,
        )


@dataclass
class SaveOperation:
    """A save under way. Driven by one thread; others only look.

    Attributes:
        plan: what is saved.
        sources: let go of when they are written.
        is_ours: whether this rank's shard is written or spooled: its memory may be used again.
        spooled: where it waits on the local disk.
        held: its place in memory, which the sources are read from.
        committed: the checkpoint, on rank 0, when it exists.
        is_over: nothing is left to do here.
    """

    plan: SaveSpec
    sources: Sequence[Source]
    is_ours: bool = False
    spooled: Path | None = None
    held: HeldShard | None = None
    committed: Checkpoint | None = None
    is_over: bool = False
    deadline_s: float = 0.0
    next_try_s: float = 0.0
    tries: int = 0
    last_trouble: HdfsError | None = None
    seen: dict[str, WrittenShard] = field(default_factory=dict)

    def write(self, limits: Limits, spool: Spool | None, trouble: Callable[[str], None]) -> None:
        """Write this rank's shard; spool it if the storage is unavailable for too long."""
        plan = self.plan
        chunks: tuple[int, ...] | None = None
        if self.held is not None:
            self.held.fill(changing_only=False)
            self.sources = self.held.sources

        def note_failure(error: HdfsError, spent_s: float) -> None:
            if self.last_trouble is None:
                trouble(f"{plan.name}: {error}; trying again for {limits.patience_s:g} s")
            self.last_trouble = error

        try:
            chunks = retry(self._write_once, limits.patience_s, on_failure=note_failure)
        except HdfsError as error:
            if spool is None or not is_transient(error):
                raise
            note = plan.note(time.time() + spool.limit_s)
            self.spooled = spool.put(plan.name, plan.identity, self.sources, note)
            self.last_trouble = error
            self.deadline_s = time.monotonic() + spool.limit_s
            trouble(
                f"{plan.name}: waits in {self.spooled} for at most {spool.limit_s:g} s: {error}"
            )
        else:
            self.deadline_s = time.monotonic() + limits.commit_s
        if self.held is not None:
            self.held.seal(chunks)
        self.sources = ()
        self.is_ours = True

    def forget(self) -> None:
        """It has failed: let go of what it holds."""
        self.is_over = self.is_ours = True
        self.sources = ()
        if self.held is not None:
            self.held.abandon()

    def _write_once(self) -> tuple[int, ...]:
        plan = self.plan
        # Asked first: who was fenced must not fill the disk.
        plan.fence.check()
        return shard_file.write(plan.fence.fs, plan.path, plan.identity, self.sources)

    def advance(self, limits: Limits, spool: Spool | None) -> None:
        """One step towards the end, if its time has come; never waits.

        Raises:
            HdfsError: it will not become a checkpoint.
        """
        now_s = time.monotonic()
        if self.is_over or now_s < self.next_try_s:
            return
        self.tries += 1
        try:
            if self.spooled is not None and spool is not None:
                self._land(limits, spool)
            if self.plan.identity.rank != 0:
                self.is_over = True
                return
            missing = self._commit()
        except HdfsError as error:
            if not is_transient(error):
                raise
            if now_s > self.deadline_s:
                where = f"; its shard is left in {self.spooled}" if self.spooled else ""
                message = f"given up: the storage was unavailable for too long{where}: {error}"
                raise Unavailable(message, path=self.plan.path, operation="save") from error
            self.last_trouble = error
        else:
            if not missing:
                self.is_over = True
                return
            if now_s > self.deadline_s:
                raise Unavailable(
                    f"{missing}, within {limits.commit_s:g} s; check those processes",
                    path=self.plan.path,
                    operation="save",
                )
        self.next_try_s = time.monotonic() + BACKOFF.pause_s(self.tries)

    def commit(self) -> None:
        """Commit now; all shards have to be there.

        Raises:
            NotFound: one of them is not.
        """
        if missing := self._commit():
            raise NotFound(missing, path=self.plan.path, operation="save")
        self.is_over = True

    def _land(self, limits: Limits, spool: Spool) -> None:
        assert self.spooled is not None
        plan = self.plan
        plan.fence.check()
        shard_file.land(plan.fence.fs, plan.path, plan.identity, self.spooled)
        spool.drop(self.spooled)
        self.spooled = None
        self.tries = 1
        self.deadline_s = time.monotonic() + limits.commit_s

    def _commit(self) -> str:
        """Commit if all shards are there; else says which are missing."""
        plan, fs = self.plan, self.plan.fence.fs
        world_size = plan.identity.world_size
        wanted = [layout.shard(rank, world_size) for rank in range(world_size)]
        try:
            there = {uris.name(status.path) for status in fs.list(plan.path)}
        except NotFound:
            # The directory is this rank's own work: somebody deleted it.
            plan.fence.check()
            raise
        missing = [file for file in wanted if file not in there]
        new = [file for file in wanted if file in there and file not in self.seen]
        footers = WorkerPool(operation="read").map(
            lambda file: shard_file.read_footer(fs, uris.join(plan.path, file)), new
        )
        for file, one in zip(new, footers, strict=True):
            self.seen[file] = one
        if missing:
            plan.fence.check()
            return f"{len(missing)} of {world_size} shards did not come: {', '.join(missing[:8])}"
        checkpoint = plan.manifest([self.seen[file] for file in wanted])
        if wrong := mf.incomplete(checkpoint.entries):
            raise ValueError(f"step {plan.identity.step} was not saved: {wrong}")
        shard_file.check_witness(fs, plan.path, checkpoint.shards)
        plan.fence.commit(plan.name, mf.encode(checkpoint))
        self.committed = checkpoint
        return ""
