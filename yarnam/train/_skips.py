"""Records that training code leaves out: counted, told, and suspected for everybody else.

What was skipped goes to the agent, from a thread of its own. The ApplicationMaster then has just
those files looked at, on other nodes too, and puts what was found on the input blacklist.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from yarnam.train import _desk
from yarnam.train._place import input as input_uri
from yarnam.train._place import is_in_job

T = TypeVar("T")
R = TypeVar("R")

MAX_SHARE = 0.001
"""Of the records seen that may be left out, as ``max_skipped`` of the spec."""

ALWAYS_ALLOWED = 10
"""So many may be left out whatever the share: the first bad one of a few is no catastrophe."""

_TELL_EVERY_S = 1.0
_LEAVE_LIMIT_S = 5.0
"""At the end of the process, for what was not told yet."""

_AT_ONCE = 50
_TELL_LIMIT_S = 10.0
"""For the agent to take it: it passes it on by itself."""

_MAX_WAITING = 10_000
_MAX_LINES = 20
"""On standard error; the rest is counted."""


class TooManySkipped(ValueError):
    """More records are bad than the job may leave out: the input is wrong, or the code is."""


class _Skips:
    """What this process has left out. Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seen = 0
        self.skipped = 0
        self.files: dict[str, int] = {}
        self.waiting: list[tuple[str, int | None, str]] = []
        self.pid = os.getpid()
        self.teller: threading.Thread | None = None
        self.wake = threading.Event()
        self.is_leaving = False

    def add(self, path: str, record: int | None, reason: str) -> None:
        with self.lock:
            self.skipped += 1
            is_first = path not in self.files
            self.files[path] = self.files.get(path, 0) + 1
            if is_first and len(self.files) <= _MAX_LINES:
                where = path if record is None else f"record {record} of {path}"
                sys.stderr.write(f"yarnam: left out {where}: {reason}\n")
            if len(self.waiting) < _MAX_WAITING:
                self.waiting.append((path, record, reason))
            if self.teller is None:
                self.teller = threading.Thread(target=self._tell, name="yarnam-skips", daemon=True)
                self.teller.start()
                atexit.register(self.leave)

    def leave(self) -> None:
        self.is_leaving = True
        self.wake.set()
        if self.teller is not None:
            self.teller.join(_LEAVE_LIMIT_S)

    def _tell(self) -> None:
        while True:
            self.wake.wait(_TELL_EVERY_S)
            with self.lock:
                told, self.waiting = self.waiting, []
            if told and _desk.is_there():
                try:
                    _suspect(told)
                except Exception as error:  # noqa: BLE001 - never worth a training run
                    sys.stderr.write(f"yarnam: nobody was told of bad records: {error}\n")
            if self.is_leaving and not self.waiting:
                return


_state = _Skips()


def _skips() -> _Skips:
    """This process's own: a forked child (a data loader) has no thread of its parent's."""
    global _state  # noqa: PLW0603 - one per process
    if _state.pid != os.getpid():
        _state = _Skips()
    return _state


def skip(path: str, record: int | None = None, reason: str = "unreadable") -> None:
    """Say that a record (or, without a number, a file) is bad and was left out.

    It is counted in ``status`` (metrics ``skipped_records`` and ``skipped_files``). The file is
    suspected, and looked at: where it proves to be corrupt, the epochs that begin from then on
    leave it out, if the input's ``on_corrupt`` is ``skip``. Does nothing outside a job. Never
    blocks and never raises.

    Args:
        path: URI of the file, or its path on the input's file system.
    """
    if is_in_job():
        _skips().add(_origin(str(path)), record, str(reason)[:500])


def _origin(path: str) -> str:
    """Where a copy on the node's own disk comes from."""
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
    """How many records this process has left out."""
    return _skips().skipped


def counts() -> dict[str, float]:
    """For reports: empty while nothing was left out."""
    state = _skips()
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
    """Each record through ``decode``; those that it refuses are left out and told with ``skip``.

    Only what ``decode`` raises counts: an error of the reader itself comes through, because after
    it nobody knows where the next record begins. Outside a job all errors come through.

    Args:
        records: of one file, in order.
        decode: raises one of ``errors`` for a bad record.
        path: of the file, as a URI or an absolute path.
        errors: what means "bad record"; name them as narrowly as you can.
        max_share: of the records that this process has seen, beyond the first 10 bad ones.

    Raises:
        TooManySkipped: more than that is bad.
    """
    state = _skips()
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
                    f"files, the last in {path}; more than {max_share:.3%} may not be left out"
                ) from error
            continue
        yield value


def skipped_inputs(name: str) -> list[str]:
    """URIs of the files of a data input that this job leaves out, decided at submit."""
    variable = "YARNAM_SKIPPED_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
    names = os.environ.get(variable, "")
    if not names:
        return []
    root = input_uri(name).rstrip("/")
    return [f"{root}/{relative}" for relative in names.split("\n")]


def _suspect(told: list[tuple[str, int | None, str]]) -> None:
    """Tell the agent: the ApplicationMaster has the files looked at, and lets other jobs know."""
    by_path: dict[str, dict[str, Any]] = {}
    for path, record, reason in told:
        one = by_path.setdefault(path, {"path": path, "reason": reason, "times": 0})
        one["times"] += 1
        if record is not None:
            one["first"] = min(record, one.get("first", record))
            one["last"] = max(record, one.get("last", record))
    suspects = list(by_path.values())
    for start in range(0, len(suspects), _AT_ONCE):
        question = {"ask": "suspect", "suspects": suspects[start : start + _AT_ONCE]}
        _desk.ask(question, limit_s=_TELL_LIMIT_S)
