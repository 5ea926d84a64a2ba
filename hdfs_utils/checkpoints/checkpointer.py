"""Saving and restoring for a process, or for each rank of a group: :class:`Checkpointer`."""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from hdfs_utils import uri as uris
from hdfs_utils.backends.connect import connect
from hdfs_utils.checkpoints import catalog, pruning
from hdfs_utils.checkpoints.catalog import Report
from hdfs_utils.checkpoints.commit import agreement, restore_operation
from hdfs_utils.checkpoints.commit.fence import EpochClaim, Fence, Token, newest_claim
from hdfs_utils.checkpoints.commit.restore_operation import NEWEST, StartPoint
from hdfs_utils.checkpoints.commit.save_operation import Limits, SaveOperation, SaveSpec
from hdfs_utils.checkpoints.format import layout
from hdfs_utils.checkpoints.format.manifest import Checkpoint, copy_of_metadata
from hdfs_utils.checkpoints.format.reader import OpenCheckpoint, read_all
from hdfs_utils.checkpoints.format.shard_file import Identity
from hdfs_utils.checkpoints.format.values import Source, Value, sources
from hdfs_utils.checkpoints.memory.memory_client import CheckpointMemory, HeldShard
from hdfs_utils.checkpoints.retention import Retention
from hdfs_utils.checkpoints.spool import Spool
from hdfs_utils.concurrency.retry import retry
from hdfs_utils.errors import HdfsError, Unavailable
from hdfs_utils.filesystem import FileSystem

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

_log = logging.getLogger("hdfs_utils.checkpoints")


_clock = threading.Lock()
_last_ms = 0


def _now_ms() -> int:
    """Milliseconds since 1970, each value once in this process: two saves have an order."""
    global _last_ms  # noqa: PLW0603 - one clock for all checkpointers
    with _clock:
        _last_ms = max(_last_ms + 1, int(time.time() * 1000))
        return _last_ms


class StagingBuffer:
    """Memory that is used again for each save: fresh memory costs as much as the copy itself."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def copy(self, sources: Sequence[Source]) -> list[Source]:
        """The same sources with their bytes in the buffer; what was there before is gone.

        What nobody will change (bytes, JAX's arrays) is not copied.
        """
        sizes = [
            len(s.content) for s in sources if isinstance(s.content, memoryview) and not s.is_frozen
        ]
        if sum(sizes) > len(self._buffer):
            self._buffer = bytearray(sum(sizes))
        target = memoryview(self._buffer)
        copied, at = [], 0
        for source in sources:
            if isinstance(source.content, memoryview) and not source.is_frozen:
                end = at + len(source.content)
                target[at:end] = source.content
                content = target[at:end].toreadonly()
                copied.append(Source(source.name, source.length, content, source.array))
                at = end
            else:
                copied.append(source)
        return copied


class Checkpointer:
    """Checkpoints of one process, or of one rank of a group. For one thread at a time.

    Every rank of a group creates one, and all make the same calls in the same order. Nothing is
    read or written before the first save or restore.

    Args:
        directory: of all checkpoints of a job; a path or a URI.
        rank: of this process, from 0.
        world_size: how many processes save together.
        token: identifies the writer; by default the job's attempt (``YARNAM_CHECKPOINT_TOKEN``),
            else one for this process. A group needs one that all its ranks share.
        retention: what stays after each save.
        background: ``save`` returns as soon as the values are copied in memory; at most one save
            is behind.
        spool: where shards wait while the storage is unavailable; without one such a save fails.
        memory: where each save stays as well, and restores look first.
        limits: for all waits.
        start: which checkpoint to start from.
        fs: where; by default the file system of ``directory``.
        report: called for each checkpoint that is skipped; by default it logs a warning.
        while_saving: made and entered by the thread that saves, for as long as it has work.

    Attributes:
        read_from: bytes that the last restore read, by where they came from: ``memory`` of this
            node, a ``peer``'s, the ``storage``.

    Raises:
        ValueError: a group without a common token, or a rank that is not in it.
    """

    def __init__(
        self,
        directory: str,
        *,
        rank: int = 0,
        world_size: int = 1,
        token: Token | None = None,
        retention: Retention | None = None,
        background: bool = False,
        spool: Spool | None = None,
        memory: CheckpointMemory | None = None,
        limits: Limits | None = None,
        start: StartPoint = NEWEST,
        fs: FileSystem | None = None,
        report: Report = catalog.warn,
        while_saving: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} is not one of {world_size}")
        self._token = token or Token.of_this_process()
        if world_size > 1 and self._token.is_anonymous:
            raise ValueError(f"{world_size} ranks need a token that they share: give them one")
        self.rank, self.world_size = rank, world_size
        self.retention = retention or Retention()
        self.limits = limits or Limits()
        self.fs = fs or connect(directory)
        self.root = self.fs.own_path(directory)
        self._background = background
        self._spool = spool
        self._memory = memory
        self.read_from: Counter[str] = Counter()
        self._start = start
        self._report = report
        self._while_saving = while_saving
        self._known = pruning.MetricsCache()
        self._fence: Fence | None = None
        self._numbers: Counter[int] = Counter()
        self._restores = 0
        self._staging = StagingBuffer()
        self._savings: list[SaveOperation] = []
        self._last: SaveOperation | None = None
        self._failed: BaseException | None = None
        self._changed = threading.Condition()
        self._worker: threading.Thread | None = None

    def save(
        self,
        step: int,
        values: Mapping[str, Value],
        metadata: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> Checkpoint | None:
        """Save a checkpoint.

        In the foreground it exists when this returns, on every rank; only where the storage is
        in trouble for longer than ``limits.patience_s`` it may be in the spool instead. In the
        background this waits for the save before to be written, copies the values and returns.

        Args:
            step: the training step, from 0. A step may be saved again: the later one counts.
            values: by name; see :data:`hdfs_utils.checkpoints.Value`.
            metadata: anything JSON can hold; that of rank 0 counts.
            metrics: numbers for retention and for the list; those of rank 0 count.

        Returns:
            The checkpoint, on rank 0 in the foreground; else None.

        Raises:
            ValueError, TypeError, InvalidPath: something that cannot be saved.
            Fenced: a successor has taken over; stop.
            HdfsError: this save, or in the background the one before, did not become a
                checkpoint. Older ones are untouched.
        """
        self._raise_failure()
        if not 0 <= step <= layout.MAX_STEP:
            raise ValueError(f"step must be from 0 to {layout.MAX_STEP}, not {step}")
        # A deep copy: the caller's lists grow while this is saved.
        copied = copy_of_metadata(metadata)
        ratings = {name: float(value) for name, value in (metrics or {}).items()}
        json.dumps(ratings, allow_nan=False)
        given = sources(values, self.rank, self.world_size)
        fence = self.enter()
        name, saved_ms = self.new_name(step)
        plan = SaveSpec(
            fence=fence,
            name=name,
            identity=Identity(step, fence.epoch, self.rank, self.world_size),
            saved_ms=saved_ms,
            metrics=ratings,
            metadata=copied,
        )
        # At most one behind, and its memory is free to be used again.
        self._wait(lambda: all(saving.is_ours for saving in self._savings), None)
        self._raise_failure()
        held = self.hold(plan, given)
        if held is not None:
            held.fill(changing_only=True)
            given = list(held.sources)
        copied_sources = self._staging.copy(given) if self._background else given
        if held is not None:
            held.sources = tuple(copied_sources)
        saving = SaveOperation(plan, copied_sources, held=held)
        self._submit(saving)
        if self._background:
            return None
        # Not only over: what it replaces is cleared away as well.
        self._wait(
            lambda: saving.spooled is not None or all(one is not saving for one in self._savings),
            None,
        )
        self._raise_failure()
        if saving.is_over and self.rank != 0:
            self._wait_for_manifest(saving)
        return saving.committed

    def restore(
        self,
        read: Callable[[OpenCheckpoint], T],
        *,
        accept: Callable[[Checkpoint], bool] = lambda checkpoint: True,
    ) -> tuple[Checkpoint, T] | None:
        """Read the newest whole checkpoint; the same one on all ranks.

        A corrupt one is set aside (renamed to ``corrupt-…``), reported, and the one before is
        taken. What is unfinished is skipped.

        Args:
            read: reads what this rank needs; it may be called again for an older checkpoint.
            accept: which checkpoints may be taken; asked by rank 0, the newest first.

        Returns:
            The checkpoint and what ``read`` returned; None where there is nothing to restore.

        Raises:
            Fenced: a successor has taken over; stop.
            Unavailable: the storage, or another rank, does not answer in time; never because of
                a torn checkpoint.
        """
        self.wait()
        fence = self._observed() if self._token.is_anonymous else self.enter()
        number, self._restores = self._restores, self._restores + 1
        work = restore_operation.RestoreOperation(
            fence, self.rank, self.world_size, self._start, self.limits, self._report, accept,
            self._memory,
        )  # fmt: skip
        found = work.run(number, read)
        self.read_from = work.read_from
        if found is not None and self._memory is not None:
            read_from = ", ".join(f"{size} from {name}" for name, size in work.read_from.items())
            _log.info("step %d is restored; bytes read: %s", found[0].step, read_from or "none")
        return found

    def hold(self, plan: SaveSpec, given: Sequence[Source]) -> HeldShard | None:
        """Memory for a shard; None if saves do not stay in memory, or this one cannot."""
        return self._memory.hold(plan.key, plan.identity, given) if self._memory else None

    def load(self) -> tuple[Checkpoint, dict[str, Any]] | None:
        """Restore everything: arrays as arrays, the rest as bytes."""
        return self.restore(read_all)

    def wait(self, limit_s: float | None = None) -> None:
        """Until all saves are checkpoints, those in the spool too.

        Args:
            limit_s: in seconds; by default each part has its own limit.

        Raises:
            Unavailable: not in time.
            HdfsError: one of them did not become a checkpoint.
        """
        if not self._wait(lambda: not self._savings, limit_s):
            behind = ", ".join(saving.plan.name for saving in self._savings)
            message = f"not saved within {limit_s:g} s: {behind}"
            raise Unavailable(message, path=self.root, operation="save")
        self._raise_failure()
        if self._last is not None and self.rank != 0:
            self._wait_for_manifest(self._last)
            self._last = None

    def close(self) -> None:
        """Wait for all saves; see :meth:`wait`."""
        self.wait()

    @property
    def behind(self) -> tuple[str, ...]:
        """Saves that are not committed yet."""
        with self._changed:
            return tuple(saving.plan.name for saving in self._savings)

    @property
    def spooled(self) -> tuple[str, ...]:
        """Those of them that wait on the local disk."""
        with self._changed:
            return tuple(s.plan.name for s in self._savings if s.spooled is not None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()

    def enter(self) -> Fence:
        """The epoch of this attempt: claimed by rank 0, found by the others.

        Raises:
            Fenced: a successor has taken over; stop.
            Unavailable: the storage, or rank 0, does not answer in time.
        """
        if self._fence is not None:
            return self._fence
        if self.rank == 0:
            self._fence = retry(
                lambda: Fence.claim(self.fs, self.root, self._token), self.limits.patience_s
            )
        else:
            self._fence = agreement.poll_until(
                lambda: retry(
                    lambda: Fence.find(self.fs, self.root, self._token), self.limits.patience_s
                ),
                self.limits.agree_s,
                lambda: f"rank 0 of {self._token} has claimed no epoch",
                self.root,
            )
        return self._fence

    def _observed(self) -> Fence:
        """For a process outside of a job, until it saves: who only reads takes nothing over."""

        def observe() -> Fence:
            newest = newest_claim(self.fs, self.root)
            return Fence(self.fs, self.root, newest or EpochClaim(0, self._token))

        return self._fence or retry(observe, self.limits.patience_s)

    def new_name(self, step: int) -> tuple[str, int]:
        """For the next save of a step: the same on all ranks of a group. And the time in ms."""
        saved_ms = _now_ms()
        if self.world_size == 1:
            tag = layout.single_tag(saved_ms, secrets.randbits(16))
        else:
            tag = layout.group_tag(self._numbers[step])
            self._numbers[step] += 1
        return str(layout.CheckpointName(step, self.enter().epoch, tag)), saved_ms

    def _wait_for_manifest(self, saving: SaveOperation) -> None:
        """On the other ranks: until rank 0 has committed."""
        manifest = uris.join(saving.plan.path, layout.MANIFEST)

        def is_committed() -> bool | None:
            if self.fs.exists(manifest):
                return True
            saving.plan.fence.check()
            return None

        agreement.poll_until(
            lambda: retry(is_committed, self.limits.patience_s),
            self.limits.commit_s,
            lambda: f"rank 0 has not committed {saving.plan.name}",
            self.root,
        )

    def _submit(self, saving: SaveOperation) -> None:
        with self._changed:
            self._savings.append(saving)
            self._last = saving
            if self._worker is None:
                # No daemon: the last save must not be lost because the program ends.
                self._worker = threading.Thread(target=self._save_all, name="checkpoint")
                self._worker.start()
            self._changed.notify_all()

    def _wait(self, is_done: Callable[[], bool], limit_s: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: is_done() or self._failed is not None, limit_s)

    def _raise_failure(self) -> None:
        with self._changed:
            error, self._failed = self._failed, None
        if error is not None:
            raise error

    def _save_all(self) -> None:
        """The thread: lives as long as there is something to do."""
        with self._while_saving():
            self._work()

    def _work(self) -> None:
        end_s: float | None = None
        while True:
            with self._changed:
                if not self._savings:
                    self._worker = None
                    self._changed.notify_all()
                    return
                savings = list(self._savings)
                if all(s.is_ours for s in savings):
                    first_s = min(s.next_try_s for s in savings)
                    self._changed.wait(max(0.0, min(first_s - time.monotonic(), 1.0)))
                    savings = list(self._savings)
            if not threading.main_thread().is_alive():
                end_s = end_s or time.monotonic() + self.limits.exit_s
                if time.monotonic() > end_s:
                    _log.error("not saved when the program ended: %s", ", ".join(self.behind))
                    return
            for saving in savings:
                self._drive(saving)

    def _drive(self, saving: SaveOperation) -> None:
        try:
            if not saving.is_ours:
                # With others in the spool already the trouble is known: one try is enough.
                patience_s = 0.0 if self.spooled else self.limits.patience_s
                limits = replace(self.limits, patience_s=patience_s)
                saving.write(limits, self._spool, _log.warning)
                with self._changed:
                    self._changed.notify_all()
            saving.advance(self.limits, self._spool)
            if saving.committed is not None:
                self.clear_after(saving)
        except BaseException as error:  # noqa: BLE001 - raised by the next call of the owner
            with self._changed:  # who sees that it is over sees why
                saving.forget()
                self._failed = self._failed or error
            self._forget(saving)
        if saving.is_over:
            with self._changed:
                self._savings.remove(saving)
                self._changed.notify_all()

    def clear_after(self, saving: SaveOperation) -> None:
        """Clear old checkpoints away. Never a reason for a good save to fail."""
        assert saving.committed is not None
        with self._changed:
            pending = {other.plan.name for other in self._savings}
        try:
            pruning.prune(saving.plan.fence, saving.committed, self.retention, self._known, pending)
        except HdfsError as error:
            _log.warning("old checkpoints in %s were not cleared away: %s", self.root, error)

    def _forget(self, saving: SaveOperation) -> None:
        """Take away what a failed save of one process left. A group's is cleared away later."""
        if self.world_size == 1:
            try:
                self.fs.delete(saving.plan.path, recursive=True)
            except HdfsError:
                _log.info("%s is left unfinished", saving.plan.path)
