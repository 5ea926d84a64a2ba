"""Checks one file in a process of its own, with bounds on memory and time.

For whoever must not be hurt by a check: an agent beside a training process, an ApplicationMaster.
The child reads the file on its own; it ends when its parent does, and gives way to everything else
on the node."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import INT64, decode_record

MODULE = "hdfs_utils.validation.file_check_child"
MAX_MEMORY = 768 << 20
"""Resident bytes of the child. Streaming checks take some 60 MiB, a large image or a Parquet
row group some hundred; a file that needs more is not checked here."""
_END_LIMIT_S = 5.0
_MAX_OUTCOME = 1 << 20


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What one check of one file came to.

    Attributes:
        verdict: ``clean``, ``corrupt``, ``storage`` (HDFS cannot give the bytes), ``gone``, or
            ``not checked``.
        reason: of the first finding, as in ``bad-crc``; ``needs-library`` where one is missing.
        message: the same in words.
        format: which check was made.
        is_covered: whether the format's own checksums cover all content, so that ``clean`` means
            that nothing has changed.
        length, mtime_ms, checksum: of the file that was looked at.
        took_s: seconds.
    """

    verdict: str
    reason: str = ""
    message: str = ""
    format: str = ""
    is_covered: bool = False
    length: int = 0
    mtime_ms: int = 0
    checksum: str = ""
    took_s: float = 0.0


def check_in_subprocess(
    uri: str,
    *,
    limit_s: float,
    python: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    max_memory: int = MAX_MEMORY,
    nice: int = 5,
) -> str:
    """Check the file; the outcome as JSON (``parse`` reads it). Never raises about the file.

    Args:
        limit_s: for all of it, in seconds.
        python: commands of further interpreters to try, one after the other, where a library for
            the format is missing here (those of the training code).
        max_memory: resident bytes; a file whose check needs more is not checked.
        nice: how far it gives way to others, 0 to 19; at 19 it stands still on a busy node.
    """
    bounds = (str(max_memory), str(nice))
    # -I: neither the working directory nor variables say where the first imports come from.
    own = [sys.executable, "-I", "-c", _START, "", *_counted(search_path()), uri, *bounds]
    text = _run(own, limit_s, environ)
    for other in python:
        if parse(text).reason != "needs-library":
            break
        # Its own libraries come first, those of PYTHONPATH too: ours may be of another version of
        # Python. It starts in "/", which is then what an empty entry stands for.
        further = [other, "-c", _START, "+", *_counted([_packages()]), uri, *bounds]
        told = _run(further, limit_s, environ)
        if parse(told).verdict != "not checked":
            text = told
    return text


def _packages() -> str:
    """The directory that holds this package; searched after the other interpreter's own."""
    return str(Path(__file__).resolve().parents[2])


def search_path() -> list[str]:
    """Where this process finds modules, without the working directory: who stands in a directory of
    shared data would run what others have put there. Unless this package itself comes from it."""
    here = Path.cwd().resolve()
    found = [entry for entry in sys.path if Path(entry).is_absolute()]
    return [p for p in found if Path(p).resolve() != here or str(here) == _packages()]


def _counted(path: list[str]) -> list[str]:
    return [str(len(path)), *path]


def _run(command: Sequence[str], limit_s: float, environ: Mapping[str, str] | None) -> str:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # it ends when this end closes
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            cwd="/",
        )
    except OSError as error:
        return not_checked(f"{command[0]} does not start: {error}")
    assert process.stdin is not None
    assert process.stdout is not None
    timer = threading.Timer(limit_s, process.kill)
    timer.daemon = True
    timer.start()
    try:
        out = process.stdout.read()
        process.wait(_END_LIMIT_S)
    finally:
        is_late = not timer.is_alive()
        timer.cancel()
        process.kill()
        for stream in (process.stdin, process.stdout):
            stream.close()
        process.wait()
    if is_late and not out:
        return not_checked(f"its check was not done within {limit_s:g} s")
    text = out.decode("utf-8", "replace").strip().rpartition("\n")[2]
    try:
        parse(text)
    except MalformedData:
        return not_checked(f"the process that checked it ended with {process.returncode}")
    return text


# Its arguments: "+" where the path is added to the interpreter's own, the path's length, the path,
# and main's. "-c" puts an empty entry first, which stands for the working directory.
_START = (
    "import sys; n = 3 + int(sys.argv[2]);"
    " sys.path[:] = ([p for p in sys.path if p] if sys.argv[1] else []) + sys.argv[3:n];"
    f" from {MODULE} import main; main(*sys.argv[n:])"
)


def not_checked(message: str) -> str:
    """The outcome of a check that did not come about."""
    return json.dumps({"verdict": "not checked", "reason": "check-failed", "message": message})


def parse(text: str) -> CheckOutcome:
    """Raises MalformedData for what is none; unknown fields are passed over."""
    told = decode_record(text.encode(errors="replace"), max_bytes=_MAX_OUTCOME, is_lenient=True)
    return CheckOutcome(
        verdict=told.text("verdict"),
        reason=told.text("reason", default=""),
        message=told.text("message", max_length=_MAX_OUTCOME, default=""),
        format=told.text("format", default=""),
        is_covered=told.flag("is_covered", default=False),
        length=told.integer("length", default=0),
        mtime_ms=told.integer("mtime_ms", least=-INT64, default=0),
        checksum=told.text("checksum", default=""),
        took_s=told.number("took_s", default=0.0),
    )
