"""Runs the checks of large native decoders in child processes, which a bad file may crash.

pyarrow aborts its process on some damaged Parquet footers and asks for tens of GiB on others (found
by random damage, pyarrow 26). The child requests the bytes it wants and this process reads them, so
the child needs neither the file system nor credentials. It ends with its parent.

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
from collections.abc import Sequence
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
from hdfs_utils.validation.input_format import InputFormat
from hdfs_utils.validation.sources import Source

LENGTH = struct.Struct("<I")
ASK = struct.Struct("<QI")
FAILED = 0xFFFFFFFF

COMMAND = (sys.executable, "-m", "hdfs_utils.validation.sandbox.decoder_child")

# One crash may have another cause than the file (no memory left); two in a row have not.
_TRIES = 2
_END_LIMIT_S = 2.0
# Signals that kill a decoder on damaged data. Not SIGKILL: that comes from the kernel or a person.
_CRASHES = {signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}


class _Child:
    def __init__(self, command: Sequence[str], silence_limit_s: float) -> None:
        # The same search path, so that the child finds this very package.
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what a crashing library prints helps no reader
            env=environ,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.to: IO[bytes] = self.process.stdin
        self.from_: IO[bytes] = self.process.stdout
        self.silence_limit_s = silence_limit_s

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


class DecoderPool:
    """Child processes that decode, each for one file at a time. Thread-safe.

    Args:
        command: starts a child.
        silence_limit_s: a child that neither requests bytes nor finishes for so many seconds is
            killed; no honest decoding of one piece takes that long.

    Attributes:
        started: how many children were started.
    """

    def __init__(self, command: Sequence[str] = COMMAND, silence_limit_s: float = 120.0) -> None:
        self._command = command
        self._silence_limit_s = silence_limit_s
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self.started = 0

    def close(self) -> None:
        """End the idle children; a busy one ends with its check or with this process."""
        with self._lock:
            ending, self._idle = self._idle, []
        for child in ending:
            child.end()

    def check(self, known: InputFormat, source: Source, found: Findings) -> None:
        """Run a format's check in a child.

        Raises:
            Corrupt: the child crashes on the file twice.
            NotSupported: it hangs or is killed.
            NeedsLibrary: the format's library is not installed.
        """
        if importlib.util.find_spec(known.library) is None:
            raise NeedsLibrary(known.library)
        crash = _Died(0)
        for _ in range(_TRIES):
            with source.open() as file:
                try:
                    answer = self._ask(known, file, source)
                except _Died as died:
                    crash = died
                    if died.is_silent or -died.code not in _CRASHES:
                        break
                    continue
            _take(answer, found)
            return
        if crash.is_silent:
            limit = f"{self._silence_limit_s:g} s without progress"
            raise NotSupported(f"its check was ended after {limit}")
        if -crash.code in _CRASHES:
            name = signal.Signals(-crash.code).name
            raise Corrupt(Reason.BAD_DATA, f"{known.library} crashes on it ({name}), each time")
        raise NotSupported(f"the process that checked it ended with {crash.code}")

    def _ask(self, known: InputFormat, file: BinaryIO, source: Source) -> dict[str, Any]:
        with self._lock:
            child = self._idle.pop() if self._idle else None
        if child is None:
            self.started += 1
            child = _Child(self._command, self._silence_limit_s)
        request = json.dumps(
            {
                "module": known.check.__module__,
                "format": known.name,
                "name": source.name,
                "size": file.seek(0, 2),
            }
        ).encode()
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
        with self._lock:
            self._idle.append(child)
        return answer


DECODERS = DecoderPool()
"""The pool of this process."""

atexit.register(DECODERS.close)


def _serve(child: _Child, file: BinaryIO) -> dict[str, Any]:
    while True:
        kind = _exactly(child, 1)
        if kind == b"D":
            size = LENGTH.unpack(_exactly(child, LENGTH.size))[0]
            answer: dict[str, Any] = json.loads(_exactly(child, size))
            return answer
        offset, size = ASK.unpack(_exactly(child, ASK.size))
        try:
            file.seek(offset)
            data = file.read(size)
        except HdfsError:
            # The source remembers why; the child gets an answer, so that it can be used again.
            child.to.write(LENGTH.pack(FAILED))
            child.to.flush()
            continue
        child.to.write(LENGTH.pack(len(data)))
        child.to.write(data)
        child.to.flush()


def _exactly(child: _Child, size: int) -> bytes:
    """Raises EOFError at the end, TimeoutError when the child is silent for too long."""
    stream = child.from_
    parts = []
    while size:
        ready, _, _ = select.select([stream], [], [], child.silence_limit_s)
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
