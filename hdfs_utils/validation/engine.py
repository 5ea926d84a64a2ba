"""Checks many files at once, in order, with bounded memory."""

from __future__ import annotations

import hashlib
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from hdfs_utils import uri as uris
from hdfs_utils.errors import CorruptData, HdfsError, NotFound, Unavailable
from hdfs_utils.filesystem import FileStatus, FileSystem
from hdfs_utils.validation.findings import FileReport, FindingKind, Findings, Reason, Stop
from hdfs_utils.validation.hdfs_blocks import examine_replicas
from hdfs_utils.validation.registry import HEAD_BYTES, Checks, check_empty, format_of, run_check
from hdfs_utils.validation.sources import PIECE, FileSource

# One reads while another's data is looked at; more only help where DataNodes are slow.
DEFAULT_WORKERS = min(8, 2 * (os.cpu_count() or 1))

# Before the second look at a file that could not be read though HDFS has a good replica of it:
# DataNodes report new replicas with a heartbeat or the next few.
AGAIN_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How to check.

    Attributes:
        checks: which checks there are.
        format: of all files, as in ``tfrecord`` or ``gzip+csv``; empty: each by its name.
        workers: files checked at the same time.
        bad_blocks: paths whose blocks HDFS has no good replica of, with what it says of them.
    """

    checks: Checks = field(default_factory=Checks)
    format: str = ""
    workers: int = DEFAULT_WORKERS
    bad_blocks: Mapping[str, str] = field(default_factory=dict)


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

    Leaving the iteration early waits for the checks that are under way.
    """
    chosen = options or CheckOptions()
    waiting: deque[Future[FileReport]] = deque()
    with ThreadPoolExecutor(chosen.workers, thread_name_prefix="validation") as pool:
        try:
            for status in files:
                waiting.append(pool.submit(check_file, fs, status, chosen))
                if len(waiting) >= 2 * chosen.workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            pool.shutdown()
            chosen.checks.decoders.close()


def check_file(
    fs: FileSystem, status: FileStatus, options: CheckOptions | None = None
) -> FileReport:
    """Check one file. Never raises about the file: what cannot be checked is a finding."""
    chosen = options or CheckOptions()
    start = time.monotonic()
    found = Findings()
    format_name = ""
    if blocks := chosen.bad_blocks.get(status.path):
        found.add(FindingKind.STORAGE, Reason.BLOCK_MISSING, blocks)
    else:
        for is_last in (False, True):
            found = Findings()
            source = FileSource(fs, status.path, status.length)
            format_name = _check_once(source, status, found, chosen)
            if _judge_reading(fs, status, source, found, is_last=is_last):
                break
            time.sleep(AGAIN_AFTER_S)
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
    source: FileSource, status: FileStatus, found: Findings, chosen: CheckOptions
) -> str:
    """One pass over the file; returns the format."""
    format_name = ""
    try:
        with found.catching():
            check_empty(status.length, chosen.checks)
            if status.length:
                format_name = chosen.format or _find_format(source, chosen.checks)
                _check(format_name, source, found, chosen.checks)
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


def _find_format(source: FileSource, checks: Checks) -> str:
    known = format_of(source.name, b"", checks)
    if known:
        return known
    with source.reader() as reader:
        return format_of(source.name, reader.read(HEAD_BYTES), checks)


def _check(format_name: str, source: FileSource, found: Findings, checks: Checks) -> None:
    if not format_name:
        message = "its format is not known: name it (--format), or give a check of your own"
        found.not_checked(Reason.UNKNOWN_FORMAT, message)
        return
    run_check(format_name, source, found, checks)


def _judge_reading(
    fs: FileSystem, status: FileStatus, source: FileSource, found: Findings, *, is_last: bool
) -> bool:
    """What was found while reading failed, or while the file changed, proves nothing.

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
