"""Runs the checks of large native decoders in a child process, which a bad file may crash.

pyarrow aborts its whole process on some damaged Parquet footers, and others make it ask for tens of
GiB (found by random damage, pyarrow 26). The child asks for the bytes it wants, this process reads
them, so the child needs neither the file system nor anybody's credentials. It ends with its parent.

Messages of the child: ``R`` with offset and size, answered by length and bytes; ``D`` with length
and JSON, the findings. The parent's request is length and JSON.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, Any, BinaryIO

from hdfs_utils.errors import HdfsError
from hdfs_utils.validation.findings import (
    Corrupt,
    FindingKind,
    Findings,
    NeedsLibrary,
    NotSupported,
    Reason,
)
from hdfs_utils.validation.formats_isolated import LIBRARIES
from hdfs_utils.validation.sources import Source

LENGTH = struct.Struct("<I")
ASK = struct.Struct("<QI")
FAILED = 0xFFFFFFFF

SILENCE_LIMIT_S = 120.0
"""A child that neither asks for bytes nor is done for so long is killed: no honest decoding of one
piece takes that long."""

COMMAND = (sys.executable, "-m", "hdfs_utils.validation.child")

# A crash may have another cause than the file (no memory left); twice in a row it has not.
_TRIES = 2
_END_LIMIT_S = 2.0
# Signals by which a decoder that meets nonsense dies. Not SIGKILL: that is the kernel or a person.
_CRASHES = {signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}


class _Child:
    def __init__(self) -> None:
        # The same search path: the child is of this very package.
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what a crashing library says is of no use to a reader
            env=environ,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.to: IO[bytes] = self.process.stdin
        self.from_: IO[bytes] = self.process.stdout

    def end(self) -> int:
        """Returns the exit code; at most 2 s."""
        for stream in (self.to, self.from_):
            with suppress(OSError):
                stream.close()
        try:
            return self.process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class _Died(Exception):
    """The child is gone, or was killed for its silence (``is_silent``)."""

    def __init__(self, code: int, is_silent: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.is_silent = is_silent


_lock = threading.Lock()
_idle: list[_Child] = []


def close_children() -> None:
    """End the idle children; those at work end when their check does or with this process."""
    with _lock:
        ending, _idle[:] = list(_idle), []
    for child in ending:
        child.end()


atexit.register(close_children)


def check_isolated(format_name: str, source: Source, found: Findings) -> None:
    """Check a source in a child process.

    Raises Corrupt when the child crashes on it twice, NotSupported when it hangs or is killed.
    """
    library = LIBRARIES[format_name]
    if importlib.util.find_spec(library) is None:
        raise NeedsLibrary(library)
    crash = _Died(0)
    for _ in range(_TRIES):
        with source.open() as file:
            try:
                answer = _ask(format_name, file, source)
            except _Died as died:
                crash = died
                if died.is_silent or -died.code not in _CRASHES:
                    break
                continue
        _take(answer, found)
        return
    if crash.is_silent:
        raise NotSupported(f"its check was ended after {SILENCE_LIMIT_S:g} s without progress")
    if -crash.code in _CRASHES:
        name = signal.Signals(-crash.code).name
        raise Corrupt(Reason.BAD_DATA, f"{library} crashes on it ({name}), each time")
    raise NotSupported(f"the process that checked it ended with {crash.code}")


def _ask(format_name: str, file: BinaryIO, source: Source) -> dict[str, Any]:
    with _lock:
        child = _idle.pop() if _idle else None
    child = child or _Child()
    size = file.seek(0, 2)
    request = json.dumps({"format": format_name, "name": source.name, "size": size}).encode()
    try:
        child.to.write(LENGTH.pack(len(request)) + request)
        child.to.flush()
        answer = _serve(child, file)
    except (BrokenPipeError, EOFError):
        raise _Died(child.end()) from None
    except TimeoutError:
        child.process.kill()
        raise _Died(child.end(), is_silent=True) from None
    except BaseException:
        child.process.kill()
        child.end()
        raise
    with _lock:
        _idle.append(child)
    return answer


def _serve(child: _Child, file: BinaryIO) -> dict[str, Any]:
    while True:
        kind = _exactly(child.from_, 1)
        if kind == b"D":
            size = LENGTH.unpack(_exactly(child.from_, LENGTH.size))[0]
            answer: dict[str, Any] = json.loads(_exactly(child.from_, size))
            return answer
        offset, size = ASK.unpack(_exactly(child.from_, ASK.size))
        try:
            file.seek(offset)
            data = file.read(size)
        except HdfsError:
            # The source remembers why; the child is told, so that it can be used again.
            child.to.write(LENGTH.pack(FAILED))
            child.to.flush()
            continue
        child.to.write(LENGTH.pack(len(data)))
        child.to.write(data)
        child.to.flush()


def _exactly(stream: IO[bytes], size: int) -> bytes:
    """Raises EOFError at the end, TimeoutError after SILENCE_LIMIT_S."""
    parts = []
    while size:
        ready, _, _ = select.select([stream], [], [], SILENCE_LIMIT_S)
        if not ready:
            raise TimeoutError
        part = os.read(stream.fileno(), size)
        if not part:
            raise EOFError
        size -= len(part)
        parts.append(part)
    return b"".join(parts)


def _take(answer: dict[str, Any], found: Findings) -> None:
    found.records += answer["records"]
    for plain in answer["findings"]:
        kind, reason = FindingKind(plain["kind"]), Reason(plain["reason"])
        found.add(kind, reason, plain["message"], plain["offset"], plain["record"])
