"""The logs that NodeManagers have put together on HDFS, read without YARN's own tool.

Of an application there is one file from each node, a TFile (``org.apache.hadoop.io.file.tfile``,
the only format that is on by default): blocks of records, each a container's name and its logs one
after the other (``AggregatedLogFormat``). Who may read an application's logs is what HDFS says.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping

from hdfs_utils import FileSystem
from hdfs_utils import uri as uris
from hdfs_utils.errors import MalformedData, NotADirectory, NotFound
from hdfs_utils.protocols.untrusted import Readable, at_path, decompress
from yarnam.core.model.metrics import MAX_LOG_BYTES

_ROOT = "yarn.nodemanager.remote-app-log-dir"
_TFILE_ROOT = "yarn.log-aggregation.TFile.remote-app-log-dir"
_DEFAULT_ROOT = "/tmp/logs"  # noqa: S108 - Hadoop's default, on HDFS
_BUCKETS = 10_000

_MAX_BLOCKS = 1 << 20
_PIECE = 1 << 20
_MAX_TEXT = 1 << 16
_MAGIC = bytes.fromhex("d111d36891b5d7b639df414092bae150")
_TAIL = struct.Struct(">qhh16s")
"""Where the index of the metadata is, and the version (BCFile.Writer.close)."""
_DATA_INDEX = "data:BCFile.index"
_CONTAINER = "container_"
"""Other records are the application's owner, its rights and the format's version."""


def log_directory(
    files: FileSystem, settings: Mapping[str, str], user: str, application: str
) -> str | None:
    """Where the files of one application are; ``None`` means nowhere. Below the user's directory
    Hadoop has had them in ``logs``, ``logs-tfile`` and ``bucket-logs-tfile/NUMBER``. Raises
    HdfsError."""
    root = settings.get(_TFILE_ROOT) or settings.get(_ROOT) or _DEFAULT_ROOT
    number = int(application.rpartition("_")[2])
    try:
        kinds = files.list(uris.join(root, user))
    except (NotFound, NotADirectory):
        return None
    for kind in kinds:
        for below in (application, f"{number % _BUCKETS:04d}/{application}"):
            place = f"{kind.path}/{below}"
            if kind.is_dir and files.exists(place):
                return place
    return None


def logs_in(files: FileSystem, directory: str) -> Iterator[tuple[str, str, bytes]]:
    """Container, name and content of each log. Raises HdfsError; MalformedData for a file of
    another format, or with a log that is too large."""
    for status in files.list(directory):
        if status.is_dir or status.path.endswith(".tmp"):
            continue  # still being written
        with at_path(status.path, "read"), files.open_reader(status.path) as reader:
            # Numbers are read byte by byte.
            yield from _logs(io.BufferedReader(reader, _PIECE), reader.size)  # type: ignore[arg-type]


def _logs(file: io.BufferedReader, file_size: int) -> Iterator[tuple[str, str, bytes]]:
    codec, blocks = _data_blocks(file, file_size)
    for offset, size in blocks:
        records = _Numbers(_region(file, file_size, codec, offset, size))
        while (first := records.stream.read(1)) != b"":
            key = records.exactly(records.length(_MAX_TEXT, first))
            value = _Numbers(_Chunks(records))
            container = _java_text(_Numbers(io.BytesIO(key)))
            if container.startswith(_CONTAINER):
                for name, data in _files_of(value):
                    yield container, name, data
            value.skip_rest()


def _files_of(value: _Numbers) -> Iterator[tuple[str, bytes]]:
    while (first := value.stream.read(1)) != b"":
        name = _java_text(value, first)
        length = _java_text(value)
        if not length.isdecimal() or len(length) > 18 or int(length) > MAX_LOG_BYTES:
            raise MalformedData(f"a log of {length[:20]!a} bytes")
        yield name, value.exactly(int(length))


def _data_blocks(file: io.BufferedReader, size: int) -> tuple[str, list[tuple[int, int]]]:
    """How the blocks are compressed; offset and stored size of each."""
    if size < _TAIL.size:
        raise MalformedData("too short for a file of logs")
    file.seek(size - _TAIL.size)
    index_at, major, _, magic = _TAIL.unpack(_Numbers(file).exactly(_TAIL.size))
    if magic != _MAGIC or major != 1 or not 0 <= index_at < size:
        raise MalformedData("not a TFile: no file of logs in the format that is read here")
    meta = _Numbers(_Part(file, index_at, size - index_at))
    for _ in range(meta.length(_MAX_TEXT)):
        name, codec = meta.text(), meta.text()
        at, stored, _ = meta.number(), meta.number(), meta.number()
        if name == _DATA_INDEX:
            index = _Numbers(_region(file, size, codec, at, stored))
            of_blocks = index.text()
            count = index.length(_MAX_BLOCKS)
            rows = [(index.number(), index.number(), index.number()) for _ in range(count)]
            return of_blocks, [(offset, length) for offset, length, _ in rows]
    raise MalformedData("no index of its blocks")


def _region(file: io.BufferedReader, file_size: int, codec: str, at: int, size: int) -> Readable:
    if not (0 <= at <= file_size and 0 <= size <= file_size - at):
        raise MalformedData("a block that is not inside the file")
    part = _Part(file, at, size)
    if codec == "none":
        return part
    if codec != "gz" or size > MAX_LOG_BYTES:
        raise MalformedData(f"a block of {size} bytes compressed by {codec[:20]!a}")
    return io.BytesIO(decompress(_Numbers(part).exactly(size), max_bytes=MAX_LOG_BYTES))


class _Part:
    """Some bytes of a file as a stream."""

    def __init__(self, file: io.BufferedReader, offset: int, size: int) -> None:
        self._file = file
        self._offset = offset
        self._left = size

    def read(self, size: int = -1, /) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        self._file.seek(self._offset)
        data = self._file.read(wanted)
        self._offset += len(data)
        self._left -= len(data)
        return data


class _Chunks:
    """A value of unknown length: chunks, of which all but the last have their length negated
    (``Chunk.ChunkDecoder``)."""

    def __init__(self, numbers: _Numbers) -> None:
        self._numbers = numbers
        self._left = 0
        self._is_last = False

    def read(self, size: int = -1, /) -> bytes:
        pieces = []
        wanted = MAX_LOG_BYTES if size < 0 else size
        while wanted:
            if not self._left:
                if self._is_last:
                    break
                length = self._numbers.number()
                self._is_last, self._left = length >= 0, abs(length)
                continue
            piece = self._numbers.exactly(min(wanted, self._left))
            pieces.append(piece)
            wanted -= len(piece)
            self._left -= len(piece)
        return b"".join(pieces)


class _Numbers:
    """Reads what TFile writes: ``tfile.Utils``."""

    def __init__(self, stream: Readable) -> None:
        self.stream = stream

    def exactly(self, size: int) -> bytes:
        data = self.stream.read(size)
        if len(data) < size:
            raise MalformedData("cut off")
        return data

    def skip_rest(self) -> None:
        while self.stream.read(1 << 20):
            pass

    def number(self, first: bytes = b"") -> int:
        """``Utils.readVLong``: one byte, or a shift of it and one to three more, or their count."""
        head = int.from_bytes(first or self.exactly(1), "big", signed=True)
        if head >= -32:
            return head
        if head < -120:
            return int.from_bytes(self.exactly(head + 129), "big", signed=True)
        more, shift = (1, 52) if head >= -72 else (2, 88) if head >= -104 else (3, 112)
        return ((head + shift) << 8 * more) | int.from_bytes(self.exactly(more), "big")

    def length(self, most: int, first: bytes = b"") -> int:
        found = self.number(first)
        if not 0 <= found <= most:
            raise MalformedData(f"a length of {found}")
        return found

    def text(self) -> str:
        return self.exactly(self.length(_MAX_TEXT)).decode(errors="replace")


def _java_text(numbers: _Numbers, first: bytes = b"") -> str:
    """``DataOutput.writeUTF``; names of containers and files are ASCII, where it is as UTF-8."""
    size = int.from_bytes(first + numbers.exactly(2 - len(first)), "big")
    return numbers.exactly(size).decode(errors="replace")
