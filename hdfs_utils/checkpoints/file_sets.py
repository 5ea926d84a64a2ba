"""Sets of files that another library has written, kept as checkpoints: for programs that know only
``torch.save``.

A set is what stands in a local directory at one time. It is one checkpoint, with one value for each
file; its step is the number of the set, as nobody knows the step of the training. A file is read
below the directory without following a link, and has to be the same before and after.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from hdfs_utils import uri as uris
from hdfs_utils.checkpoints import catalog
from hdfs_utils.checkpoints.checkpointer import Checkpointer
from hdfs_utils.checkpoints.export import new_file
from hdfs_utils.checkpoints.format import layout
from hdfs_utils.checkpoints.format.manifest import Checkpoint, corrupt_where_malformed
from hdfs_utils.checkpoints.format.reader import OpenCheckpoint
from hdfs_utils.checkpoints.format.values import Source
from hdfs_utils.errors import AlreadyExists, HdfsError, InvalidPath, MalformedData, NotFound
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.protocols.untrusted import decode_record

KEY = "files"
"""The entry of the metadata with the time of each file. Only sets of files have it."""

_READ = 4 << 20
_ZIP = b"PK\x03\x04"
_ZIP_NAMES = (".pt", ".pth", ".npz", ".zip")
_SAFETENSORS = ".safetensors"
_MAX_HEADER = 100_000_000
"""The reference implementation of safetensors refuses longer ones."""
_BAD_ZIP = (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, OverflowError)


_RANK = re.compile(r"rank-([0-9]{1,9})")


class FileChanged(HdfsError):
    """A file of the set is not the one that was looked at: the set is not saved."""


class FileVersion(NamedTuple):
    """Another version of a file differs in one of these."""

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileVersion:
        return cls(found.st_size, found.st_mtime_ns, found.st_ino)


def open_below(directory: Path, name: str) -> BinaryIO:
    """Open a regular file below ``directory`` for reading; no part of the name may be a link.
    Raises OSError."""
    *parents, last = name.split("/")
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for part in parents:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(part, flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        # Opening a pipe for reading would wait for its writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        opened = os.fdopen(os.open(last, flags, dir_fd=descriptor), "rb")
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise FileNotFoundError(f"{name} is not a regular file")
    return opened


def rank_directory(root: str, rank: int) -> str:
    """Where a task keeps its own sets, if each task of a job does; by its first rank."""
    return f"{root.rstrip('/')}/rank-{rank}"


def known_ranks(fs: FileSystem, root: str) -> list[int]:
    """The tasks that have kept sets of their own, by their first ranks."""
    try:
        listed = fs.list(root)
    except NotFound:
        return []
    matches = (_RANK.fullmatch(uris.name(status.path)) for status in listed if status.is_dir)
    return sorted(int(match[1]) for match in matches if match)


# ---- proofs ------------------------------------------------------------------------------------


class Proof(NamedTuple):
    """``unproved``: the files that are not whole by their own format, with the reason.
    ``formatless``: those whose format does not tell where they end."""

    unproved: dict[str, str]
    formatless: frozenset[str]


def prove(directory: Path, names: Iterable[str]) -> Proof:
    """See which files of a directory are whole: zip (``.pt``, ``.npz``) and safetensors tell where
    they end."""
    problems: dict[str, str] = {}
    formatless = set()
    for name in names:
        try:
            with open_below(directory, name) as file:
                problem = _problem(name, file)
        except OSError as error:
            problem = error.strerror or str(error)
        if problem is None:
            formatless.add(name)
        elif problem:
            problems[name] = problem
    return Proof(problems, frozenset(formatless))


def _problem(name: str, file: BinaryIO) -> str | None:
    """Why it is not whole; empty if it is, ``None`` if its format does not say."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    if start[:4] == _ZIP:
        return _zip_problem(file, size)
    lowered = name.lower()
    if lowered.endswith(_SAFETENSORS):
        return _safetensors_problem(file, start, size)
    if lowered.endswith(_ZIP_NAMES) and not start.strip(b"\0"):
        return "it is empty, or begins with zeros"
    return None  # what torch wrote before 1.6 is a pickle


def _zip_problem(file: BinaryIO, size: int) -> str:
    """Without the checksums of the members: torch can leave them out (``set_crc32_options``)."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            ends = [info.header_offset + info.compress_size for info in members]
            starts = [info.header_offset for info in members]
            if max(ends, default=0) > archive.start_dir or min(starts, default=0) < 0:
                return "a member lies beyond the zip's data"
    except _BAD_ZIP as error:
        return f"its zip does not read to its end ({size} bytes): {error}"
    return ""


def _safetensors_problem(file: BinaryIO, start: bytes, size: int) -> str:
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > min(size, _MAX_HEADER):
        return f"it ends within its header ({size} bytes)"
    try:
        text = b"".join(iter(lambda: file.read(min(_READ, length - file.tell() + 8)), b""))
        header = decode_record(text, max_bytes=_MAX_HEADER).plain
        ends = [int(t["data_offsets"][1]) for n, t in header.items() if n != "__metadata__"]
    except (MalformedData, ValueError, TypeError, LookupError, AttributeError) as error:
        return f"its header is not one: {error!r:.100}"
    due = 8 + length + max(ends, default=0)
    return "" if due == size else f"it has {size} bytes, its header announces {due}"


# ---- saving ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SettledFile(Source):
    """A file as it was when it was looked at."""

    directory: Path = Path()
    version: FileVersion = FileVersion(0, 0, 0)

    def pieces(self) -> Iterator[memoryview]:
        try:
            file = open_below(self.directory, self.name)
        except OSError as error:
            raise self._changed(error.strerror or str(error)) from error
        with file:
            left = self.length
            while left and (piece := file.read(min(_READ, left))):
                left -= len(piece)
                yield memoryview(piece)
            if left or FileVersion.of(os.fstat(file.fileno())) != self.version:
                raise self._changed("it was written to while it was read")

    def _changed(self, why: str) -> FileChanged:
        return FileChanged(why, path=str(self.directory / self.name), operation="save")


def save_set(
    checkpointer: Checkpointer,
    directory: Path,
    files: Mapping[str, FileVersion],
    metadata: Mapping[str, Any],
) -> Checkpoint:
    """Save these files of a directory as one checkpoint; it exists when this returns.

    Raises:
        FileChanged: a file is not the one that was looked at; nothing is saved.
        Fenced: a successor has taken over.
        HdfsError: the set could not be saved; older ones are untouched.
    """
    settled = {
        name: _SettledFile(name, version.size, Path(), directory=directory, version=version)
        for name, version in sorted(files.items())
    }
    times = {name: version.mtime_ns for name, version in files.items()}
    number = next_number(checkpointer)
    saved = checkpointer.save(number, settled, {**metadata, KEY: times})
    assert saved is not None
    return saved


def next_number(checkpointer: Checkpointer) -> int:
    """One more than that of any set in the directory, so that names sort as sets were made,
    whatever the clocks of their writers say."""
    listed = catalog.candidates(checkpointer.fs, checkpointer.root)
    names = (layout.parse(status.path) for status in listed)
    return max((name.step for name in names if name is not None), default=0) + 1


def is_set(checkpoint: Checkpoint) -> bool:
    """Whether it is a set of files, and not what ``yarnam.train.checkpoint`` saves."""
    return isinstance(checkpoint.metadata.get(KEY), Mapping)


# ---- restoring ---------------------------------------------------------------------------------


class SetDraft:
    """A directory beside ``target`` that is filled with the files of sets, and takes its place when
    all are there. The first set that brings a name keeps it."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.files = self.size = 0
        self._draft = target.with_name(f".mirror-{secrets.token_hex(8)}.restoring")

    def add(self, opened: OpenCheckpoint) -> None:
        """Write the files of a set, every byte verified. Raises CorruptData (the set is then not
        whole), InvalidPath (not a set of files), OSError (the disk)."""
        checkpoint = opened.checkpoint
        if not is_set(checkpoint):
            message = "was saved by yarnam.train.checkpoint, it is not a set of files"
            raise InvalidPath(message, path=checkpoint.path, operation="restore")
        self._draft.mkdir(parents=True, exist_ok=True)
        before = self.files, self.size
        written = []
        try:
            for name in opened.names:
                if not (self._draft / name).exists():
                    written.append(self._draft / name)
                    self._write(opened, name)
        except BaseException:
            for path in written:
                path.unlink(missing_ok=True)
            self.files, self.size = before
            raise

    def _write(self, opened: OpenCheckpoint, name: str) -> None:
        with corrupt_where_malformed(opened.checkpoint.path, "restore"):
            mtime_ns = int(opened.checkpoint.metadata[KEY][name])
        path = self._draft / name
        with new_file(path, self._draft) as file:
            for piece in opened.pieces(name):
                file.write(piece)
                self.size += len(piece)
        # Programs choose the newest file by its time.
        os.utime(path, ns=(mtime_ns, mtime_ns))
        self.files += 1

    def publish(self) -> None:
        """Raises AlreadyExists: there are files in the target by now, which stay."""
        try:
            # Atomic, and only over a directory that is empty.
            self._draft.rename(self.target)
        except OSError as error:
            message = "is not empty, and is left as it is"
            path = str(self.target)
            raise AlreadyExists(message, path=path, operation="restore") from error

    def discard(self) -> None:
        shutil.rmtree(self._draft, ignore_errors=True)
