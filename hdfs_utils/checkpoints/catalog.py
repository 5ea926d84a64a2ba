"""What lies in a directory of checkpoints: finding, judging, setting aside, clearing away."""

from __future__ import annotations

import contextlib
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from hdfs_utils import uri as uris
from hdfs_utils.checkpoints.format import layout
from hdfs_utils.checkpoints.format import manifest as mf
from hdfs_utils.checkpoints.format.layout import CheckpointName
from hdfs_utils.checkpoints.format.manifest import CHUNK, Checkpoint
from hdfs_utils.checkpoints.format.shard_file import check_witness
from hdfs_utils.concurrency.worker_pool import WorkerPool
from hdfs_utils.errors import AlreadyExists, CorruptData, HdfsError, NotFound, Unavailable
from hdfs_utils.filesystem import FileStatus, FileSystem
from hdfs_utils.protocols.checksums import crc32c

# How long a pin counts, as a dead reader leaves its own. Longer than any copy should take.
PIN_S = 2 * 3600.0
# A checkpoint that is being deleted is out of sight for a moment before somebody's pin is seen.
_HIDDEN_POLL_S = 0.05
_HIDDEN_POLLS = 20
_PIN = re.compile(r"([0-9]+)-(?:reader|e([0-9]+))-[0-9a-f]+")

_log = logging.getLogger("hdfs_utils.checkpoints")


@dataclass(frozen=True, slots=True)
class SkippedCheckpoint:
    """A checkpoint that was not taken, and why.

    Attributes:
        path: where it is now.
        reason: what is wrong with it.
        was: where it was, if it was set aside; else empty.
    """

    path: str
    reason: str
    was: str = ""


Report = Callable[[SkippedCheckpoint], None]


def warn(skipped: SkippedCheckpoint) -> None:
    """The default report: a warning in the log."""
    aside = " and set aside" if skipped.was else ""
    _log.warning("checkpoint %s skipped%s: %s", skipped.path, aside, skipped.reason)


class CheckpointState(Enum):
    """The state of a directory with the name of a checkpoint."""

    WHOLE = "whole"
    TORN = "torn"
    UNFINISHED = "unfinished"
    SET_ASIDE = "set aside"


@dataclass(frozen=True, slots=True)
class CheckpointListing:
    """One directory, judged without reading its data.

    Attributes:
        path: of the directory.
        name: its name taken apart.
        state: what it is.
        reason: why it is not whole; empty for a whole one.
        checkpoint: by its manifest; None without a readable one.
        size: bytes that lie there.
    """

    path: str
    name: CheckpointName
    state: CheckpointState
    reason: str
    checkpoint: Checkpoint | None
    size: int


def candidates(fs: FileSystem, root: str) -> list[FileStatus]:
    """Directories of checkpoints, whole or not, the newest first."""
    try:
        found = [(layout.parse(s.path), s) for s in fs.list(root) if s.is_dir]
    except NotFound:
        return []
    known = [(name.order, status) for name, status in found if name is not None]
    return [status for _, status in sorted(known, key=lambda pair: pair[0], reverse=True)]


def read_manifest(fs: FileSystem, path: str) -> Checkpoint:
    """The checkpoint in directory ``path`` by its manifest; its shards are not looked at.

    Raises:
        NotFound: it has none.
        CorruptData: it is unreadable or of another format.
    """
    location = uris.join(path, layout.MANIFEST)
    return mf.decode(fs.read_bytes(location, max_bytes=mf.MAX_SEALED_BYTES), path, location)


def check_shards(fs: FileSystem, checkpoint: Checkpoint) -> None:
    """Whether the shards are there with their lengths and, where HDFS tells them, checksums.

    A changed byte on a disk is noticed only by reading (:func:`verify`).

    Raises:
        CorruptData: a shard is missing or another one.
    """
    lengths = {uris.name(s.path): s.length for s in fs.list(checkpoint.path)}
    for shard in checkpoint.shards:
        path = uris.join(checkpoint.path, shard.file)
        if shard.file not in lengths:
            raise CorruptData("is gone", path=path, operation="check")
        if lengths[shard.file] != shard.length:
            message = f"{lengths[shard.file]} bytes, {shard.length} were saved"
            raise CorruptData(message, path=path, operation="check")
    check_witness(fs, checkpoint.path, checkpoint.shards)


def verify(
    fs: FileSystem, checkpoint: Checkpoint, progress: Callable[[int], object] | None = None
) -> None:
    """Read every byte and compare it with its checksum. Memory: a chunk for each thread.

    Args:
        fs: where it lies.
        checkpoint: by its manifest.
        progress: told of each number of bytes that was read.

    Raises:
        CorruptData: something is not what was saved.
    """
    check_shards(fs, checkpoint)
    step = 8 * CHUNK
    tasks = [
        (number, start)
        for number, shard in enumerate(checkpoint.shards)
        for start in range(0, max(shard.data_length, 1), step)
    ]

    def read(task: tuple[int, int]) -> None:
        number, start = task
        shard = checkpoint.shards[number]
        path = uris.join(checkpoint.path, shard.file)
        with fs.open_reader(path) as reader:
            reader.seek(start)
            for at in range(start, min(start + step, shard.data_length), CHUNK):
                data = reader.read(min(CHUNK, shard.data_length - at))
                if crc32c(data) != shard.chunks[at // CHUNK]:
                    message = f"bytes from {at} on are not those that were saved"
                    raise CorruptData(message, path=path, operation="verify")
                if progress is not None:
                    progress(len(data))

    WorkerPool(operation="read").run(read, tasks)


def list_checkpoints(fs: FileSystem, root: str) -> list[CheckpointListing]:
    """All that lies there, the newest first, those set aside last; no data is read."""
    try:
        listed = [s for s in fs.list(root) if s.is_dir]
    except NotFound:
        return []
    aside = [s for s in listed if layout.parse_set_aside(s.path) is not None]
    paths = [s.path for s in (*candidates(fs, root), *aside)]
    return WorkerPool(operation="list").map(lambda path: inspect(fs, path), paths)


def inspect(fs: FileSystem, path: str) -> CheckpointListing:
    """What one directory is, without reading its data."""
    aside = layout.parse_set_aside(path)
    name = layout.parse(path) or aside
    assert name is not None, path
    state, reason = CheckpointState.WHOLE, ""
    size, checkpoint = 0, None
    try:
        size = sum(s.length for s in fs.list(path) if not s.is_dir)
        checkpoint = read_manifest(fs, path)
        check_shards(fs, checkpoint)
    except NotFound:
        state, reason = CheckpointState.UNFINISHED, "it has no manifest"
    except CorruptData as error:
        state, reason = CheckpointState.TORN, str(error)
    if aside:
        state, reason = CheckpointState.SET_ASIDE, reason or "a restore found it corrupt"
    return CheckpointListing(path, name, state, reason, checkpoint, size)


def is_out_of_reach(fs: FileSystem, path: str, error: Unavailable) -> bool:
    """Whether the data of this one checkpoint cannot be read while the storage answers.

    The native client reports the same whether all DataNodes with a block are away or all of its
    copies are damaged: so the error neither proves damage nor justifies waiting for ever.
    """
    return error.operation == "read" and fs.exists(uris.join(path, layout.MANIFEST))


def set_aside(fs: FileSystem, path: str) -> str:
    """Rename a corrupt checkpoint out of the way; gives its new path."""
    base = uris.join(uris.parent(path), f"{layout.SET_ASIDE}{uris.name(path)}")
    for target in (base, f"{base}.{uuid.uuid4().hex[:8]}"):
        with contextlib.suppress(AlreadyExists):
            fs.rename(path, target)
            return target
    raise AlreadyExists("already exists", path=base, operation="set aside")


@contextlib.contextmanager
def pinned(fs: FileSystem, path: str, epoch: int | None = None) -> Iterator[None]:
    """While in here, nobody clears this checkpoint away, if one may write there.

    Args:
        fs: where.
        path: of the checkpoint.
        epoch: of a writer that restores: its pin is void when a successor has taken over. ``None``
            for a reader that has nothing to do with the writers.
    """
    now_ms = int(time.time() * 1000)
    location = uris.join(uris.parent(path), layout.PINS, uris.name(path))
    who = "reader" if epoch is None else f"e{epoch}"
    pin = uris.join(location, f"{now_ms + int(PIN_S * 1000)}-{who}-{uuid.uuid4().hex[:12]}")
    with contextlib.suppress(HdfsError):
        fs.mkdirs(pin)
    try:
        yield
    finally:
        with contextlib.suppress(HdfsError):
            fs.delete(pin)
            fs.delete(location)  # where it was the last


def is_pinned(fs: FileSystem, path: str, epoch: int = 0) -> bool:
    """Whether somebody reads it; writers of older epochs than ``epoch`` do not count."""
    location = uris.join(uris.parent(path), layout.PINS, uris.name(path))
    try:
        pins = [_PIN.fullmatch(uris.name(s.path)) for s in fs.list(location)]
    except NotFound:
        return False
    now_ms = time.time() * 1000
    return any(
        pin is not None and int(pin[1]) > now_ms and (pin[2] is None or int(pin[2]) >= epoch)
        for pin in pins
    )


def wait_while_hidden(fs: FileSystem, path: str) -> None:
    """After a NotFound with a pin: a deletion that saw the pin is putting it back just now.

    Raises:
        NotFound: it is really gone.
    """
    for _ in range(_HIDDEN_POLLS):
        if fs.exists(uris.join(path, layout.MANIFEST)):
            return
        if not fs.exists(uris.join(uris.parent(path), layout.TRASH, uris.name(path))):
            break
        time.sleep(_HIDDEN_POLL_S)
    fs.stat(uris.join(path, layout.MANIFEST))


def remove(fs: FileSystem, path: str, epoch: int = 0) -> bool:
    """Clear a checkpoint away; False where somebody reads it (see :func:`is_pinned`).

    One rename takes it out of sight, then the pins are looked at again: a reader sets its pin
    before it looks for the manifest, so one of the two sees the other.
    """
    if is_pinned(fs, path, epoch):
        return False
    hidden = uris.join(uris.parent(path), layout.TRASH, uris.name(path))
    fs.mkdirs(uris.parent(hidden))
    with contextlib.suppress(NotFound):
        if fs.exists(hidden):  # half deleted by somebody before
            fs.delete(hidden, recursive=True)
        fs.rename(path, hidden)
        if is_pinned(fs, path, epoch):
            fs.rename(hidden, path)
            return False
        fs.delete(hidden, recursive=True)
        # Of readers that died; those of living ones were seen above.
        fs.delete(uris.join(uris.parent(path), layout.PINS, uris.name(path)), recursive=True)
    return True
