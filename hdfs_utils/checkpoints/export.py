"""Checkpoints taken elsewhere: into another directory or cluster, or apart into local files."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from hdfs_utils import uri as uris
from hdfs_utils.checkpoints import catalog
from hdfs_utils.checkpoints.commit.fence import newest_claim
from hdfs_utils.checkpoints.format import layout
from hdfs_utils.checkpoints.format import manifest as mf
from hdfs_utils.checkpoints.format.manifest import CHUNK, Checkpoint, Shard
from hdfs_utils.checkpoints.format.reader import OpenCheckpoint
from hdfs_utils.checkpoints.format.shard_file import check_witness
from hdfs_utils.concurrency.worker_pool import WorkerPool
from hdfs_utils.errors import AlreadyExists, CorruptData, HdfsError
from hdfs_utils.filesystem import FileSystem, Writer
from hdfs_utils.protocols.checksums import crc32c

# Shards copied in parallel; each holds two chunks in memory.
SHARDS_AT_ONCE = 4

Progress = Callable[[int], object]


def copy(
    source: FileSystem,
    checkpoint: Checkpoint,
    target: FileSystem,
    directory: str,
    progress: Progress | None = None,
) -> Checkpoint:
    """Copy a checkpoint into another directory of checkpoints, perhaps on another cluster.

    Every byte is compared with its checksum on the way, and with the target's own where it has
    one. The copy appears whole, by one rename. A job that writes there is not
    disturbed: the copy joins the newest epoch, among whose saves its step decides.

    Raises:
        CorruptData: the source is not what was saved; nothing appears.
        HdfsError: it could not be copied; nothing appears.
    """
    root = target.own_path(directory)
    claim = newest_claim(target, root)
    epoch = claim.epoch if claim else 0
    tag = layout.single_tag(int(time.time() * 1000), secrets.randbits(16))
    name = layout.CheckpointName(checkpoint.step, epoch, tag)
    draft, final = uris.join(root, f".incoming-{name}"), uris.join(root, str(name))

    def one(shard: Shard) -> Shard:
        return _copy_shard(source, checkpoint.path, shard, target, draft, progress)

    try:
        with catalog.pinned(source, checkpoint.path):
            catalog.check_shards(source, checkpoint)
            shards = WorkerPool(SHARDS_AT_ONCE, operation="copy").map(one, checkpoint.shards)
            check_witness(target, draft, shards)
        origin = f"{source.uri}{checkpoint.path}"
        copied = replace(
            checkpoint,
            path=final,
            epoch=epoch,
            shards=tuple(shards),
            writer={**checkpoint.writer, "copied_from": origin},
        )
        target.write_bytes(uris.join(draft, layout.MANIFEST), mf.encode(copied))
        target.rename(draft, final)
    except BaseException:
        with contextlib.suppress(HdfsError):
            target.delete(draft, recursive=True)
        raise
    return copied


def _copy_shard(
    source: FileSystem,
    path: str,
    shard: Shard,
    target: FileSystem,
    draft: str,
    progress: Progress | None,
) -> Shard:
    origin, destination = uris.join(path, shard.file), uris.join(draft, shard.file)
    whole = 0

    def content(writer: Writer) -> None:
        nonlocal whole
        with source.open_reader(origin) as reader:
            while data := reader.read(CHUNK):
                whole = crc32c(data, whole)
                writer.write(data)
                if progress is not None:
                    progress(len(data))

    with target.open_writer(destination) as writer:
        content(writer)
        if whole != shard.crc32c:
            message = "what was read is not what was saved"
            raise CorruptData(message, path=origin, operation="copy")
    return shard


def export(opened: OpenCheckpoint, directory: Path) -> list[Path]:
    """Take a checkpoint apart into files of a local directory: arrays as ``.npy``, the rest as is.

    The directory must not exist; it appears when all is there.

    Raises:
        FileExistsError: it exists.
        CorruptData: something is not what was saved.
        AlreadyExists: the names of two values do not go together as files.
    """
    if directory.exists():
        raise FileExistsError(f"{directory} exists")
    draft = Path(uris.hidden_sibling(str(directory.absolute()), f".{secrets.token_hex(4)}.tmp"))
    written = []
    try:
        draft.mkdir(parents=True)
        for name in opened.names:
            path = _export_one(opened, name, draft)
            written.append(directory / path.relative_to(draft))
        draft.rename(directory)
    except BaseException:
        import shutil

        shutil.rmtree(draft, ignore_errors=True)
        raise
    return written


def _export_one(opened: OpenCheckpoint, name: str, draft: Path) -> Path:
    is_array = opened.is_array(name)
    path = draft / (f"{name}.npy" if is_array else name)
    with new_file(path, draft) as file:
        if not is_array:
            file.write(opened.plain(name))
            return path
        import numpy as np

        array = opened.array(name)
        # A type that NumPy does not know would be written as nameless bytes.
        np.save(file, array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array)
    return path


def new_file(path: Path, draft: Path) -> BinaryIO:
    """A file below the draft that nobody has made: the names are those of whoever wrote the
    checkpoint, and others may be able to put links where the draft lies."""
    if not path.parent.resolve().is_relative_to(draft.resolve()):
        raise CorruptData("leads out of the directory", path=str(path), operation="export")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")
    except (FileExistsError, NotADirectoryError) as error:
        message = "the names of two values do not go together as files"
        raise AlreadyExists(message, path=str(path), operation="export") from error
