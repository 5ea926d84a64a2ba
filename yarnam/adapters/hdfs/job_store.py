"""The job's journal and records on HDFS, each fenced by the AM attempt that writes; and the
requests that its owner leaves there for the next AM while none answers."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace

from hdfs_utils import FileSystem, HdfsError
from hdfs_utils import errors as hdfs
from hdfs_utils.journal.log import AppendLog
from yarnam.adapters.hdfs.error_map import as_yarnam, hdfs_errors
from yarnam.core.model.events import (
    MAX_SUSPENSION_S,
    Event,
    LeftRequest,
    ResumeRequested,
    ScaleRequested,
    SuspendRequested,
)
from yarnam.errors import InternalError, WireMismatch
from yarnam.ports import Superseded
from yarnam.wire.codec import MAX_BYTES, decode_event, encode_event
from yarnam.wire.protocol import FENCE_DIRECTORY, REQUESTS_DIRECTORY

log = logging.getLogger("yarnam.am")

OPENINGS_PER_ATTEMPT = 1000
"""An AM attempt opens the journal once, and once more after each outage of HDFS. Its epochs are
``am_attempt * 1000`` and up, so that any later attempt's are newer."""

_MARKER = re.compile(r"epoch-(\d+)$")


class HdfsJournal:
    """``ports.Journal`` on a ``hdfs_utils.journal.log.AppendLog``. For one thread at a time."""

    def __init__(self, fs: FileSystem, directory: str, am_attempt: int) -> None:
        self._fs = fs
        self._directory = directory
        self._am_attempt = am_attempt
        self._openings = 0
        self._log: AppendLog | None = None
        self._count = 0
        """Events known to be in the journal."""

    def replay(self) -> Sequence[Event]:
        log = self._open()
        self._count = len(log.recovered.records)
        return [decode_event(line) for line in log.recovered.records]

    def append(self, events: Sequence[Event]) -> None:
        lines = [encode_event(event) for event in events]
        log = self._log
        done = 0
        if log is None:
            # After an error nobody knows what of the batch got in: open again and count.
            log = self._open()
            done = len(log.recovered.records) - self._count
            if not 0 <= done <= len(lines):
                raise InternalError(
                    f"the journal {self._directory} has {self._count + done} events, "
                    f"{self._count} to {self._count + len(lines)} were written"
                )
        try:
            log.append(lines[done:])
        except HdfsError as error:
            self._log = None
            raise as_yarnam(error, f"journal {self._directory}") from error
        self._count += len(lines)

    def close(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def _open(self) -> AppendLog:
        epoch = self._am_attempt * OPENINGS_PER_ATTEMPT + self._openings
        self._openings += 1
        try:
            self._log = AppendLog.open(self._fs, self._directory, epoch)
        except HdfsError as error:
            raise as_yarnam(error, f"journal {self._directory}") from error
        return self._log


class HdfsStateStore:
    """``ports.StateStore``: files in the job's directory, fenced by empty marker files. The marker
    is set with the first ``put``; reading sets none."""

    def __init__(self, fs: FileSystem, directory: str, epoch: int) -> None:
        self._fs = fs
        self._directory = directory.rstrip("/")
        self._fence = f"{self._directory}/{FENCE_DIRECTORY}"
        self._epoch = epoch
        self._is_marked = False

    def put(self, name: str, value: bytes) -> None:
        try:
            if not self._is_marked:
                self._check_fence()
                marker = f"{self._fence}/epoch-{self._epoch}"
                self._fs.write_bytes(marker, b"", overwrite=True)
                self._is_marked = True
            # After the marker is there, so that of two that race at least one sees the other.
            self._check_fence()
            self._fs.write_atomic(f"{self._directory}/{name}", value)
        except HdfsError as error:
            raise as_yarnam(error, f"record {name}") from error

    def get(self, name: str) -> bytes | None:
        try:
            return self._fs.read_bytes(f"{self._directory}/{name}", max_bytes=MAX_BYTES)
        except hdfs.NotFound:
            return None
        except HdfsError as error:
            raise as_yarnam(error, f"record {name}") from error

    def remove(self, name: str) -> None:
        try:
            self._check_fence()
            self._fs.delete(f"{self._directory}/{name}")
        except HdfsError as error:
            raise as_yarnam(error, f"record {name}") from error

    def _check_fence(self) -> None:
        try:
            names = [status.path for status in self._fs.list(self._fence)]
        except hdfs.NotFound:
            return
        epochs = [int(match[1]) for match in map(_MARKER.search, names) if match]
        newest = max(epochs, default=0)
        if newest > self._epoch:
            raise Superseded(
                f"AM attempt {newest} has taken over from attempt {self._epoch} in "
                f"{self._directory}"
            )


MAX_REQUESTS = 100
"""Of more, the newest count."""
MAX_REQUEST_BYTES = 1 << 14


def leave_request(files: FileSystem, job_dir: str, request: LeftRequest) -> None:
    """Leave it for the next AM. Raises YarnamError."""
    name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.json"
    path = f"{job_dir}/{REQUESTS_DIRECTORY}/{name}"
    with hdfs_errors(f"writing {path}"):
        files.mkdirs(f"{job_dir}/{REQUESTS_DIRECTORY}", 0o700)
        files.write_atomic(path, encode_event(request))


class LeftRequests:
    """The requests that an AM attempt finds. For one thread at a time."""

    def __init__(self, files: FileSystem, job_dir: str) -> None:
        self._files = files
        self._directory = f"{job_dir}/{REQUESTS_DIRECTORY}"
        self._read: list[str] = []

    def read(self) -> Sequence[LeftRequest]:
        """In the order in which they were left. One that makes no sense is passed over. Raises
        YarnamError."""
        with hdfs_errors(f"reading {self._directory}"):
            try:
                found = sorted(self._files.list(self._directory), key=lambda one: one.path)
            except hdfs.NotFound:
                return ()
            requests = []
            for status in found[-MAX_REQUESTS:]:
                self._read.append(status.path)
                try:
                    line = self._files.read_bytes(status.path, max_bytes=MAX_REQUEST_BYTES)
                    event = decode_event(line)
                except (HdfsError, WireMismatch) as error:
                    log.warning("the request %s is passed over: %s", status.path, error)
                    continue
                if (request := _checked(event, status.owner)) is not None:
                    requests.append(request)
        return requests

    def forget(self) -> None:
        """Remove those that were read, once they are in the journal. Raises nothing."""
        for path in self._read:
            try:
                self._files.delete(path)
            except HdfsError as error:
                log.warning("the request %s stays: %s", path, error)
        self._read.clear()


def _checked(event: Event, owner: str) -> LeftRequest | None:
    """By whoever has written the file; ``None`` if it is nothing that a user may ask for."""
    if isinstance(event, SuspendRequested) and 0 < event.limit_s <= MAX_SUSPENSION_S:
        return replace(event, by=owner, is_policy=False)
    if isinstance(event, ResumeRequested):
        return replace(event, by=owner, is_policy=False)
    if isinstance(event, ScaleRequested):
        return replace(event, by=owner, is_policy=False, is_program=False, scheduled=0)
    return None
