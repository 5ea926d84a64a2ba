"""The child process of :mod:`hdfs_utils.validation.sandbox.decoder_pool`: ``python -m`` this."""

from __future__ import annotations

import importlib
import io
import json
import os
import resource
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import BinaryIO, cast

from hdfs_utils.backends.streams import RangeReader
from hdfs_utils.validation.findings import Findings, Reason, Stop
from hdfs_utils.validation.input_format import Check
from hdfs_utils.validation.sandbox.decoder_pool import ASK, FAILED, LENGTH
from hdfs_utils.validation.sources import PIECE, Source, Stream

# Damaged sizes make decoders ask for absurd amounts; without a bound they get them.
MAX_MEMORY = 16 << 30
_BUFFER = 256 << 10


class _Asked(RangeReader):
    """The file, as the parent reads it."""

    def __init__(self, size: int, requests: BinaryIO, answers: BinaryIO) -> None:
        super().__init__(size)
        self._requests = requests
        self._answers = answers

    def seek(self, offset: int, whence: int = 0, /) -> int:
        # What a damaged file leads to is no reason to fail here.
        base = {0: 0, 1: self.tell(), 2: self.size}[whence]
        return super().seek(max(0, base + offset))

    def _range(self, offset: int, length: int) -> bytes:
        self._requests.write(b"R" + ASK.pack(offset, min(length, PIECE)))
        self._requests.flush()
        size = LENGTH.unpack(self._answers.read(LENGTH.size))[0]
        if size == FAILED:
            raise OSError("the file could not be read")
        if not size:
            raise OSError("the file became shorter")
        return self._answers.read(size)


class _AskedSource(Source):
    def __init__(self, name: str, size: int, requests: BinaryIO, answers: BinaryIO) -> None:
        self.name = name
        self.size = size
        self._streams = (requests, answers)

    def open(self) -> BinaryIO:
        assert self.size is not None
        return cast("BinaryIO", io.BufferedReader(_Asked(self.size, *self._streams), _BUFFER))

    def stream(self) -> Stream:
        raise NotImplementedError("these checks open their file")


def _check_of(module: str, name: str) -> Check:
    """The check of a format; only the format's own module is loaded."""
    formats = importlib.import_module(module).FORMATS
    return next(one.check for one in formats if one.name == name)  # type: ignore[no-any-return]


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Whatever prints to standard output must not get between the messages.
    answers = sys.stdin.buffer
    requests = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while header := answers.read(LENGTH.size):
        request = json.loads(answers.read(LENGTH.unpack(header)[0]))
        found = Findings()
        source = _AskedSource(request["name"], request["size"], requests, answers)
        try:
            with found.catching():
                _check_of(request["module"], request["format"])(source, found)
        except Stop:
            pass
        except Exception as error:  # noqa: BLE001 - a fault of the check says nothing of the file
            message = f"the check itself failed: {type(error).__name__}: {error}"
            found.not_checked(Reason.CHECK_FAILED, message)
        findings = [
            {**asdict(one), "kind": one.kind.value, "reason": one.reason.value}
            for one in found.found
        ]
        answer = json.dumps({"findings": findings, "records": found.records}).encode()
        requests.write(b"D" + LENGTH.pack(len(answer)) + answer)
        requests.flush()


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        main()
