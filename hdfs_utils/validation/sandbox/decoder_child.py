"""The child process of :mod:`hdfs_utils.validation.sandbox.decoder_pool`."""

from __future__ import annotations

import io
import json
import mmap
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from hdfs_utils.backends.streams import RangeReader
from hdfs_utils.errors import HdfsError
from hdfs_utils.validation.findings import Findings, Reason, Stop
from hdfs_utils.validation.input_format import TextRules
from hdfs_utils.validation.registry import Checks, run_check
from hdfs_utils.validation.sandbox import messages
from hdfs_utils.validation.sandbox.confinement import confine
from hdfs_utils.validation.sources import PIECE, Source, Stream

_BUFFER = 256 << 10


class _Parent:
    """Asks for parts of the file."""

    def __init__(self, shared: int, requests: BinaryIO, answers: BinaryIO) -> None:
        self._memory = memoryview(mmap.mmap(shared, messages.SHARED, prot=mmap.PROT_READ))
        self._requests = requests
        self._answers = answers
        self._asked = self._taken = 0

    def request(self) -> dict[str, Any] | None:
        """The next file; ``None`` means there is none any more."""
        self._asked = self._taken = 0
        header = self._answers.read(messages.LENGTH.size)
        if not header:
            return None
        found: dict[str, Any] = json.loads(self._answers.read(messages.LENGTH.unpack(header)[0]))
        return found

    def ask_piece(self) -> None:
        """The answer is taken later: meanwhile the one before it is looked at where it lies."""
        self._send(b"N")
        self._asked += 1

    def take_piece(self) -> memoryview:
        """Lasts until as many as there are places less one have been asked for after it."""
        place = self._taken % messages.PLACES
        self._taken += 1
        return self._reply(place * PIECE)

    def range(self, offset: int, length: int) -> bytes:
        assert self._asked == self._taken, "a check reads a file in one way"
        self._send(b"R" + messages.RANGE.pack(offset, min(length, PIECE)))
        return bytes(self._reply(0))

    def done(self, outcome: bytes) -> None:
        while self._taken < self._asked:
            with suppress(HdfsError):
                self.take_piece()
        self._send(b"D" + messages.LENGTH.pack(len(outcome)) + outcome)

    def _send(self, message: bytes) -> None:
        self._requests.write(message)
        self._requests.flush()

    def _reply(self, start: int) -> memoryview:
        size = messages.LENGTH.unpack(self._answers.read(messages.LENGTH.size))[0]
        if size == messages.FAILED:
            raise HdfsError("the file could not be read")
        return self._memory[start : start + size]


class _Ranges(RangeReader):
    def __init__(self, size: int, parent: _Parent) -> None:
        super().__init__(size)
        self._parent = parent

    def seek(self, offset: int, whence: int = 0, /) -> int:
        # A damaged file may lead anywhere: that must not fail here.
        base = {0: 0, 1: self.tell(), 2: self.size}[whence]
        return super().seek(max(0, base + offset))

    def _range(self, offset: int, length: int) -> bytes:
        data = self._parent.range(offset, length)
        if not data:
            raise OSError("the file became shorter")
        return data


class _AskedSource(Source):
    """The file, as the parent reads it."""

    def __init__(self, name: str, size: int, parent: _Parent) -> None:
        self.name = name
        self.size = size
        self._parent = parent

    def open(self) -> BinaryIO:
        return cast("BinaryIO", io.BufferedReader(_Ranges(self.size or 0, self._parent), _BUFFER))

    def stream(self) -> Stream:
        return Stream(self._pieces())

    def _pieces(self) -> Iterator[memoryview]:
        # The place of the one that is looked at is not asked for. The end is asked for as well, but
        # not before somebody wants it: most files are small.
        for _ in range(min(messages.PLACES - 1, 1 + (self.size or 0) // PIECE)):
            self._parent.ask_piece()
        left = self.size or 0
        while piece := self._parent.take_piece():
            left -= len(piece)
            if left > 0:
                self._parent.ask_piece()
            yield piece
            if left <= 0:
                self._parent.ask_piece()


def main() -> None:
    """Answer requests until the parent closes the pipe. The arguments: the shared memory, the
    bound of memory in bytes, the parent, the search path."""
    shared, max_memory, above = (int(text) for text in sys.argv[1:4])
    confine(max_memory, above)
    # Output of a library must neither get between the messages nor fill what is left for errors.
    requests = os.fdopen(os.dup(1), "wb")
    nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until this process ends
    os.dup2(nowhere.fileno(), 1)
    parent = _Parent(shared, requests, sys.stdin.buffer)
    with suppress(BrokenPipeError), redirect_stderr(nowhere):
        while (asked := parent.request()) is not None:
            found = Findings()
            source = _AskedSource(asked["name"], asked["size"], parent)
            _check(asked, source, found)
            is_last = _is_worn(max_memory) or any(
                one.reason is Reason.OVER_LIMIT for one in found.found
            )
            parent.done(messages.outcome(found, is_last=is_last))


def _check(asked: dict[str, Any], source: Source, found: Findings) -> None:
    try:
        with found.catching():
            run_check(asked["format"], source, found, _checks(asked["checks"]))
    except (Stop, HdfsError):
        pass  # the parent knows why it could not read
    except Exception as error:  # noqa: BLE001 - a fault of the check says nothing of the file
        message = f"the check itself failed: {type(error).__name__}: {error}"
        found.not_checked(Reason.CHECK_FAILED, message)


def _checks(plain: dict[str, Any]) -> Checks:
    """Back from ``registry.plain_checks``."""
    own = {}
    if plain["own"]:
        from hdfs_utils.validation.user_checks import load

        # Behind all else: only what is found nowhere else comes from where the functions lie.
        sys.path += [entry for entry in plain["path"] if entry not in sys.path]
        own = {key: load(name) for key, name in plain["own"].items()}
    return Checks(TextRules(**plain["rules"]), own, plain["allows_empty"])


def _is_worn(max_memory: int) -> bool:
    """Whether so much memory is held that the next file might be accused of needing it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize() > max_memory // 2
