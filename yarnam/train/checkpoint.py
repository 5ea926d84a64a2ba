"""Checkpoints of the job this process runs in, as the spec wants them.

::

    from yarnam import train

    with train.checkpoint.open("file:///tmp/checkpoints") as saved:
        found = saved.load()
        ...
        for step in range(start, total):
            ...
            if saved.is_due(step + 1) or train.should_stop(step + 1):
                saved.save(step + 1, {"weights": weights}, metrics={"loss": loss})

Directory, retention, background, spool, memory, the rank and the fencing token come from the job;
outside of one they have defaults. Unlike the rest of the SDK this needs ``hdfs_utils``, so Python
3.10: ``pip install yarnam`` into the environment of the training code.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, TypeVar

from yarnam.train._job.job_context import checkpoint_directory, rank, setting, world_size
from yarnam.train._reports.reporting import pause, report_restored, report_saved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from typing_extensions import Self

    from hdfs_utils.checkpoints import Checkpoint, Checkpointer, OpenCheckpoint, Value

T = TypeVar("T")

_RESTORE = "restore of a checkpoint"


def open(  # noqa: A001 - train.checkpoint.open() is the word
    directory: str | None = None, *, sharded: bool = False, **options: Any
) -> JobCheckpointer:
    """The job's checkpoints.

    Args:
        directory: used without a job, or if its spec names none.
        sharded: every rank saves its part and restores what it needs; all make the same calls in
            the same order. If not, this is for one process, which is rank 0 as a rule.
        options: those of :class:`hdfs_utils.checkpoints.Checkpointer`; they win over the spec.

    Raises:
        ValueError: no directory is known, or the job keeps files (``checkpoint.mirror``).
        ImportError: ``hdfs_utils`` is not installed.
    """
    from hdfs_utils.checkpoints import Checkpointer, CheckpointMemory, Spool

    path = checkpoint_directory(directory)
    if path is None:
        raise ValueError("no directory: give one, or name it in the spec (checkpoint.directory)")
    spec = setting("checkpoint")
    if spec and spec.get("mirror"):
        raise ValueError(
            f"the job keeps the files of {spec['mirror']} as its checkpoints: remove "
            "checkpoint.mirror from its spec to save by yarnam.train.checkpoint"
        )
    given = {**(_of_spec(spec) if spec else {"spool": Spool(_spool_directory())}), **options}
    given.setdefault("while_saving", lambda: pause("checkpoint"))
    if holder := setting("checkpoint_memory"):
        given.setdefault("memory", CheckpointMemory(holder))
    if sharded:
        given.setdefault("rank", rank())
        given.setdefault("world_size", world_size())
    return JobCheckpointer(Checkpointer(path, **given), spec["every"] if spec else 0)


class JobCheckpointer:
    """A :class:`hdfs_utils.checkpoints.Checkpointer` that knows when the next save is due.

    Attributes:
        inner: the checkpointer itself.
        every: steps between two saves; 0 if the code decides.
    """

    def __init__(self, inner: Checkpointer, every: int) -> None:
        self.inner = inner
        self.every = every
        self._saving_step: int | None = None

    def save(
        self,
        step: int,
        values: Mapping[str, Value],
        metadata: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> Checkpoint | None:
        """As the checkpointer's own method; the job's ledger records it."""
        began = time.monotonic()
        saved = self.inner.save(step, values, metadata, metrics)
        # In the background, the one before is a checkpoint by now, unless it waits in the spool.
        safe: int | None = None
        if saved is not None:
            safe, self._saving_step = saved.step, None
        else:
            safe = None if self.inner.spooled else self._saving_step
            self._saving_step = step
        report_saved(safe, time.monotonic() - began)
        return saved

    def wait(self, limit_s: float | None = None) -> None:
        """As the checkpointer's own method; the job's ledger records it."""
        began = time.monotonic()
        self.inner.wait(limit_s)
        if self._saving_step is not None:
            report_saved(self._saving_step, time.monotonic() - began)
            self._saving_step = None

    def close(self) -> None:
        """As the checkpointer's own method."""
        self.wait()
        self.inner.close()

    def restore(self, read: Callable[[OpenCheckpoint], T]) -> tuple[Checkpoint, T] | None:
        """As the checkpointer's own method; the job's status shows it."""
        with pause(_RESTORE):
            found = self.inner.restore(read)
        if found is not None:
            report_restored(found[0].step)
        return found

    def load(self) -> tuple[Checkpoint, dict[str, Any]] | None:
        """As the checkpointer's own method; the job's status shows it."""
        with pause(_RESTORE):
            found = self.inner.load()
        if found is not None:
            report_restored(found[0].step)
        return found

    def is_due(self, step: int) -> bool:
        """Whether ``checkpoint.every`` of the spec wants a save after this many steps.

        The same on all ranks, whatever their clocks say. Always false where the spec has none.
        """
        return self.every > 0 and step > 0 and step % self.every == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            self.close()


def _of_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the checkpointer, from ``checkpoint`` of the job's spec."""
    from hdfs_utils.checkpoints import Best, Retention, Spool, StartPoint

    best = Best(**spec["best"]) if spec["best"] else None
    max_bytes = spec["spool_max_mib"] << 20 or None
    limit_s = spec["spool_limit_s"]
    return {
        "retention": Retention(spec["keep"], spec["keep_every"], best),
        "background": spec["background"],
        "start": StartPoint.parse(spec["restore"]),
        "spool": Spool(_spool_directory(), limit_s, max_bytes) if limit_s else None,
    }


def _spool_directory() -> Path:
    """On a local disk: in a container, below a directory that YARN made for the application and
    deletes with it. Elsewhere the name cannot be guessed, so that no other user makes it first."""
    import secrets
    import tempfile
    from pathlib import Path

    name = f"checkpoints-{os.getpid()}"
    for directory in os.environ.get("LOCAL_DIRS", "").split(","):
        if directory and os.access(directory, os.W_OK):
            return Path(directory) / name
    return Path(tempfile.gettempdir()) / f"{name}-{secrets.token_hex(8)}"


__all__ = ["JobCheckpointer", "open"]
