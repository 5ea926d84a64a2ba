"""Checkpoints that are whole or do not exist.

A checkpoint is a directory with one file for each rank that saved and, renamed there last, a
``manifest.json`` that names every file with its length and its checksums. Without a manifest there
is no checkpoint; with one that does not fit its files it is corrupt, and the one before is taken.

:func:`save` and :func:`load_latest` are enough for one process. :class:`Checkpointer` is for the
rest: groups of ranks, saving in the background, retention, spooling::

    with Checkpointer("hdfs:///checkpoints/my-job", background=True) as checkpointer:
        found = checkpointer.load()
        ...
        checkpointer.save(step, {"weights": weights}, metrics={"loss": loss})
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hdfs_utils.backends.connect import connect
from hdfs_utils.checkpoints import catalog
from hdfs_utils.checkpoints.catalog import Report, SkippedCheckpoint, read_manifest, warn
from hdfs_utils.checkpoints.checkpointer import Checkpointer
from hdfs_utils.checkpoints.commit.fence import Token
from hdfs_utils.checkpoints.commit.restore_operation import NEWEST, StartPoint
from hdfs_utils.checkpoints.commit.save_operation import Limits
from hdfs_utils.checkpoints.format.layout import MANIFEST
from hdfs_utils.checkpoints.format.manifest import Checkpoint
from hdfs_utils.checkpoints.format.reader import OpenCheckpoint, read_all
from hdfs_utils.checkpoints.format.regions import Region
from hdfs_utils.checkpoints.format.values import LocalFile, Part, PerRank, Value, files_below
from hdfs_utils.checkpoints.memory.memory_client import CheckpointMemory
from hdfs_utils.checkpoints.pruning import PruneDecision, prune_listed
from hdfs_utils.checkpoints.retention import Best, Retention
from hdfs_utils.checkpoints.spool import Spool
from hdfs_utils.errors import CorruptData, NotFound, Unavailable
from hdfs_utils.filesystem import FileSystem

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

__all__ = [
    "MANIFEST", "NEWEST", "Best", "Checkpoint", "CheckpointMemory", "Checkpointer", "Limits",
    "LocalFile", "OpenCheckpoint", "Part", "PerRank", "PruneDecision", "Region", "Retention",
    "SkippedCheckpoint", "Spool", "StartPoint", "Token", "Value", "files_below", "first_good",
    "latest", "load", "load_arrays", "load_latest", "open_checkpoint", "prune", "read_manifest",
    "save", "save_arrays",
]  # fmt: skip


@functools.cache
def _process_token() -> Token:
    return Token.of_this_process()


def save(
    directory: str,
    step: int,
    files: Mapping[str, Value],
    metadata: Mapping[str, Any] | None = None,
    keep: int = 3,
    *,
    metrics: Mapping[str, float] | None = None,
    limits: Limits | None = None,
    fs: FileSystem | None = None,
) -> Checkpoint:
    """Save a checkpoint by one process; it exists when this returns, and not before.

    Args:
        directory: of all checkpoints of a job; a path or a URI.
        step: the training step, from 0. A step may be saved again: the later one counts.
        files: values by name: bytes, arrays, :class:`LocalFile`. A name may contain ``/``.
        metadata: anything JSON can hold.
        keep: how many whole checkpoints stay, the new one included; at least 1.
        metrics: numbers to choose the best by, and for the list.
        limits: of all waits.
        fs: where; by default the file system of ``directory``.

    Raises:
        ValueError: ``keep`` or ``step`` is out of range, or ``metadata`` is nothing for JSON.
        InvalidPath: a name that cannot be one.
        Fenced: a successor of this job has taken over.
        HdfsError: it could not be saved; older ones are untouched.
    """
    checkpointer = Checkpointer(
        directory, token=_process_token(), retention=Retention(keep), limits=limits, fs=fs
    )
    saved = checkpointer.save(step, files, metadata, metrics)
    assert saved is not None
    return saved


def save_arrays(
    directory: str,
    step: int,
    arrays: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    keep: int = 3,
    *,
    metrics: Mapping[str, float] | None = None,
    limits: Limits | None = None,
    fs: FileSystem | None = None,
) -> Checkpoint:
    """Save NumPy arrays (or what NumPy can make arrays of) as one checkpoint; see :func:`save`.

    Raises:
        TypeError: an array of Python objects; it could only be stored as a pickle, which runs
            code when it is loaded.
    """
    import numpy as np

    plain = {name: np.asarray(array) for name, array in arrays.items()}
    return save(directory, step, plain, metadata, keep, metrics=metrics, limits=limits, fs=fs)


def latest(
    directory: str, *, fs: FileSystem | None = None, report: Report = warn
) -> Checkpoint | None:
    """The newest whole checkpoint, every byte of it verified; None if there is none.

    Args:
        directory: of all checkpoints of a job.
        fs: where; by default the file system of ``directory``.
        report: told of each one that was skipped; by default they are logged as warnings.

    Raises:
        HdfsError: the file system does not answer; never because of a torn checkpoint.
    """
    fs = fs or connect(directory)
    found = first_good(directory, partial(catalog.verify, fs), fs=fs, report=report)
    return found[0] if found else None


def load_latest(
    directory: str, *, fs: FileSystem | None = None, report: Report = warn
) -> tuple[Checkpoint, dict[str, Any]] | None:
    """The newest whole checkpoint with its verified values; each byte is read once.

    It only reads: a corrupt checkpoint stays where it is. :meth:`Checkpointer.restore` sets it
    aside.
    """
    fs = fs or connect(directory)
    return first_good(directory, partial(load, fs=fs), fs=fs, report=report)


def first_good(
    directory: str,
    read: Callable[[Checkpoint], T],
    *,
    fs: FileSystem | None = None,
    report: Report = warn,
) -> tuple[Checkpoint, T] | None:
    """The newest checkpoint that ``read`` finds good, else the next one; None if none is good.

    Nobody deletes a checkpoint while ``read`` runs.

    Args:
        directory: of all checkpoints of a job.
        read: raises CorruptData where the data is not what was saved, as every function here that
            verifies; what it returns is passed on.
        fs: where; by default the file system of ``directory``.
        report: called with each one that is skipped; by default they are logged as warnings.

    Raises:
        HdfsError: the file system does not answer.
    """
    fs = fs or connect(directory)
    out_of_reach: Unavailable | None = None
    for status in catalog.candidates(fs, fs.own_path(directory)):
        try:
            with catalog.pinned(fs, status.path):
                checkpoint = read_manifest(fs, status.path)
                return checkpoint, read(checkpoint)
        except (NotFound, CorruptData) as error:
            report(_skipped(status.path, error))
        except Unavailable as error:
            if not catalog.is_out_of_reach(fs, status.path, error):
                raise
            out_of_reach = out_of_reach or error
            report(SkippedCheckpoint(status.path, str(error)))
    if out_of_reach is not None:
        raise out_of_reach  # none is not the same as none that can be read now
    return None


def prune(
    directory: str,
    retention: Retention,
    *,
    delete: bool = True,
    with_set_aside: bool = False,
    verify: Callable[[FileSystem, Checkpoint], None] = catalog.verify,
    fs: FileSystem | None = None,
    report: Report = warn,
) -> list[PruneDecision]:
    """Delete the checkpoints that ``retention`` does not keep; what becomes of each, newest first.

    The newest whole checkpoint stays. Before anything is deleted its data is read; if it is torn,
    the one before it counts as the newest. Checkpoints being read stay, and unfinished ones of the
    newest attempt, which may still be running.

    Args:
        directory: of all checkpoints of a job.
        retention: what stays.
        delete: if false, nothing is verified or deleted, and the decisions are what would be done.
        with_set_aside: also delete those that a restore has found corrupt.
        verify: reads a checkpoint; raises CorruptData.
        fs: where; by default the file system of ``directory``.
        report: called with each one that is torn.

    Raises:
        HdfsError: the file system does not answer; some of it may be deleted.
    """
    fs = fs or connect(directory)
    root = fs.own_path(directory)
    return prune_listed(
        fs, catalog.list_checkpoints(fs, root), root, retention, with_set_aside=with_set_aside,
        verify=verify if delete else None, report=report,
    )  # fmt: skip


def load_arrays(
    directory: str, *, fs: FileSystem | None = None, report: Report = warn
) -> tuple[Checkpoint, dict[str, np.ndarray[Any, Any]]] | None:
    """The newest whole checkpoint of :func:`save_arrays`; None if there is none."""
    found = load_latest(directory, fs=fs, report=report)
    if found is None:
        return None
    checkpoint, values = found
    return checkpoint, {name: v for name, v in values.items() if not isinstance(v, bytes)}


def load(checkpoint: Checkpoint, *, fs: FileSystem | None = None) -> dict[str, Any]:
    """The values of a checkpoint by name, verified: arrays as arrays, the rest as bytes.

    Args:
        checkpoint: by its manifest.
        fs: where it lies; by default the file system of the configuration (``fs.defaultFS``).

    Raises:
        CorruptData: something is not what was saved.
        NotFound: a file is gone.
    """
    return read_all(open_checkpoint(checkpoint, fs=fs))


def open_checkpoint(
    checkpoint: Checkpoint | str, *, fs: FileSystem | None = None
) -> OpenCheckpoint:
    """Read parts of a checkpoint.

    Args:
        checkpoint: its manifest, or the path or URI of its directory.
        fs: where it lies; by default the file system of the URI or of the configuration.
    """
    path = checkpoint if isinstance(checkpoint, str) else checkpoint.path
    fs = fs or connect(path)
    if isinstance(checkpoint, str):
        checkpoint = read_manifest(fs, fs.own_path(path))
    return OpenCheckpoint(fs, checkpoint)


def _skipped(path: str, error: NotFound | CorruptData) -> SkippedCheckpoint:
    if isinstance(error, NotFound):
        return SkippedCheckpoint(path, "unfinished: it has no manifest, or files are gone")
    return SkippedCheckpoint(path, str(error))
