"""Checkpoints that are whole or do not exist.

A checkpoint is a directory ``step-<step>-<unique>`` with files and, written last by one rename, a
``manifest.json`` that names every file with its size and SHA-256. Without a manifest there is no
checkpoint; with one that does not fit its files it is torn, and the one before is taken.

Each save has a directory of its own, so two writers (a process that was given up and its
successor) never mix their files, and ranks that each write a part can share one later.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from hdfs_utils import uri as uris
from hdfs_utils.client import connect
from hdfs_utils.errors import CorruptData, HdfsError, InvalidPath, NotFound
from hdfs_utils.filesystem import Data, FileStatus, FileSystem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MANIFEST = "manifest.json"
FORMAT = "hdfs_utils.checkpoint/1"
ARRAYS = "arrays.npz"
# Files of one checkpoint written or read at once: each write waits for its completion.
THREADS = 8
# A directory without a manifest may be a save in progress: only old ones are cleared away.
ORPHAN_AGE_S = 3600.0

_NAME = re.compile(r"step-([0-9]{10})-[0-9a-f]{8}")
_MAX_STEP = 10**10 - 1
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Size in bytes and SHA-256 (hexadecimal) of one file."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint by its manifest.

    Attributes:
        path: its directory.
        step: the training step.
        saved_ms: when, in milliseconds since 1970 by the clock of who saved it.
        metadata: what was given to ``save``.
        files: by name.
    """

    path: str
    step: int
    saved_ms: int
    metadata: Mapping[str, Any]
    files: Mapping[str, StoredFile]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A checkpoint that was not taken, and why."""

    path: str
    reason: str


Report = Callable[[Skipped], None]


def _warn(skipped: Skipped) -> None:
    _log.warning("checkpoint %s skipped: %s", skipped.path, skipped.reason)


def save(
    directory: str,
    step: int,
    files: Mapping[str, Data],
    metadata: Mapping[str, Any] | None = None,
    keep: int = 3,
    *,
    fs: FileSystem | None = None,
) -> Checkpoint:
    """Save a checkpoint; it exists when this returns, and not before.

    Args:
        directory: of all checkpoints of a job; a path or a URI.
        step: the training step, from 0. A step may be saved again: the later one counts.
        files: contents by name; a name may contain ``/``.
        metadata: anything JSON can hold.
        keep: how many whole checkpoints stay, the new one included; at least 1.
        fs: where; by default the file system of ``directory``.

    Raises:
        ValueError: ``keep`` or ``step`` is out of range.
        InvalidPath: a name climbs out of the checkpoint, or is the manifest's.
        HdfsError: it could not be saved; older ones are untouched.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, not {keep}: the last one is never deleted")
    if not 0 <= step <= _MAX_STEP:
        raise ValueError(f"step must be from 0 to {_MAX_STEP}, not {step}")
    fs = fs or connect(directory)
    root = fs.own_path(directory)
    path = uris.join(root, f"step-{step:010d}-{uuid.uuid4().hex[:8]}")
    places = {name: uris.join(path, name) for name in files}
    if uris.join(path, MANIFEST) in places.values():
        raise InvalidPath("this name is the manifest's", path=MANIFEST, operation="save")
    saved_ms = int(time.time() * 1000)
    stored = {name: _describe(data) for name, data in files.items()}
    checkpoint = Checkpoint(path, step, saved_ms, dict(metadata or {}), stored)
    manifest = _encode(checkpoint)
    try:
        fs.mkdirs(path)
        with ThreadPoolExecutor(THREADS, thread_name_prefix="checkpoint") as pool:
            list(pool.map(lambda name: fs.write_bytes(places[name], files[name]), files))
        fs.write_atomic(uris.join(path, MANIFEST), manifest, overwrite=False)
    except BaseException:
        with contextlib.suppress(HdfsError):
            fs.delete(path, recursive=True)
        raise
    _retain(fs, root, checkpoint, keep)
    return checkpoint


def latest(
    directory: str, *, fs: FileSystem | None = None, report: Report = _warn
) -> Checkpoint | None:
    """The newest whole checkpoint, every byte of it verified; None if there is none.

    Args:
        directory: of all checkpoints of a job.
        fs: where; by default the file system of ``directory``.
        report: told of each one that was skipped; by default they are logged as warnings.

    Raises:
        HdfsError: the file system does not answer; never because of a torn checkpoint.
    """
    found = load_latest(directory, fs=fs, report=report)
    return found[0] if found else None


def load_latest(
    directory: str, *, fs: FileSystem | None = None, report: Report = _warn
) -> tuple[Checkpoint, dict[str, bytes]] | None:
    """The newest whole checkpoint with its verified contents; each file is read once."""
    fs = fs or connect(directory)
    for status in _candidates(fs, fs.own_path(directory)):
        try:
            checkpoint = read_manifest(fs, status.path)
            return checkpoint, load(checkpoint, fs=fs)
        except NotFound:
            reason = "unfinished: it has no manifest, or files are gone"
        except CorruptData as error:
            reason = str(error)
        report(Skipped(status.path, reason))
    return None


def load(checkpoint: Checkpoint, *, fs: FileSystem | None = None) -> dict[str, bytes]:
    """The contents of a checkpoint by name, verified.

    Raises:
        CorruptData: a file is not what was saved.
        NotFound: a file is gone.
    """
    source = fs or connect(checkpoint.path)

    def read(name: str) -> bytes:
        path = uris.join(checkpoint.path, name)
        data = source.read_bytes(path)
        if _describe(data) != checkpoint.files[name]:
            message = f"{len(data)} bytes that are not the {checkpoint.files[name].size} saved"
            raise CorruptData(message, path=path, operation="load")
        return data

    with ThreadPoolExecutor(THREADS, thread_name_prefix="checkpoint") as pool:
        return dict(zip(checkpoint.files, pool.map(read, checkpoint.files), strict=True))


def read_manifest(fs: FileSystem, path: str) -> Checkpoint:
    """The checkpoint in directory ``path`` by its manifest; its files are not looked at.

    Raises:
        NotFound: it has none.
        CorruptData: it is unreadable or of another format.
    """
    place = uris.join(path, MANIFEST)
    return _decode(fs.read_bytes(place), path, place)


def save_arrays(
    directory: str,
    step: int,
    arrays: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, Any] | None = None,
    keep: int = 3,
    *,
    fs: FileSystem | None = None,
) -> Checkpoint:
    """Save NumPy arrays (or what NumPy can make arrays of) as one checkpoint.

    Raises:
        TypeError: an array of Python objects; it could only be stored as a pickle, which runs
            code when it is loaded.
    """
    import numpy as np

    plain = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in plain.items():
        if array.dtype.hasobject:
            raise TypeError(f"{name} is an array of Python objects")
    buffer = io.BytesIO()
    np.savez(buffer, **cast("dict[str, Any]", plain))
    return save(directory, step, {ARRAYS: buffer.getbuffer()}, metadata, keep, fs=fs)


def load_arrays(
    directory: str, *, fs: FileSystem | None = None, report: Report = _warn
) -> tuple[Checkpoint, dict[str, np.ndarray[Any, Any]]] | None:
    """The newest whole checkpoint of :func:`save_arrays`; None if there is none."""
    import numpy as np

    found = load_latest(directory, fs=fs, report=report)
    if found is None:
        return None
    checkpoint, files = found
    with np.load(io.BytesIO(files[ARRAYS]), allow_pickle=False) as stored:
        return checkpoint, {name: stored[name] for name in stored.files}


def _describe(data: Data) -> StoredFile:
    view = memoryview(data)
    return StoredFile(view.nbytes, hashlib.sha256(view).hexdigest())


def _encode(checkpoint: Checkpoint) -> bytes:
    content = {
        "format": FORMAT,
        "step": checkpoint.step,
        "saved_ms": checkpoint.saved_ms,
        "metadata": dict(checkpoint.metadata),
        "files": {
            name: {"size": file.size, "sha256": file.sha256}
            for name, file in checkpoint.files.items()
        },
    }
    body = json.dumps(content, indent=1, sort_keys=True, allow_nan=False)
    # The manifest vouches for the files; this line vouches for the manifest.
    return f"{body}\n{hashlib.sha256(body.encode()).hexdigest()}\n".encode()


def _decode(data: bytes, path: str, place: str) -> Checkpoint:
    body, _, seal = data.rstrip(b"\n").rpartition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != seal:
        raise CorruptData("the manifest is damaged", path=place, operation="load")
    content = json.loads(body)
    if content["format"] != FORMAT:
        message = f"of format {content['format']!r}; this code reads {FORMAT!r}"
        raise CorruptData(message, path=place, operation="load")
    files = {name: StoredFile(**file) for name, file in content["files"].items()}
    return Checkpoint(path, content["step"], content["saved_ms"], content["metadata"], files)


def _step(path: str) -> int | None:
    match = _NAME.fullmatch(uris.name(path))
    return int(match[1]) if match else None


def _candidates(fs: FileSystem, root: str) -> list[FileStatus]:
    """Directories of checkpoints, whole or not, the newest first."""
    try:
        found = [s for s in fs.list(root) if s.is_dir and _step(s.path) is not None]
    except NotFound:
        return []
    # Of two saves of one step the later counts; its directory changed last with its manifest.
    return sorted(found, key=lambda s: (_step(s.path), s.mtime_ms, s.path), reverse=True)


def _retain(fs: FileSystem, root: str, saved: Checkpoint, keep: int) -> None:
    """Clear away what is beyond ``keep``. Never a reason for a good save to fail."""
    try:
        candidates = _candidates(fs, root)
        now_ms = fs.stat(uris.join(saved.path, MANIFEST)).mtime_ms
        whole = [s.path for s in candidates if fs.exists(uris.join(s.path, MANIFEST))]
        kept = {saved.path, *whole[:keep]}
        for status in candidates:
            is_orphan = now_ms - status.mtime_ms > ORPHAN_AGE_S * 1000
            if status.path in kept or (status.path not in whole and not is_orphan):
                continue
            # The manifest first: what is half deleted is no checkpoint any more.
            fs.delete(uris.join(status.path, MANIFEST))
            fs.delete(status.path, recursive=True)
    except HdfsError as error:
        _log.warning("old checkpoints in %s were not cleared away: %s", root, error)
