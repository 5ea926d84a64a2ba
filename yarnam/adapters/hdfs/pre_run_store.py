"""Programs that have passed their pre-run: one small file for each in the user's own directory.

::

    /user/<user>/.yarnam/pre-runs/<key>     a PreRunRecord; <key> is a SHA-256 in hex
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from hdfs_utils import FileSystem, connect
from hdfs_utils import uri as uris
from hdfs_utils.errors import HdfsError, NotFound
from hdfs_utils.protocols.untrusted import shown
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.core.model.job_status import PreRunState, PreRunStatus
from yarnam.errors import WireMismatch
from yarnam.wire.codec import decode, encode
from yarnam.wire.records import PreRunRecord

log = logging.getLogger("yarnam.pre_run")

KEEP_S = 30 * 86400.0
"""How long a pass counts: what the key does not have in it (the nodes' own Python and libraries,
data that was deleted) changes meanwhile."""

MAX_RECORD_BYTES = 4096
MAX_STEP_S = 1e6
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class PassedPrograms:
    """``root``: the directory above, as a path or URI."""

    files: FileSystem
    root: str
    now_s: Callable[[], float] = time.time

    def put(self, record: PreRunRecord) -> None:
        """Raises YarnamError. Older records that do not count any more are removed."""
        with hdfs_errors(f"writing {self.root}/{record.key}"):
            self.files.mkdirs(self.root, 0o700)
            self.files.write_atomic(f"{self.root}/{record.key}", encode(record))
            for status in self.files.list(self.root):
                is_old = self.now_s() - status.mtime_ms / 1000 > KEEP_S
                if is_old and uris.name(status.path) != record.key:
                    with suppress(HdfsError):
                        self.files.delete(status.path)

    def find(self, key: str, owner: str) -> PreRunRecord | None:
        """The record of this program; ``None`` means it has not passed, not lately, or what lies
        there is no record of ``owner``. Raises YarnamError: HDFS does not answer."""
        path = f"{self.root}/{key}"
        with hdfs_errors(f"reading {path}"):
            try:
                found = self.files.stat(path)
                data = self.files.read_bytes(path, max_bytes=MAX_RECORD_BYTES)
            except NotFound:
                return None
        try:
            record = passed_record(data, key)
        except WireMismatch as error:
            log.warning("%s is ignored: %s", path, error.message)
            return None
        age_s = self.now_s() - record.passed_at_s
        if found.owner != owner or not -KEEP_S < age_s <= KEEP_S:
            return None
        return record


def passed_record(data: bytes, key: str) -> PreRunRecord:
    """Decode a record. Raises WireMismatch: it is none, or another program's."""
    record = decode(data, PreRunRecord)
    step_s, peak = record.step_s, record.peak_memory_mib
    is_sound = (step_s is None or 0 < step_s < MAX_STEP_S) and (peak is None or 0 < peak < 2**31)
    if record.key != key or not _KEY.fullmatch(key) or not is_sound:
        raise WireMismatch(f"not the record of a pre-run: {shown(data)}")
    return record


@dataclass(frozen=True, slots=True)
class HdfsPreRuns:
    """A ``ports.pre_runs.PreRunStore``. ``checkpoints``: URI of the pre-run's own; empty means
    none."""

    passed: PassedPrograms
    key: str
    application: str
    checkpoints: str = ""

    def settle(self, status: PreRunStatus, at_s: float) -> None:
        if self.checkpoints:
            with hdfs_errors(f"deleting {self.checkpoints}"), suppress(NotFound):
                files = connect(self.checkpoints)
                files.delete(files.own_path(self.checkpoints), recursive=True)
        if status.state is PreRunState.PASSED and not status.needs_memory and self.key:
            measured = (status.step_s, status.peak_memory_mib)
            self.passed.put(PreRunRecord(self.key, self.application, at_s, *measured))
