"""The hidden directory beside a target in which a transfer grows, and its journal.

``.NAME.ID.transfer.tmp`` lies beside the target, so that one rename publishes it. ID follows from
the source and the target, so the next run of the same transfer finds what an earlier one left. It
holds

- ``owner-PID-START-BOOT-HOST``: whose it is, an empty directory: made in one step and renamed in
  one, where a small file would wait half a second for its completion. The time of the directory
  above is the owner's sign of life;
- ``journal/N.jsonl``: what is finished, a new segment every few seconds, each sealed by the CRC32C
  of its lines; a torn one counts as none;
- ``tree/``, ``parts/``: the data.

A directory is taken over when the same user made it, nobody else can write there, and its owner is
dead: a process of this host that is gone, or one of
another host that has not been heard of for 10 minutes. Of two who want it one has the rename, and
the other begins afresh. Others with the same target are swept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import socket
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from hdfs_utils import uri as uris
from hdfs_utils.concurrency.process_locks import boot_id
from hdfs_utils.concurrency.retry import retry
from hdfs_utils.errors import (
    AlreadyExists,
    DirectoryNotEmpty,
    HdfsError,
    MalformedData,
    NotFound,
)
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.protocols.checksums import crc32c
from hdfs_utils.protocols.rejections import Rejections
from hdfs_utils.protocols.untrusted import INT64, Record, decode_json, shown
from hdfs_utils.transfer.options import Options

_log = logging.getLogger(__name__)
_rejections = Rejections(
    _log, "is not believed", "What it says is done is done again; remove it if nobody needs it."
)
# Bytes of one segment of the journal, which has the files of a few seconds.
_MAX_SEGMENT_BYTES = 64 << 20
_MAX_LINE_BYTES = 64 << 10
_FIELDS = ("key", "size", "mtime_ms", "crc")
SUFFIX = ".transfer.tmp"
HEARTBEAT_S = 20.0
DEAD_S = 600.0


@dataclass(frozen=True, slots=True)
class Finished:
    """A file or part that an earlier run finished."""

    size: int
    mtime_ms: int
    crc: int


@dataclass(frozen=True, slots=True)
class StagingOwner:
    """A process, and which start of which machine it is of."""

    pid: int
    start: str
    boot: str
    host: str

    @classmethod
    def this(cls) -> StagingOwner:
        return cls(os.getpid(), _start(os.getpid()), _boot(), socket.gethostname())

    @classmethod
    def of(cls, name: str) -> StagingOwner | None:
        """Parses the name of the owner's directory; ``None`` means it is another directory."""
        parts = name.split("-", 4)
        if len(parts) != 5 or parts[0] != "owner" or not parts[1].isdigit():
            return None
        return cls(int(parts[1]), *parts[2:])

    @property
    def name(self) -> str:
        return f"owner-{self.pid}-{self.start}-{self.boot}-{self.host}"

    @property
    def lives_here(self) -> bool:
        """Whether this machine still has the process."""
        return self.boot == _boot() and _start(self.pid) == self.start


class StagingDir:
    """One hidden directory; make it with :func:`claim_staging`."""

    def __init__(
        self, fs: FileSystem, path: str, finished: dict[str, Finished], journal_s: float
    ) -> None:
        self.path = path
        self._journal_s = journal_s
        self.finished = finished
        self._fs = fs
        self._lock = threading.Lock()
        self._pending: dict[str, Finished] = {}
        self._number = 0
        self._stop = threading.Event()
        self._began = time.monotonic()
        self._thread: threading.Thread | None = None
        self.has_journal = bool(finished)

    @property
    def tree(self) -> str:
        return uris.join(self.path, "tree")

    @property
    def parts(self) -> str:
        return uris.join(self.path, "parts")

    def start(self, resume: bool) -> None:
        """Begin to journal and to give signs of life."""
        names = []
        with contextlib.suppress(NotFound):
            names = [uris.name(s.path) for s in self._fs.list(uris.join(self.path, "journal"))]
        self._number = max((int(n.partition(".")[0]) for n in names), default=-1) + 1
        if resume:
            self._thread = threading.Thread(target=self._keep, name="journal", daemon=True)
            self._thread.start()

    def note(self, key: str, finished: Finished) -> None:
        """Something is finished: the next segment says so."""
        with self._lock:
            self._pending[key] = finished

    def _keep(self) -> None:
        alive = time.monotonic()
        while not self._stop.wait(self._journal_s):
            with contextlib.suppress(HdfsError):
                self._flush()
                if time.monotonic() - alive > HEARTBEAT_S:
                    alive = time.monotonic()
                    self._give_sign_of_life()

    def _give_sign_of_life(self) -> None:
        """Whatever comes into a directory or goes changes its time."""
        mark = uris.join(self.path, "alive")
        self._fs.mkdirs(mark)
        self._fs.delete(mark)

    def _flush(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, {}
        if not pending:
            return
        path = uris.join(self.path, "journal", f"{self._number:08}.jsonl")
        self._number += 1
        lines = [[key, f.size, f.mtime_ms, f.crc] for key, f in pending.items()]
        body = "".join(json.dumps(line) + "\n" for line in lines).encode()
        try:
            self._fs.write_bytes(path, body + b"%08x\n" % crc32c(body))
        except HdfsError:
            with self._lock:
                self._pending = {**pending, **self._pending}
            raise
        self.has_journal = True

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._fs.limits.close_s)
            self._thread = None

    def leave(self, resume: bool) -> None:
        """After a break: write down the last, for the next run; without a journal delete all."""
        with contextlib.suppress(HdfsError, OSError):
            self.stop()
            if resume:
                with contextlib.suppress(HdfsError):
                    self._flush()
            if not self.has_journal:
                self.remove()

    def remove(self) -> None:
        """Everything is published or given up."""
        self.stop()
        self._fs.delete(self.path, recursive=True)


def claim_staging(fs: FileSystem, target: str, identity: str, options: Options) -> StagingDir:
    """The staging directory for a target, an earlier run's where its owner is dead."""
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    shared = _name(target, digest)
    own = _name(target, f"{digest}-{uuid.uuid4().hex}")
    _sweep(fs, target, shared)
    fs.mkdirs(uris.parent(target))
    fs.mkdirs(own, 0o700)
    finished: dict[str, Finished] = {}
    try:
        fs.mkdirs(uris.join(own, StagingOwner.this().name))
        if options.resume:
            own, finished = _as_shared(fs, own, shared)
        staging = StagingDir(fs, own, finished, options.journal_s)
        staging.start(options.resume)
    except BaseException:
        if not finished:
            with contextlib.suppress(HdfsError):
                fs.delete(own, recursive=True)
        raise
    return staging


def _as_shared(fs: FileSystem, own: str, shared: str) -> tuple[str, dict[str, Finished]]:
    """The new directory under the name that the next run looks for; or, in its place, what an
    earlier run left there. Where others have that name, the new one keeps its own."""
    if fs.exists(shared):
        if not is_ours_alone(fs, shared, own) or not _is_abandoned(fs, shared):
            return own, {}
        try:
            finished = _take_over(fs, shared)
        except NotFound:
            return own, {}
        fs.delete(own if finished else shared, recursive=True)
        if finished:
            return shared, finished
    try:
        fs.rename(own, shared)
    except HdfsError:
        return own, {}
    return shared, {}


def is_ours_alone(fs: FileSystem, path: str, own: str) -> bool:
    """Whether the user who made ``own`` made this directory too, and nobody else can write there:
    in a directory such as /tmp another user may have left one of this name, with files or links of
    his own in it."""
    found = fs.stat(path)
    return found.is_dir and found.owner == fs.stat(own).owner and not found.permission & 0o022


def _take_over(fs: FileSystem, own: str) -> dict[str, Finished]:
    """Takes over a dead owner's directory and returns what it finished; nothing if another process
    took it over first."""
    owner = _owner_of(fs, own)
    # After a crash of this machine the files of a local disk may be less than they seem.
    if owner is None or (fs.capabilities.is_local and owner.boot != _boot()):
        return {}
    fs.rename(uris.join(own, owner.name), uris.join(own, StagingOwner.this().name))
    return _read_journal(fs, own)


def rename_once(fs: FileSystem, src: str, dst: str, *, overwrite: bool) -> None:
    """Rename what has a name of its own, also where an answer to that was lost."""

    def rename() -> None:
        try:
            fs.rename(src, dst, overwrite=overwrite)
        except (NotFound, AlreadyExists, DirectoryNotEmpty):
            # An earlier try had its effect and not its answer.
            if not was_asked or fs.exists(src) or not fs.exists(dst):
                raise
        finally:
            was_asked.append(True)

    was_asked: list[bool] = []
    retry(rename, fs.limits.outage_s, on_failure=log_outage)


def log_outage(error: HdfsError, spent_s: float) -> None:
    """Why a transfer stands still."""
    _log.warning("tried again, for %.0f s by now: %s", spent_s, error)


def _name(target: str, digest: str) -> str:
    return uris.hidden_sibling(target, f".{digest}{SUFFIX}")


def _sweep(fs: FileSystem, target: str, own: str) -> None:
    with contextlib.suppress(HdfsError):
        for status in fs.list(uris.parent(target)):
            digest = uris.name(status.path).removesuffix(SUFFIX).rpartition(".")[2]
            is_ours = status.path == _name(target, digest) and status.path != own
            if is_ours and _is_abandoned(fs, status.path):
                fs.delete(status.path, recursive=True)


def _is_abandoned(fs: FileSystem, path: str) -> bool:
    owner = _owner_of(fs, path)
    if owner is not None and owner.host == socket.gethostname():
        return not owner.lives_here
    return time.time() * 1000 - fs.stat(path).mtime_ms > DEAD_S * 1000


def _owner_of(fs: FileSystem, path: str) -> StagingOwner | None:
    with contextlib.suppress(HdfsError):
        for status in fs.list(path):
            if (owner := StagingOwner.of(uris.name(status.path))) is not None:
                return owner
    return None


def _boot() -> str:
    return boot_id().replace("-", "")  # the parts of an owner's name are joined by dashes


def _start(pid: int) -> str:
    """When a process of this host began; empty where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def _read_journal(fs: FileSystem, path: str) -> dict[str, Finished]:
    found: dict[str, Finished] = {}
    try:
        segments = fs.list(uris.join(path, "journal"))
    except NotFound:
        return found
    for segment in segments:
        try:
            found |= decode_segment(fs.read_bytes(segment.path, max_bytes=_MAX_SEGMENT_BYTES))
        except MalformedData as error:
            _rejections.add(segment.path, error, owner=segment.owner)
        except HdfsError:
            pass  # what it says is done is done again
    return found


def decode_segment(data: bytes) -> dict[str, Finished]:
    """The files that a segment of the journal lists as finished; none if it is damaged.

    Raises:
        MalformedData: it is whole, but not a segment.
    """
    body, _, seal = data[:-1].rpartition(b"\n")
    body += b"\n"
    if b"%08x" % crc32c(body) != seal:
        return {}
    found = {}
    for line in body.splitlines():
        row = decode_json(line, max_bytes=_MAX_LINE_BYTES)
        if not isinstance(row, list) or len(row) != len(_FIELDS):
            raise MalformedData(f"a line of the journal is {shown(row)}")
        one = Record(dict(zip(_FIELDS, row, strict=True)))
        found[one.text("key", max_length=_MAX_LINE_BYTES)] = Finished(
            one.integer("size"),
            one.integer("mtime_ms", least=-INT64),
            one.integer("crc", most=0xFFFFFFFF),
        )
    return found
