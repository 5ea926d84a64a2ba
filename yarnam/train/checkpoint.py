"""Checkpoints of the job this process runs in, as the spec wants them.

::

    from yarnam import train

    with train.checkpoint.open("file:///tmp/checkpoints") as saved:
        found = saved.load()
        ...
        for step in range(start, total):
            ...
            if saved.is_due(step + 1) or train.should_stop():
                saved.save(step + 1, {"weights": weights}, metrics={"loss": loss})

Directory, retention, background, spool, the rank and the fencing token come from the job; outside
of one they have defaults. Unlike the rest of the SDK this needs ``hdfs_utils``, so Python 3.10:
``pip install yarnam`` into the environment of the training code.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from yarnam.train._place import checkpoint_directory, checkpoint_keep, rank, world_size

if TYPE_CHECKING:
    from typing_extensions import Self

    from hdfs_utils.checkpoints import Checkpointer, Retention, Spool, Start

# Where a spec says nothing, as yarnam.model.job.CheckpointSpec.
SPOOL_LIMIT_S = 3600.0


def open(  # noqa: A001 - train.checkpoint.open() is the word
    directory: str | None = None, *, sharded: bool = False, **options: Any
) -> JobCheckpointer:
    """The job's checkpoints.

    Args:
        directory: where there is no job, or its spec names none.
        sharded: every rank saves its part and restores what it needs; all make the same calls in
            the same order. If not, this is for one process, which is rank 0 as a rule.
        options: those of :class:`hdfs_utils.checkpoints.Checkpointer`; they win over the spec.

    Raises:
        ValueError: no directory is known.
        ImportError: ``hdfs_utils`` is not installed.
    """
    from hdfs_utils.checkpoints import Checkpointer

    place = checkpoint_directory(directory)
    if place is None:
        raise ValueError("no directory: give one, or name it in the spec (checkpoint.directory)")
    given: dict[str, Any] = {
        "retention": _retention(),
        "background": os.environ.get("YARNAM_CHECKPOINT_ASYNC") == "1",
        "spool": _spool(),
        "start": _start(),
        **options,
    }
    if sharded:
        given.setdefault("rank", rank())
        given.setdefault("world_size", world_size())
    return JobCheckpointer(Checkpointer(place, **given), _number("YARNAM_CHECKPOINT_EVERY"))


class JobCheckpointer:
    """A :class:`hdfs_utils.checkpoints.Checkpointer` that knows when the next save is due.

    Attributes:
        inner: the checkpointer itself.
        every: steps between two saves; 0: the code decides.
    """

    def __init__(self, inner: Checkpointer, every: int) -> None:
        self.inner = inner
        self.every = every
        self.save = inner.save
        self.restore = inner.restore
        self.load = inner.load
        self.wait = inner.wait
        self.close = inner.close

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


def _number(name: str) -> int:
    return int(os.environ.get(name) or 0)


def _retention() -> Retention:
    from hdfs_utils.checkpoints import Best, Retention

    best = None
    if text := os.environ.get("YARNAM_CHECKPOINT_BEST"):
        mode, keep, metric = text.split(",", 2)
        best = Best(metric, mode, int(keep))
    return Retention(checkpoint_keep(), _number("YARNAM_CHECKPOINT_KEEP_EVERY"), best)


def _start() -> Start:
    from hdfs_utils.checkpoints import Start

    return Start.parse(os.environ.get("YARNAM_CHECKPOINT_RESTORE", ""))


def _spool() -> Spool | None:
    from pathlib import Path

    from hdfs_utils.checkpoints import Spool

    text = os.environ.get("YARNAM_CHECKPOINT_SPOOL") or f"{SPOOL_LIMIT_S},0"
    limit_s, max_mib = text.split(",")
    if not float(limit_s):
        return None
    directory = Path(_local_disk()) / f"checkpoints-{os.getpid()}"
    max_bytes = int(max_mib) << 20 or None
    return Spool(directory, float(limit_s), max_bytes)


def _local_disk() -> str:
    """In a container a directory that YARN made for the application, and deletes with it."""
    import tempfile

    for directory in os.environ.get("LOCAL_DIRS", "").split(","):
        if directory and os.access(directory, os.W_OK):
            return directory
    return tempfile.gettempdir()


__all__ = ["JobCheckpointer", "open"]
