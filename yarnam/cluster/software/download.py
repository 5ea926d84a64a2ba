"""Fetch files over HTTP: in parallel, resumable, verified, never half-written under their name.

urllib is used because it honours the proxy variables and needs nothing installed.
"""

from __future__ import annotations

import hashlib
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Protocol

from hdfs_utils.concurrency.retry import Backoff, retry
from yarnam.errors import Unavailable

THREADS = 12
# Of silence on one connection, not of the whole download.
READ_LIMIT_S = 30
TRIES = 5
_BLOCK = 1 << 18
# Codes below 500 that may pass: time-out, range that no longer fits, too many requests.
_WORTH_A_RETRY = (408, 416, 429)


class DownloadProgress(Protocol):
    """Receives the progress of downloads, from several threads."""

    def begin(self, files: int, total_bytes: int) -> None: ...

    def advance(self, count: int) -> None: ...

    def finish(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Download:
    url: str
    target: Path
    size: int
    sha256: str

    @property
    def part(self) -> Path:
        return self.target.with_name(self.target.name + ".part")


class CorruptDownload(Exception):
    """The bytes received differ from the lock file."""


# URLError and HTTPError are OSErrors.
_FAULTS = (CorruptDownload, http.client.HTTPException, OSError)


def download_all(
    downloads: Sequence[Download],
    progress: DownloadProgress,
    *,
    threads: int = THREADS,
    tries: int = TRIES,
    pause_s: float = 1.0,
) -> None:
    """Fetch everything or raise; what has arrived stays for the next try. Each target appears under
    its name only when complete and verified. Callers keep two processes from fetching the same
    files concurrently."""
    stop = Event()
    progress.begin(len(downloads), sum(each.size for each in downloads))
    # Large files first: the last one to finish is then a small one.
    order = sorted(downloads, key=lambda each: -each.size)
    pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="fetch")
    try:
        futures = [
            pool.submit(_Transfer(each, progress, stop).run, tries, pause_s) for each in order
        ]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
    finally:
        # Also on Ctrl-C: threads notice between two blocks, and queued files never start.
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        progress.finish()


class _Transfer:
    """One file on its way, over as many connections as it takes."""

    def __init__(self, download: Download, progress: DownloadProgress, stop: Event) -> None:
        self._download = download
        self._progress = progress
        self._stop = stop
        self._reported = 0

    def run(self, tries: int, pause_s: float) -> None:
        backoff = Backoff(pause_s, pause_s * 2**tries, is_jittered=False)
        try:
            retry(
                self._try, 0.0, at_least=tries, backoff=backoff, sleep=self._stop.wait,
                is_retriable=lambda error: isinstance(error, _FAULTS) and _worth_a_retry(error),
            )  # fmt: skip
        except _FAULTS as error:
            raise Unavailable(
                f"cannot fetch {self._download.url}: {error}",
                hint="Check the network and the proxy variables, or set YARNAM_MAVEN_REPOSITORY"
                " to a mirror. What has arrived is kept: the next try goes on from there.",
            ) from error

    def _try(self) -> None:
        if self._stop.is_set():
            return
        try:
            self._continue()
        except _FAULTS as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # it holds the answer, and with it the connection
            if _starts_over(error):
                self._download.part.unlink(missing_ok=True)
            raise

    def _continue(self) -> None:
        download = self._download
        have = self._part_size()
        if have < download.size:
            have = self._receive(have)
        if have < download.size:
            if self._stop.is_set():
                return
            raise http.client.IncompleteRead(b"", download.size - have)
        if have > download.size:
            raise CorruptDownload(f"more bytes came than the {download.size} of the lock file")
        # Digested from the disk, where an earlier try may have left the first half.
        found = sha256_of(download.part)
        if found != download.sha256:
            raise CorruptDownload(f"SHA-256 is {found}, the lock file has {download.sha256}")
        download.part.replace(download.target)

    def _part_size(self) -> int:
        try:
            size = self._download.part.stat().st_size
        except FileNotFoundError:
            size = 0
        self._report(size)
        return size

    def _receive(self, have: int) -> int:
        request = urllib.request.Request(self._download.url)  # noqa: S310 - checked to be http(s)
        if have:
            request.add_header("Range", f"bytes={have}-")
        with urllib.request.urlopen(request, timeout=READ_LIMIT_S) as answer:  # noqa: S310
            if have and answer.status != 206:
                # The server ignores the range and sends the whole file.
                have = 0
                self._report(0)
            with self._download.part.open("ab" if have else "wb") as file:
                # One byte more than expected is enough to know that the file is wrong.
                while have <= self._download.size and not self._stop.is_set():
                    block = answer.read(_BLOCK)
                    if not block:
                        break
                    file.write(block)
                    have += len(block)
                    self._report(have)
        return have

    def _report(self, have: int) -> None:
        self._progress.advance(have - self._reported)
        self._reported = have


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _starts_over(error: Exception) -> bool:
    return isinstance(error, CorruptDownload) or (
        isinstance(error, urllib.error.HTTPError) and error.code == 416
    )


def _worth_a_retry(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 or error.code in _WORTH_A_RETRY
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return not isinstance(reason, ssl.SSLCertVerificationError)
