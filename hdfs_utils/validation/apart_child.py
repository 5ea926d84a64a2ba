"""The child process of :mod:`hdfs_utils.apart`: one file, one line of JSON."""

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
from hdfs_utils.apart import Outcome
from hdfs_utils.errors import HdfsError, NotFound
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.validation.engine import Options, check_file
from hdfs_utils.validation.findings import FileReport, FindingKind, Reason
from hdfs_utils.validation.formats import PROTECTION

_LOOK_S = 0.02
_PAGE = resource.getpagesize()
TIMEOUT_S = 8.0
"""For each operation of HDFS, a piece of a file among them: a look at a file that nobody can read
is to end while somebody waits for it."""


def main(uri: str, max_memory: str, nice: str) -> None:
    """Print the outcome; never returns."""
    _give_way(int(max_memory), int(nice))
    try:
        outcome = look(uri)
    except Exception as error:  # noqa: BLE001 - the parent is told, whatever it is
        text = f"the check itself failed: {type(error).__name__}: {error}"
        outcome = Outcome("not checked", Reason.CHECK_FAILED.value, text)
    _leave(outcome)


def _leave(outcome: Outcome) -> NoReturn:
    # In one piece: of two threads that leave at once only one is heard.
    os.write(1, (json.dumps(asdict(outcome)) + "\n").encode())
    os._exit(0)


def look(uri: str) -> Outcome:
    """Check the file in this process."""
    fs = hdfs_utils.connect(uri, timeout_s=TIMEOUT_S)
    try:
        status = fs.stat(uri)
    except NotFound:
        return Outcome("gone", message="there is no such file any more")
    except HdfsError as error:
        return Outcome("not checked", Reason.UNREADABLE.value, str(error))
    report = check_file(fs, status, Options(workers=1))
    return outcome_of(report, _checksum(fs, report) if report.has_bad_content else "")


def outcome_of(report: FileReport, checksum: str = "") -> Outcome:
    """A report in short: what is worst, and where it was."""
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
    return Outcome(
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
    first = format_name.partition("+")[0]
    return PROTECTION.get(first, "none").startswith(("every byte", "the content"))


def _checksum(fs: FileSystem, report: FileReport) -> str:
    with suppress(HdfsError):  # not every back-end can tell
        told = fs.checksum(report.path)
        return f"{told.algorithm}:{told.value}"
    return ""


def _give_way(max_memory: int, nice: int) -> None:
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
    """A limit of the kernel's would make decoders fail as they fail on bad data: a large file would
    be accused. So it is looked how much memory there is, and the check given up before that."""
    while resident_bytes() <= max_memory:
        time.sleep(_LOOK_S)
    message = f"its check needs more than {max_memory >> 20} MiB"
    _leave(Outcome("not checked", Reason.NOT_SUPPORTED.value, message))


def resident_bytes() -> int:
    """Of this process and its children, in which some formats are decoded."""
    total = 0
    pids = ["self"]
    with suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            pids += (thread / "children").read_text().split()
    for pid in pids:
        with suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return total
