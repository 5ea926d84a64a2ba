"""The child process of ``check_in_subprocess``: checks one file and prints one line of JSON."""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

import hdfs_utils
from hdfs_utils.errors import HdfsError, NotFound
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.validation.check_in_subprocess import CheckOutcome
from hdfs_utils.validation.engine import CheckOptions, check_file
from hdfs_utils.validation.findings import FileReport, FindingKind, Reason
from hdfs_utils.validation.registry import FORMATS

_POLL_S = 0.02
_PAGE = resource.getpagesize()
TIMEOUT_S = 8.0
"""Limit for each HDFS operation, such as reading a piece: the check of an unreadable file must end
while somebody waits for it."""


def main(uri: str, max_memory: str, nice: str) -> None:
    """Print the outcome; never returns."""
    _limit_itself(int(max_memory), int(nice))
    try:
        outcome = check(uri)
    except Exception as error:  # noqa: BLE001 - the parent gets it, whatever it is
        text = f"the check itself failed: {type(error).__name__}: {error}"
        outcome = CheckOutcome("not checked", Reason.CHECK_FAILED.value, text)
    _leave(outcome)


def _leave(outcome: CheckOutcome) -> NoReturn:
    # In one piece: of two threads that leave together only one is heard.
    os.write(1, (json.dumps(asdict(outcome)) + "\n").encode())
    os._exit(0)


def check(uri: str) -> CheckOutcome:
    """Check one file as a whole. A file that cannot be read is an outcome, no error.

    Raises:
        BadConfig: no file system is known for the URI.
    """
    fs = hdfs_utils.connect(uri, timeout_s=TIMEOUT_S)
    try:
        status = fs.stat(uri)
    except NotFound:
        return CheckOutcome("gone", message="there is no such file any more")
    except HdfsError as error:
        return CheckOutcome("not checked", Reason.UNREADABLE.value, str(error))
    report = check_file(fs, status, CheckOptions(workers=1))
    return outcome_of(report, _checksum(fs, report) if report.has_bad_content else "")


def outcome_of(report: FileReport, checksum: str = "") -> CheckOutcome:
    """The worst finding of a report, with its position."""
    kinds = (FindingKind.CONTENT, FindingKind.STORAGE, FindingKind.NOT_CHECKED)
    words = ("corrupt", "storage", "not checked")
    reason, message, verdict = "", "", "clean"
    for kind, word in zip(kinds, words):  # noqa: B905 - the training code's Python may be 3.9
        first = next((f for f in report.findings if f.kind is kind), None)
        if first is not None:
            verdict, reason = word, first.reason.value
            message = first.message + first.where
            break
    notes = {f.reason for f in report.findings if f.kind is FindingKind.NOTE}
    return CheckOutcome(
        verdict,
        reason,
        message,
        report.format,
        is_covered(report.format) and Reason.UNPROTECTED not in notes,
        report.length,
        report.mtime_ms,
        checksum,
        report.duration_s,
    )


def is_covered(format_name: str) -> bool:
    """Whether the outermost checksums of a format cover all that is inside."""
    known = FORMATS.get(format_name.partition("+")[0])
    return known is not None and known.protects.startswith(("every byte", "the content"))


def _checksum(fs: FileSystem, report: FileReport) -> str:
    with suppress(HdfsError):  # not every back-end can tell
        stored = fs.checksum(report.path)
        return f"{stored.algorithm}:{stored.value}"
    return ""


def _limit_itself(max_memory: int, nice: int) -> None:
    with suppress(OSError):
        os.nice(nice)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    watch = threading.Thread(target=_end_when_large, args=(max_memory,), name="size", daemon=True)
    watch.start()


def _end_with_parent() -> None:
    """The pipe from the parent closes when it ends, however that is."""
    sys.stdin.buffer.read()
    os._exit(1)


def _end_when_large(max_memory: int) -> None:
    """Give up a check that needs too much memory.

    A kernel limit would make decoders fail as they do on bad data, and accuse a large file. So this
    polls the memory in use instead.
    """
    while resident_bytes() <= max_memory:
        time.sleep(_POLL_S)
    message = f"its check needs more than {max_memory >> 20} MiB"
    _leave(CheckOutcome("not checked", Reason.OVER_LIMIT.value, message))


def resident_bytes() -> int:
    """Resident bytes of this process and its children, which decode some formats."""
    total = 0
    pids = ["self"]
    with suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            pids += (thread / "children").read_text().split()
    for pid in pids:
        with suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return total
