"""One rank's file: the values one after the other, a footer that describes them, a trailer.

The footer makes a shard tell what is in it, so that each rank writes one file (each file on HDFS
costs tenths of a second) and rank 0 makes the manifest of all footers. Layout::

    data | footer (JSON) | length of the footer, 4 bytes | CRC32C of the footer, 4 bytes | magic
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hdfs_utils import uri as uris
from hdfs_utils.checkpoints.format import layout
from hdfs_utils.checkpoints.format import manifest as mf
from hdfs_utils.checkpoints.format.manifest import CHUNK, Entry, Shard
from hdfs_utils.checkpoints.format.values import FileRange, Source
from hdfs_utils.errors import AlreadyExists, CorruptData, NotSupported, Unavailable
from hdfs_utils.filesystem import FileSystem, Reader, Writer
from hdfs_utils.protocols.checksums import combine_all, crc32c
from hdfs_utils.protocols.untrusted import shown

FORMAT = "hdfs_utils.shard/1"
_TRAILER = struct.Struct("<II8s")
_MAGIC = b"hdfsckp1"
# Most footers are shorter: then one read of the file's end is enough.
_TAIL = 256 << 10


@dataclass(frozen=True, slots=True)
class Identity:
    """Which shard of which save."""

    step: int
    epoch: int
    rank: int
    world_size: int

    @property
    def file(self) -> str:
        return layout.shard(self.rank, self.world_size)


@dataclass(frozen=True, slots=True)
class WrittenShard:
    """A shard with what is in it."""

    shard: Shard
    entries: tuple[Entry, ...]


def chunks_of(sources: Sequence[Source]) -> Iterator[bytes]:
    """All bytes of the sources in pieces of ``CHUNK``; only the last may be shorter."""
    if (size := _length_of_one_range(sources)) is not None:
        content = sources[0].content
        assert isinstance(content, FileRange)
        yield from content.blocks(size)
        return
    gathered: list[memoryview] = []
    size = 0
    for source in sources:
        for view in source.pieces():
            while len(view):
                part = view[: CHUNK - size]
                gathered.append(part)
                size += len(part)
                view = view[len(part) :]
                if size == CHUNK:
                    yield b"".join(gathered)
                    gathered, size = [], 0
    if size:
        yield b"".join(gathered)


def _length_of_one_range(sources: Sequence[Source]) -> int | None:
    """Where all of them are one stretch of one file: it need not be put together."""
    end, first = 0, sources[0].content if sources else None
    if not isinstance(first, FileRange):
        return None
    for source in sources:
        if source.content != FileRange(first.fd, first.offset + end):
            return None
        end += source.length
    return end


def write_to(writer: Writer, identity: Identity, sources: Sequence[Source]) -> tuple[int, ...]:
    """Write a shard's bytes; gives the checksums of its chunks.

    Memory: two chunks besides what the writer holds.
    """
    chunks: list[int] = []
    for piece in chunks_of(sources):
        chunks.append(crc32c(piece))
        writer.write(piece)
    writer.write(end_of_shard(identity, sources, chunks))
    return tuple(chunks)


def end_of_shard(identity: Identity, sources: Sequence[Source], chunks: Sequence[int]) -> bytes:
    """Footer and trailer. Their length does not depend on the values of ``chunks``."""
    footer = _footer(identity, sources, chunks)
    return footer + _TRAILER.pack(len(footer), crc32c(footer), _MAGIC)


def _footer(identity: Identity, sources: Sequence[Source], chunks: Sequence[int]) -> bytes:
    entries, offset = [], 0
    for source in sources:
        entries.append(Entry(source.name, identity.rank, offset, source.length, source.array))
        offset += source.length
    content = {
        "format": FORMAT,
        "step": identity.step,
        "epoch": identity.epoch,
        "rank": identity.rank,
        "world_size": identity.world_size,
        "data_length": offset,
        "chunk": CHUNK,
        "chunks": mf.encode_chunks(tuple(chunks)),
        "entries": [mf.encode_entry(entry) for entry in entries],
    }
    return json.dumps(content, separators=(",", ":")).encode()


def write(
    fs: FileSystem, checkpoint: str, identity: Identity, sources: Sequence[Source]
) -> tuple[int, ...]:
    """Write a rank's shard: under a temporary name, then renamed. Harmless to repeat. Returns the
    checksums of its chunks.

    Raises:
        AlreadyExists: this rank has saved something else under the same name.
    """
    return _publish(
        fs, uris.join(checkpoint, identity.file), lambda writer: write_to(writer, identity, sources)
    )


def land(fs: FileSystem, checkpoint: str, identity: Identity, spooled: Path) -> None:
    """Copy a shard that was spooled to the local disk to its place. Harmless to repeat.

    Raises:
        CorruptData: the local disk changed it.
        AlreadyExists: this rank has saved something else under the same name.
    """
    expected = _spooled_chunks(spooled)

    def content(writer: Writer) -> tuple[int, ...]:
        with spooled.open("rb") as file:
            while piece := file.read(CHUNK):
                writer.write(piece)
        return expected

    _publish(fs, uris.join(checkpoint, identity.file), content)


def _spooled_chunks(spooled: Path) -> tuple[int, ...]:
    from hdfs_utils.backends.local import LocalFileSystem

    found = read_footer(LocalFileSystem(), str(spooled.absolute())).shard
    with spooled.open("rb") as file:
        for expected in found.chunks:
            length = min(CHUNK, found.data_length - file.tell())
            if crc32c(file.read(length)) != expected:
                message = "the local disk changed what was spooled"
                raise CorruptData(message, path=str(spooled), operation="land")
    return found.chunks


def _publish(
    fs: FileSystem, path: str, write: Callable[[Writer], tuple[int, ...]]
) -> tuple[int, ...]:
    written: list[tuple[int, ...]] = []
    try:
        fs.write_atomic(path, lambda writer: written.append(write(writer)), overwrite=False)
    except AlreadyExists:
        # Fine where a try before this one got through and its answer was lost.
        if not written or read_footer(fs, path).shard.chunks != written[-1]:
            raise
    return written[-1]


def read_footer(fs: FileSystem, path: str) -> WrittenShard:
    """Return the contents of a shard by its own footer, without its data.

    Raises:
        CorruptData: the file is not a whole shard.
        NotFound: the file does not exist.
    """
    with fs.open_reader(path) as reader:
        return footer_of(reader, path)


def footer_of(reader: Reader, path: str) -> WrittenShard:
    """The same of an open file. Raises CorruptData."""
    length = reader.size
    reader.seek(max(0, length - _TAIL))
    tail = reader.read()
    if len(tail) < _TRAILER.size:
        raise _corrupt(path, f"{length} bytes are not a shard")
    size, crc, magic = _TRAILER.unpack(tail[-_TRAILER.size :])
    if magic != _MAGIC or size + _TRAILER.size > length:
        raise _corrupt(path, "its end is not that of a shard")
    if size > mf.MAX_BYTES:
        raise _corrupt(path, f"its footer has {size} bytes; at most {mf.MAX_BYTES} are read")
    if size + _TRAILER.size > len(tail):
        reader.seek(length - size - _TRAILER.size)
        tail = reader.read()
    footer, trailer = tail[-_TRAILER.size - size : -_TRAILER.size], tail[-_TRAILER.size :]
    if crc32c(footer) != crc:
        raise _corrupt(path, "its footer is damaged")
    return _decode(path, length, footer, trailer)


def _decode(path: str, length: int, footer: bytes, trailer: bytes) -> WrittenShard:
    with mf.corrupt_where_malformed(path, "read shard"):
        return _decode_footer(path, length, footer, trailer)


def _decode_footer(path: str, length: int, footer: bytes, trailer: bytes) -> WrittenShard:
    content = mf.decode_plain(footer)
    if content["format"] != FORMAT or content["chunk"] != CHUNK:
        raise _corrupt(path, f"of format {shown(content['format'])}; this code reads {FORMAT!r}")
    data_length = content["data_length"]
    if data_length + len(footer) + len(trailer) != length:
        raise _corrupt(path, f"{length} bytes do not fit its footer")
    chunks = mf.decode_chunks(content["chunks"])
    lengths = [min(CHUNK, data_length - start) for start in range(0, data_length, CHUNK)]
    if len(lengths) != len(chunks):
        raise _corrupt(path, f"{len(chunks)} checksums for {len(lengths)} chunks")
    whole = combine_all(zip(chunks, lengths, strict=True))
    shard = Shard(
        file=uris.name(path),
        length=length,
        data_length=data_length,
        crc32c=crc32c(footer + trailer, whole),
        chunks=chunks,
    )
    rank = content["rank"]
    entries = tuple(mf.decode_entry(plain, rank, data_length) for plain in content["entries"])
    return WrittenShard(shard, entries)


def _corrupt(path: str, message: str) -> CorruptData:
    return CorruptData(message, path=path, operation="read shard")


def check_witness(fs: FileSystem, checkpoint: str, shards: Sequence[Shard]) -> None:
    """Compare the shards with the checksums that HDFS itself keeps, where it tells them.

    It makes them from the CRC of each 512 bytes that its DataNodes store; no data is read. So a
    rewritten file is noticed, and a changed byte on a disk is not.

    Raises:
        CorruptData: the storage holds something else than what was written.
    """
    if fs.uri.startswith("file:"):
        return  # a local disk has no checksums of its own
    paths = [uris.join(checkpoint, shard.file) for shard in shards]
    try:
        found = fs.crc32c(paths)
    except (NotSupported, Unavailable):
        return  # a second witness is welcome, not needed: all that is read is verified
    for path, shard, crc in zip(paths, shards, found, strict=True):
        if crc != shard.crc32c:
            message = f"HDFS's checksum is {crc:08x}, that of what was saved {shard.crc32c:08x}"
            raise CorruptData(message, path=path, operation="check")
