"""Has files checked in child processes, which a bad file may crash, fill or keep busy for ever.

The child asks for the bytes it wants and this process reads them, so the child needs neither the
file system nor credentials, and gets none (:mod:`.confinement`; :mod:`.messages`). It starts with
this process's search path but without the working directory, and with a short list of variables.
It serves one thread and ends with it.
"""

from __future__ import annotations

import atexit
import fcntl
import io
import mmap
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from hdfs_utils.errors import HdfsError, MalformedData
from hdfs_utils.validation.check_in_subprocess import search_path
from hdfs_utils.validation.findings import (
    Corrupt,
    Findings,
    OverLimit,
    Reason,
    is_of_memory,
)
from hdfs_utils.validation.sandbox import messages
from hdfs_utils.validation.sandbox.confinement import MAX_WRITTEN
from hdfs_utils.validation.sources import PIECE, FileSource

# -I: neither the working directory nor variables say where the first imports come from.
_START = "from hdfs_utils.validation.sandbox.decoder_child import main; main()"
COMMAND = (sys.executable, "-I", "-c", f"import sys; sys.path[:] = sys.argv[4:]; {_START}")

# Variables that a child needs: where programs and libraries are, language and time zones.
_VARIABLES = (
    "PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TZDIR", "HDF5_PLUGIN_PATH",
)  # fmt: skip
# One thread and one heap: others would take address space for nothing. Pieces lie in the heap, what
# is larger goes back to the kernel.
_SETTINGS = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(4 * PIECE),
    "MALLOC_TRIM_THRESHOLD_": str(8 * PIECE),
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}

# One crash may have another cause than the file (no memory left); two in a row have not.
_TRIES = 2
_END_LIMIT_S = 2.0
# Longest wait between two looks whether the check is still wanted.
_LOOK_S = 0.2
# Signals that kill a decoder on damaged data. Not SIGKILL: that comes from the kernel or a person.
_CRASHES = {signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the check of one file.

    Attributes:
        memory: bytes of address space. The child has 25 MiB before it decodes and 250 with all
            libraries; the largest image or document held as a whole takes 1 GiB. A quarter of what
            a small machine has, since several files are checked concurrently.
        time_s, time_per_mb_s: together, from its first byte to its last, reading included. The
            slowest check that was measured (JSON in a dense xz) computes 0.7 s for a MB, and others
            may compute beside it.
        silence_s: without a question for bytes; no honest decoding of one piece takes that long.
    """

    memory: int = 2 << 30
    time_s: float = 120.0
    time_per_mb_s: float = 5.0
    silence_s: float = 120.0

    def of(self, size: int) -> float:
        """Seconds for a file of this many bytes."""
        return self.time_s + self.time_per_mb_s * size / 1e6


class _Ended(Exception):
    """The child is gone. ``late``: it was ended, and why; ``said``: its last words."""

    def __init__(self, code: int, said: str = "", late: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.said = said
        self.late = late


def _keep_pieces_in_the_heap() -> None:
    """The C library immediately gives blocks as large as a piece back to the kernel, which halves
    the rate of reading (measured), until it has seen a larger one go."""
    gone = bytes(4 * PIECE)
    del gone


class _Child:
    def __init__(self, command: Sequence[str], memory: int) -> None:
        _keep_pieces_in_the_heap()
        self._shared, self._said = _scratch(messages.SHARED), _scratch(0)
        # All that it writes goes to the end, so that the file can be emptied for the next check.
        fcntl.fcntl(self._said, fcntl.F_SETFL, os.O_APPEND)
        self.memory = mmap.mmap(self._shared, messages.SHARED)
        environ = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        try:
            self.process = subprocess.Popen(
                [*command, str(self._shared), str(memory), str(os.getpid()), *search_path()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                pass_fds=(self._shared,),
                env={**environ, **_SETTINGS},
                cwd="/",
                start_new_session=True,  # what the terminal sends is for the parent
            )
        except OSError:
            self.close()
            raise
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.to = self.process.stdin.fileno()
        self.from_ = self.process.stdout.fileno()
        os.set_blocking(self.to, False)

    def begin(self) -> None:
        """Forget what it said of the file before."""
        os.ftruncate(self._said, 0)

    def said(self) -> str:
        return os.pread(self._said, MAX_WRITTEN, 0).decode(errors="replace")

    def end(self, *, at_once: bool = False) -> int:
        """Returns the exit code; at most 2 s."""
        if at_once:
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        try:
            code = self.process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        return code

    def close(self) -> None:
        """Give back what is left when it has ended."""
        self.memory.close()
        for descriptor in (self._shared, self._said):
            with suppress(OSError):
                os.close(descriptor)


def _scratch(size: int) -> int:
    """A file in memory that has no name. Of a fixed size, if any: a child that shortens what its
    parent has mapped would kill it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("yarnam-check", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:  # a Python that was built for an older C library
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    if size:
        os.ftruncate(descriptor, size)
        if hasattr(fcntl, "F_ADD_SEALS"):
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return descriptor


class DecoderPool:
    """Child processes that check files, one for each thread. Thread-safe.

    Args:
        command: starts a child.
        limits: of each check.

    Attributes:
        started: how many children were started.
    """

    def __init__(self, command: Sequence[str] = COMMAND, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.started = 0
        self._command = command
        self._lock = threading.Lock()
        # By the kernel's number of the thread, since it ends a child with the one that started it.
        self._idle: dict[int, _Child] = {}

    def close(self) -> None:
        """End the idle children; a busy one ends with its check or with this process."""
        with self._lock:
            ending, self._idle = list(self._idle.values()), {}
        for child in ending:
            child.end(at_once=True)
            child.close()

    def check(self, request: bytes, source: FileSource, found: Findings) -> None:
        """Have a file checked (``messages.request``).

        Raises:
            Corrupt: the child crashes on the file twice.
            OverLimit: it was ended, or another killed it.
        """
        ended = _Ended(0)
        for _ in range(_TRIES):
            try:
                self._ask(request, source, found)
            except _Ended as error:
                ended = error
                if error.late or -error.code not in _CRASHES or is_of_memory(error.said):
                    break
            else:
                return
        raise self._judged(ended)

    def _judged(self, ended: _Ended) -> Corrupt | OverLimit:
        if ended.late:
            return OverLimit(f"its check was ended: {ended.late}")
        if is_of_memory(ended.said):
            return OverLimit(f"its check needs more memory than {self.limits.memory >> 20} MiB")
        if -ended.code in _CRASHES:
            name = signal.Signals(-ended.code).name
            return Corrupt(Reason.BAD_DATA, f"decoding it crashes ({name}), each time")
        if ended.code == -signal.SIGKILL:
            return OverLimit("the process that checked it was killed, as where memory runs out")
        return OverLimit(f"the process that checked it ended with {ended.code}")

    def _ask(self, request: bytes, source: FileSource, found: Findings) -> None:
        child = self._child()
        is_last = True
        try:
            is_last = _Session(child, source, self.limits).run(request, found)
        except EOFError:
            raise _Ended(child.end(), child.said()) from None
        except TimeoutError as error:
            raise _Ended(child.end(at_once=True), late=str(error)) from None
        except MalformedData as error:
            raise _Ended(child.end(at_once=True), late=f"it answered nonsense: {error}") from None
        finally:
            if is_last:
                child.end(at_once=True)
                child.close()
        with self._lock:
            self._idle[threading.get_native_id()] = child

    def _child(self) -> _Child:
        with self._lock:
            child = self._idle.pop(threading.get_native_id(), None)
            # With threads that have ended theirs are gone.
            gone = [key for key, one in self._idle.items() if one.process.poll() is not None]
            ended = [self._idle.pop(key) for key in gone]
        if child is not None and child.process.poll() is not None:  # the machine ran out of memory
            ended.append(child)
            child = None
        for one in ended:
            one.end()
            one.close()
        if child is None:
            self.started += 1
            child = _Child(self._command, self.limits.memory)
        return child


class _Session:
    """One check: the parent's part of the conversation."""

    def __init__(self, child: _Child, source: FileSource, limits: Limits) -> None:
        self._child = child
        self._source = source
        self._silence_s = limits.silence_s
        self._limit_s = limits.of(source.size or 0)
        self._end_s = time.monotonic() + self._limit_s
        self._file: io.RawIOBase | None = None
        self._pieces = 0
        self._offset = 0

    def run(self, request: bytes, found: Findings) -> bool:
        """Until the outcome, which is added to ``found``; returns whether it is the child's last.

        Raises EOFError: the child has ended; TimeoutError: it takes too long, and which limit that
        is; MalformedData.
        """
        child = self._child
        child.begin()
        self._send(messages.LENGTH.pack(len(request)) + request)
        while True:
            kind = self._exactly(1)
            if kind == b"D":
                size = messages.LENGTH.unpack(self._exactly(messages.LENGTH.size))[0]
                if size > messages.MAX_OUTCOME:
                    raise MalformedData(f"an outcome of {size} bytes")
                return messages.take_outcome(self._exactly(size), found)
            if kind not in (b"N", b"R"):
                raise MalformedData("a question that there is not")
            try:
                size = self._read(kind)
            except HdfsError as error:  # of the storage; the child can be used again
                self._source.failed(error, 0)
                self._send(messages.LENGTH.pack(messages.FAILED))
                continue
            self._send(messages.LENGTH.pack(size))

    def _read(self, kind: bytes) -> int:
        """Into the shared memory; returns how many bytes."""
        place, offset, size = 0, self._offset, PIECE
        if kind == b"N":
            place = self._pieces % messages.PLACES
            self._pieces += 1
        else:
            offset, size = messages.RANGE.unpack(self._exactly(messages.RANGE.size))
        self._file = self._file or self._source.raw()
        if self._file.tell() != offset:  # a seek makes HDFS's reader begin anew
            self._file.seek(min(offset, self._source.size or 0))
        with memoryview(self._child.memory) as whole:
            part = whole[place * PIECE : place * PIECE + min(size, PIECE)]
            with part:
                count = self._file.readinto(part) or 0
        if kind == b"N":
            self._offset += count
        return count

    def _send(self, data: bytes) -> None:
        while data:
            self._wait_for(self._child.to, select.POLLOUT)
            with suppress(BlockingIOError):
                try:
                    data = data[os.write(self._child.to, data) :]
                except BrokenPipeError:
                    raise EOFError from None

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            self._wait_for(self._child.from_, select.POLLIN)
            part = os.read(self._child.from_, size)
            if not part:
                raise EOFError
            size -= len(part)
            parts.append(part)
        return b"".join(parts)

    def _wait_for(self, descriptor: int, event: int) -> None:
        # Not select.select: a program may have more than 1,024 files open.
        poll = select.poll()
        poll.register(descriptor, event)
        silent_s = time.monotonic() + self._silence_s
        while True:
            self._source.raise_if_stopped()
            now_s = time.monotonic()
            if now_s >= self._end_s:
                raise TimeoutError(f"it was not done within {self._limit_s:.1f} s")
            if now_s >= silent_s:
                raise TimeoutError(f"it made no progress for {self._silence_s:g} s")
            if poll.poll(1000 * _LOOK_S):
                return


DECODERS = DecoderPool()
"""The pool of this process."""

atexit.register(DECODERS.close)
