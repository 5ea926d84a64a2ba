"""Records that training code skips: counted, reported, and suspected for all jobs.

A thread of its own reports the skipped records to the agent. The ApplicationMaster then has just
those files checked, on other nodes too, and puts corrupt ones on the input blacklist.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from yarnam.train._job import agent_client
from yarnam.train._job.job_context import input as input_uri
from yarnam.train._job.job_context import is_in_job

T = TypeVar("T")
R = TypeVar("R")

MAX_SHARE = 0.001
"""The share of the records seen that may be skipped, as ``max_skipped`` in the spec."""

ALWAYS_ALLOWED = 10
"""This many may be skipped whatever their share: one bad record among the first few must not end
the job."""

_REPORT_EVERY_S = 1.0
_EXIT_LIMIT_S = 5.0
"""How long the rest of the reports may take at the end of the process."""

_PER_REQUEST = 50
_REPORT_LIMIT_S = 10.0
"""How long the agent may take to accept a report; it forwards it on its own."""

_MAX_WAITING = 10_000
_MAX_LINES = 20
"""On standard error; further files are only counted."""

if TYPE_CHECKING:
    Suspects = list[tuple[str, int | None, str]]
    """Path, record number (None: the whole file) and reason of each."""


class TooManySkipped(ValueError):
    """More records are bad than the job may skip: the input is wrong, or the code is."""


def report_suspects(found: Suspects, limit_s: float) -> None:
    """Report to the agent, within ``limit_s`` seconds a request. Raises AgentUnavailable."""
    by_path: dict[str, dict[str, Any]] = {}
    for path, record, reason in found:
        one = by_path.setdefault(path, {"path": path, "reason": reason, "times": 0})
        one["times"] += 1
        if record is not None:
            one["first"] = min(record, one.get("first", record))
            one["last"] = max(record, one.get("last", record))
    suspects = list(by_path.values())
    for start in range(0, len(suspects), _PER_REQUEST):
        request = {"request": "suspects", "suspects": suspects[start : start + _PER_REQUEST]}
        agent_client.call_agent(request, limit_s)


class _SkippedRecords:
    """The records that this process has skipped. Thread-safe."""

    def __init__(
        self,
        report: Callable[[Suspects, float], None] = report_suspects,
        limit_s: float = _REPORT_LIMIT_S,
    ) -> None:
        self.lock = threading.Lock()
        self.seen = 0
        self.skipped = 0
        self.files: dict[str, int] = {}
        self._report = report
        self._limit_s = limit_s
        self._waiting: Suspects = []
        self.pid = os.getpid()
        self._reporter: threading.Thread | None = None
        self._wake = threading.Event()
        self._is_closing = False

    def add(self, path: str, record: int | None, reason: str) -> None:
        with self.lock:
            self.skipped += 1
            is_first = path not in self.files
            self.files[path] = self.files.get(path, 0) + 1
            if is_first and len(self.files) <= _MAX_LINES:
                where = path if record is None else f"record {record} of {path}"
                sys.stderr.write(f"yarnam: skipped {where}: {reason}\n")
            if len(self._waiting) < _MAX_WAITING:
                self._waiting.append((path, record, reason))
            if self._reporter is None:
                self._reporter = threading.Thread(
                    target=self._run, name="yarnam-skips", daemon=True
                )
                self._reporter.start()
                atexit.register(self.close)

    def close(self) -> None:
        self._is_closing = True
        self._wake.set()
        if self._reporter is not None:
            self._reporter.join(_EXIT_LIMIT_S)

    def _run(self) -> None:
        while True:
            self._wake.wait(_REPORT_EVERY_S)
            with self.lock:
                found, self._waiting = self._waiting, []
            if found and agent_client.has_agent():
                try:
                    self._report(found, self._limit_s)
                except Exception as error:  # noqa: BLE001 - never worth a training run
                    sys.stderr.write(f"yarnam: cannot report bad records: {error}\n")
            if self._is_closing and not self._waiting:
                return


_state = _SkippedRecords()


def _own_state() -> _SkippedRecords:
    """This process's own: a forked child (a data loader) has no thread of its parent's."""
    global _state  # noqa: PLW0603 - one per process
    if _state.pid != os.getpid():
        _state = _SkippedRecords()
    return _state


def skip(path: str, record: int | None = None, reason: str = "unreadable") -> None:
    """Note that a record (or, without a number, a file) is bad and was skipped.

    It is counted in ``status`` (metrics ``skipped_records`` and ``skipped_files``). The file is
    suspected and checked: where it proves to be corrupt, the epochs that begin from then on exclude
    it, if the input's ``on_corrupt`` is ``skip``. Does nothing outside a job. Never blocks and
    never raises.

    Args:
        path: URI of the file, or its path on the input's file system.
        record: number of the record in the file, from 0.
        reason: for people; at most 500 characters of it are kept.
    """
    if is_in_job():
        _own_state().add(_origin(str(path)), record, str(reason)[:500])


def _origin(path: str) -> str:
    """The original path of a copy on the node's own disk."""
    local = os.environ.get("YARNAM_LOCAL_INPUTS", "")
    if not local or not path.startswith(f"{local}/"):
        return path
    name, _, within = path[len(local) + 1 :].partition("/")
    try:
        root = input_uri(name).rstrip("/")
    except KeyError:
        return path
    is_one_file = root.rpartition("/")[2] == within
    return root if is_one_file else f"{root}/{within}"


def skipped() -> int:
    """How many records this process has skipped."""
    return _own_state().skipped


def counts() -> dict[str, float]:
    """A summary for reports; empty while nothing was skipped."""
    state = _own_state()
    if not state.skipped:
        return {}
    return {"skipped_records": float(state.skipped), "skipped_files": float(len(state.files))}


def decoded(
    records: Iterable[T],
    decode: Callable[[T], R],
    path: str,
    *,
    errors: tuple[type[Exception], ...] = (Exception,),
    max_share: float = MAX_SHARE,
) -> Iterator[R]:
    """Each record through ``decode``; records that it refuses are skipped and noted with ``skip``.

    Only what ``decode`` raises counts: an error of the reader itself comes through, because after
    it the start of the next record is unknown. Outside a job all errors come through.

    Args:
        records: of one file, in order.
        decode: raises one of ``errors`` for a bad record.
        path: of the file, as a URI or an absolute path.
        errors: the exceptions that mean "bad record"; name them as narrowly as you can.
        max_share: of the records that this process has seen, beyond the first 10 bad ones.

    Raises:
        TooManySkipped: more than that is bad.
    """
    state = _own_state()
    for number, record in enumerate(records):
        state.seen += 1
        try:
            value = decode(record)
        except errors as error:
            if not is_in_job():
                raise
            skip(path, number, f"{type(error).__name__}: {error}")
            if state.skipped > max(ALWAYS_ALLOWED, max_share * state.seen):
                raise TooManySkipped(
                    f"{state.skipped} of {state.seen} records are bad, in {len(state.files)} "
                    f"files, the last in {path}; at most {max_share:.3%} may be skipped"
                ) from error
            continue
        yield value
