"""Reads what the interceptor in Skein's AM found in the ResourceManager's responses.

The file (``java/yarnam/ResponseLog.java``) grows by lines of JSON and is replaced when it is full.
It lies in the AM container's own directory, where other processes of the same user can write too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import Record, decode_record, shown
from yarnam.core.model.ids import ContainerId

MAX_LINE_BYTES = 1 << 17
"""A preemption message names at most 1,000 containers of some 50 characters."""
MAX_READ_BYTES = 1 << 20
"""At once: the size at which the writer replaces the file."""
MAX_CONTAINERS = 1000
_MAX_DIAGNOSTICS = 2000
_MAX_TIMEOUT_S = (1 << 31) - 1
_CONTAINER = re.compile(r"container_[0-9a-z_]{1,80}")
_STATE = re.compile(r"[A-Z_]{1,40}")


@dataclass(frozen=True, slots=True)
class PreemptionNotice:
    """YARN takes the ``strict`` containers soon, and the ``negotiable`` ones unless the application
    releases as much on its own."""

    strict: tuple[ContainerId, ...]
    negotiable: tuple[ContainerId, ...]


@dataclass(frozen=True, slots=True)
class CompletedContainer:
    """``exit_status`` is the process's own, or negative: YARN's ContainerExitStatus."""

    container: ContainerId
    exit_status: int
    diagnostics: str


@dataclass(frozen=True, slots=True)
class UpdatedNode:
    """A node that changed its state; ``timeout_s``: until a leaving node's containers end."""

    node: str
    state: str
    timeout_s: float | None


@dataclass(frozen=True, slots=True)
class InterceptorFailed:
    """Nothing more will be written, and all heartbeats are sent."""

    diagnostics: str


@dataclass(frozen=True, slots=True)
class KeptNotice:
    """Containers of earlier AM attempts that YARN has handed over to this one."""

    containers: tuple[ContainerId, ...]


@dataclass(frozen=True, slots=True)
class Registered:
    """The AM has registered; what YARN handed over then is in the lines before."""


Response = (
    KeptNotice
    | Registered
    | PreemptionNotice
    | CompletedContainer
    | UpdatedNode
    | InterceptorFailed
)


class ResponseLog:
    """The file at ``path``, read by growth. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: BinaryIO | None = None
        self._rest = b""

    def exists(self) -> bool:
        """Whether the AM's JVM writes one: it makes the file before it starts Python."""
        return self._path.exists()

    def read(self) -> list[Response | MalformedData]:
        """The records written since the last call, in order, with an error in place of each bad
        line. A file that cannot be read is like one without news."""
        try:
            is_new = self._stream is None or not os.path.samestat(
                self._path.stat(), os.fstat(self._stream.fileno())
            )
            found = list(self._lines()) if self._stream is not None else []
            if is_new:
                self.close()
                self._stream = self._path.open("rb", buffering=0)
                found += self._lines()
        except OSError:
            return []
        return found

    def close(self) -> None:
        """Idempotent."""
        if self._stream is not None:
            self._stream.close()
        self._stream, self._rest = None, b""

    def _lines(self) -> Iterator[Response | MalformedData]:
        assert self._stream is not None
        *lines, self._rest = (self._rest + self._stream.read(MAX_READ_BYTES)).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest = b""
            yield MalformedData(f"a line longer than {MAX_LINE_BYTES} bytes")
        for line in lines:
            try:
                yield decode_response(line)
            except MalformedData as error:
                yield error


def decode_response(line: bytes) -> Response:
    """One line. Raises MalformedData."""
    record = decode_record(line, max_bytes=MAX_LINE_BYTES, max_depth=3)
    kind = record.text("kind", max_length=20)
    if kind == "preemption":
        return PreemptionNotice(_containers(record, "strict"), _containers(record, "negotiable"))
    if kind == "completed":
        return CompletedContainer(
            ContainerId(record.text("container", pattern=_CONTAINER)),
            record.integer("exit_status", least=-(1 << 31), most=(1 << 31) - 1),
            record.text("diagnostics", max_length=_MAX_DIAGNOSTICS),
        )
    if kind == "node":
        timeout_s = record.integer("timeout_s", least=-1, most=_MAX_TIMEOUT_S, default=-1)
        return UpdatedNode(
            record.text("node", max_length=300),
            record.text("state", pattern=_STATE),
            float(timeout_s) if timeout_s >= 0 else None,
        )
    if kind == "kept":
        return KeptNotice(_containers(record, "containers"))
    if kind == "registered":
        return Registered()
    if kind == "failed":
        return InterceptorFailed(record.text("diagnostics", max_length=_MAX_DIAGNOSTICS))
    raise MalformedData(f"a line of an unknown kind: {shown(kind)}")


def _containers(record: Record, key: str) -> tuple[ContainerId, ...]:
    names = record.texts(key, max_count=MAX_CONTAINERS, max_length=100)
    if bad := [name for name in names if not _CONTAINER.fullmatch(name)]:
        raise MalformedData(f"no container id: {shown(bad[0])}")
    return tuple(map(ContainerId, names))
