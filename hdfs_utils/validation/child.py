"""The child process of :mod:`hdfs_utils.validation.isolated`: ``python -m`` this."""

from __future__ import annotations

import io
import json
import os
import resource
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import BinaryIO, cast

from hdfs_utils.validation import arrays, columnar
from hdfs_utils.validation.findings import Findings, Reason, Stop
from hdfs_utils.validation.isolated import ASK, FAILED, LENGTH
from hdfs_utils.validation.sources import PIECE, Source, Stream

# Damaged sizes make decoders ask for absurd amounts; without a bound they get them.
MAX_MEMORY = 16 << 30
_BUFFER = 256 << 10

CHECKS = {
    "parquet": columnar.check_parquet,
    "orc": columnar.check_orc,
    "arrow": columnar.check_arrow,
    "arrow-stream": columnar.check_arrow_stream,
    "hdf5": arrays.check_hdf5,
}


class _Asked(io.RawIOBase):
    """The file, as the parent reads it."""

    def __init__(self, size: int, requests: BinaryIO, answers: BinaryIO) -> None:
        super().__init__()
        self._size = size
        self._at = 0
        self._requests = requests
        self._answers = answers

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0, /) -> int:
        base = {0: 0, 1: self._at, 2: self._size}[whence]
        self._at = max(0, min(base + offset, self._size))
        return self._at

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        wanted = min(len(view), PIECE, self._size - self._at)
        if wanted <= 0:
            return 0
        self._requests.write(b"R" + ASK.pack(self._at, wanted))
        self._requests.flush()
        length = LENGTH.unpack(self._answers.read(LENGTH.size))[0]
        if length == FAILED:
            raise OSError("the file could not be read")
        data = self._answers.read(length)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


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
                CHECKS[request["format"]](source, found)
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
