"""Checks many files concurrently, in order, with bounded memory.

What a file says is decoded in child processes with limits (:mod:`hdfs_utils.validation.sandbox`).
Here remain formats that are frames and checksums alone (``InputFormat.is_framing``), the first
bytes compared with magic numbers, and functions of the user's own that no other process finds.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from hdfs_utils import uri as uris
from hdfs_utils.errors import CorruptData, HdfsError, NotFound, Unavailable
from hdfs_utils.filesystem import FileStatus, FileSystem
from hdfs_utils.transfer.compare import storage_crcs
from hdfs_utils.transfer.options import MANIFEST
from hdfs_utils.transfer.tree_manifest import ListedFile, TreeManifests
from hdfs_utils.validation.findings import FileReport, FindingKind, Findings, Reason, Stop
from hdfs_utils.validation.hdfs_blocks import examine_replicas
from hdfs_utils.validation.registry import (
    FORMATS,
    HEAD_BYTES,
    Checks,
    check_empty,
    format_of,
    run_check,
)
from hdfs_utils.validation.sandbox import messages
from hdfs_utils.validation.sandbox.decoder_pool import DECODERS, DecoderPool
from hdfs_utils.validation.sources import PIECE, FileSource, Stopping

# One reads while another's data is looked at; more only help where DataNodes are slow.
DEFAULT_WORKERS = min(8, 2 * (os.cpu_count() or 1))

# Before the second look at a file that could not be read though HDFS has a good replica of it:
# DataNodes report new replicas with a heartbeat or the next few.
AGAIN_AFTER_S = 1.0

# Formats whose parts may be of any other format.
_WITH_MEMBERS = ("tar", "zip")

# For checks under way when nobody wants their results any more: they look five times a second. One
# that is within a call to HDFS, or a function of the user's own, is left behind.
LEAVE_LIMIT_S = 2.0


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How to check.

    Attributes:
        checks: which checks there are.
        format: of all files, as in ``tfrecord`` or ``gzip+csv``; empty means each by its name.
        workers: files checked at the same time.
        bad_blocks: paths whose blocks HDFS has no good replica of, with what it says of them.
        decoders: the child processes in which files are decoded.
        manifests: the manifests of copied trees, to which their files are compared.
    """

    checks: Checks = field(default_factory=Checks)
    format: str = ""
    workers: int = DEFAULT_WORKERS
    bad_blocks: Mapping[str, str] = field(default_factory=dict)
    decoders: DecoderPool = DECODERS
    manifests: TreeManifests | None = None


def data_files(fs: FileSystem, path: str) -> Iterator[FileStatus]:
    """The file itself, or all files below a directory by name.

    Names that begin with ``_`` or ``.`` are not data, by the convention of Hadoop's input formats.

    Raises:
        NotFound: there is no such path.
    """
    status = fs.stat(path)
    if not status.is_dir:
        yield status
        return
    for entry in fs.list(status.path):
        if uris.name(entry.path).startswith(("_", ".")):
            continue
        if not entry.is_dir:
            yield entry
            continue
        try:
            yield from data_files(fs, entry.path)
        except NotFound:
            continue  # gone in the meantime: a listing of a living tree is never exact


def choose_sample(
    files: Iterable[FileStatus], share: float, least: int = 20, seed: str = ""
) -> list[FileStatus]:
    """About ``share`` of the files, at least ``least``: always the same ones for the same names.

    Each file's place in the order is a hash of its path, so that files which come or go do not
    change the choice among the others.
    """
    ranked = sorted(files, key=lambda f: hashlib.sha256(f"{seed}\0{f.path}".encode()).digest())
    chosen = ranked[: max(least, round(share * len(ranked)))]
    return sorted(chosen, key=lambda f: f.path)


def verify(
    fs: FileSystem, files: Iterable[FileStatus], options: CheckOptions | None = None
) -> Iterator[FileReport]:
    """Check files; the reports come in the order of ``files``, each as soon as it can.

    Leaving the iteration early ends the checks that are under way, within LEAVE_LIMIT_S.
    """
    chosen = options or CheckOptions()
    waiting: deque[Future[FileReport]] = deque()
    workers = _Workers(chosen.workers)
    try:
        for status in files:
            listed = chosen.manifests.entry(status.path) if chosen.manifests is not None else None
            check = partial(_check_file, fs, status, chosen, workers.stopping, listed)
            waiting.append(workers.submit(check))
            if len(waiting) >= 2 * chosen.workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        workers.close()
        chosen.decoders.close()


class _Workers:
    """Threads that do not keep the process from ending: the standard library's executors wait for
    theirs, also when one of them never returns."""

    def __init__(self, count: int) -> None:
        self.stopping = threading.Event()
        self._count = count
        self._threads: list[threading.Thread] = []
        self._calls: SimpleQueue[tuple[Callable[[], FileReport], Future[FileReport]] | None]
        self._calls = SimpleQueue()

    def submit(self, call: Callable[[], FileReport]) -> Future[FileReport]:
        future: Future[FileReport] = Future()
        self._calls.put((call, future))
        if len(self._threads) < self._count:
            thread = threading.Thread(target=self._work, name="validation", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def close(self) -> None:
        self.stopping.set()
        for _ in self._threads:
            self._calls.put(None)
        end_s = time.monotonic() + LEAVE_LIMIT_S
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))

    def _work(self) -> None:
        while (work := self._calls.get()) is not None and not self.stopping.is_set():
            call, future = work
            try:
                future.set_result(call())
            except Stopping:
                return
            except BaseException as error:  # noqa: BLE001 - raised by whoever waits for it
                future.set_exception(error)


def check_file(
    fs: FileSystem, status: FileStatus, options: CheckOptions | None = None
) -> FileReport:
    """Check one file. Never raises about the file: what cannot be checked is a finding."""
    return _check_file(fs, status, options or CheckOptions(), threading.Event())


def _check_file(
    fs: FileSystem,
    status: FileStatus,
    chosen: CheckOptions,
    stopping: threading.Event,
    listed: ListedFile | None = None,
) -> FileReport:
    start = time.monotonic()
    found = Findings()
    format_name = ""
    if blocks := chosen.bad_blocks.get(status.path):
        found.add(FindingKind.STORAGE, Reason.BLOCK_MISSING, blocks)
    else:
        for is_last in (False, True):
            found = Findings()
            source = FileSource(fs, status.path, status.length, stopping)
            format_name = _check_once(fs, source, status, found, chosen, listed)
            if _judge_reading(fs, status, source, found, is_last=is_last):
                break
            stopping.wait(AGAIN_AFTER_S)
            source.raise_if_stopped()
    return FileReport(
        status.path,
        status.length,
        status.mtime_ms,
        format_name,
        tuple(found.found),
        found.records,
        time.monotonic() - start,
    )


def _check_once(
    fs: FileSystem,
    source: FileSource,
    status: FileStatus,
    found: Findings,
    chosen: CheckOptions,
    listed: ListedFile | None,
) -> str:
    """One pass over the file; returns the format."""
    format_name = ""
    try:
        is_as_listed = listed is not None and _compare(fs, status, listed, found)
        with found.catching():
            check_empty(status.length, chosen.checks)
            if status.length:
                format_name = chosen.format or _find_format(source, chosen.checks)
                if not format_name and is_as_listed:
                    message = f"its format is not known; its CRC32C is that in {MANIFEST}"
                    found.note(Reason.UNKNOWN_FORMAT, message)
                else:
                    _check(format_name, source, found, chosen)
    except Stop:
        pass
    except HdfsError as error:
        source.failure = source.failure or error
    except Exception as error:  # noqa: BLE001 - a user's check, or a library's own fault
        message = f"the check itself failed: {type(error).__name__}: {error}"
        found.not_checked(Reason.CHECK_FAILED, message)
    finally:
        source.close()
    return format_name


def _compare(fs: FileSystem, status: FileStatus, listed: ListedFile, found: Findings) -> bool:
    """Whether the file is proved to be the one that its tree's manifest lists."""
    hint = "a file replaced on purpose is listed again by 'yarnam data put --overwrite'"
    if status.length != listed.size:
        message = f"it has {status.length} bytes, {MANIFEST} lists {listed.size}; {hint}"
        found.add(FindingKind.CONTENT, Reason.BAD_CRC, message)
        return False
    crcs = storage_crcs(fs, [status.path])
    if crcs is None:
        return False
    if crcs[0] != listed.crc:
        message = f"its CRC32C is {crcs[0]:08x}, {MANIFEST} lists {listed.crc:08x}; {hint}"
        found.add(FindingKind.CONTENT, Reason.BAD_CRC, message)
    return crcs[0] == listed.crc


def _find_format(source: FileSource, checks: Checks) -> str:
    known = format_of(source.name, b"", checks)
    if known:
        return known
    with source.reader() as reader:
        return format_of(source.name, reader.read(HEAD_BYTES), checks)


def _check(format_name: str, source: FileSource, found: Findings, chosen: CheckOptions) -> None:
    checks = chosen.checks
    if not format_name:
        message = "its format is not known: name it (--format), or give a check of your own"
        found.not_checked(Reason.UNKNOWN_FORMAT, message)
        return
    if _runs_here(format_name, checks):
        run_check(format_name, source, found, checks)
    else:
        request = messages.request(format_name, source.name, source.size or 0, _plain(checks))
        chosen.decoders.check(request, source, found)


def _runs_here(format_name: str, checks: Checks) -> bool:
    """Whether the check needs no process of its own, or a function that only this one has."""
    layers = format_name.split("+")
    unnamed = {key for key, check in checks.own.items() if not getattr(check, "name", "")}
    if unnamed and (unnamed & set(layers) or layers[-1] in _WITH_MEMBERS):
        return True
    known = FORMATS.get(format_name)
    return known is not None and known.is_framing and format_name not in checks.own


def _plain(checks: Checks) -> dict[str, Any]:
    """For another process."""
    own = {key: name for key, check in checks.own.items() if (name := getattr(check, "name", ""))}
    rules = {**asdict(checks.rules), "schema": dict(checks.rules.schema)}
    path = [str(Path(entry).absolute()) for entry in sys.path] if own else []
    return {"rules": rules, "own": own, "allows_empty": checks.allows_empty, "path": path}


def _judge_reading(
    fs: FileSystem, status: FileStatus, source: FileSource, found: Findings, *, is_last: bool
) -> bool:
    """A finding made while reading failed, or while the file changed, proves nothing.

    Returns False where another look may tell more.
    """
    if source.failure is not None:
        _drop(found)
        return _judge_storage(fs, source, source.failure, found) or is_last
    if any(f.kind is FindingKind.CONTENT for f in found.found):
        try:
            now = fs.stat(status.path)
            has_changed = (now.length, now.mtime_ms) != (status.length, status.mtime_ms)
        except HdfsError:
            has_changed = True
        if has_changed:
            _drop(found)
            found.not_checked(Reason.CHANGED, "it was replaced while it was read")
    return True


def _judge_storage(fs: FileSystem, source: FileSource, failure: HdfsError, found: Findings) -> bool:
    """A bad disk or DataNode is not a bad file: only HDFS knows whether a good replica is left.

    Returns False where it has one: the client had not heard of it, or a DataNode is just away.
    """
    is_of_storage = isinstance(failure, (CorruptData, Unavailable))
    known = None
    if is_of_storage:
        left = max(1, min(PIECE, (source.size or 0) - source.failed_at))
        known = examine_replicas(fs, source.name, source.failed_at, left)
    if known is not None:
        found.add(FindingKind.STORAGE, *known)
        return True
    if isinstance(failure, CorruptData):
        found.add(FindingKind.STORAGE, Reason.BLOCK_CORRUPT, str(failure))
    else:
        found.not_checked(Reason.UNREADABLE, str(failure))
    return not is_of_storage


def _drop(found: Findings) -> None:
    found.found = [f for f in found.found if f.kind is not FindingKind.CONTENT]
