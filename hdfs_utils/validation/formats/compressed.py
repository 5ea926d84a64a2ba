"""gzip, zstd, bzip2, xz and lz4: the whole stream is decompressed and its checksums compared.

What is inside continues to the check of its own format, by the name without the ending."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

from hdfs_utils.validation.findings import (
    Corrupt,
    Findings,
    NotSupported,
    Reason,
    first_line,
    is_of_memory,
    needed,
    out_of_memory,
)
from hdfs_utils.validation.input_format import InputFormat, begins_with, is_never_recognized
from hdfs_utils.validation.sources import Source, Stream

# Most of what one call may give: bounds the memory whatever the ratio of compression.
_OUT = 2 << 20
# Measured: with these the checks cost nothing beside the decompressor itself.
_ZLIB_IN, _ZLIB_OUT = 256 << 10, 1 << 20
# isal's own object keeps what does not fit, and is at its best where both stay in the second cache:
# 2.5 GB/s of compressed bytes, where one call for all of it does 2.3 (isal 1.9.1).
_ISAL = 256 << 10
# zstandard has no such bound, so it is fed little at a time: 4 bytes give at most a block of 128
# KiB (RFC 8878, 3.1.1.2), so this at most 512 MiB. Four times as much is not faster.
_ZSTD_IN = 16 << 10
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
# Hadoop writes blocks of io.compression.codec.lz4.buffersize, 256 KiB by default.
_MAX_HADOOP_BLOCK = 64 << 20


class _Frame(Protocol):
    """One compressed member or frame."""

    @property
    def is_over(self) -> bool: ...

    @property
    def unused(self) -> bytes: ...

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]: ...


class _FedByPieces:
    """Takes its input in small pieces: at the end the rest of the input is unused as well."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._unused = b""

    @property
    def is_over(self) -> bool:
        return bool(self._inner.eof)

    @property
    def unused(self) -> bytes:
        return self._unused


class _ZlibLike(_FedByPieces):
    """zlib's objects: what does not fit into the output is handed back."""

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        # Each call copies the rest of its input: small pieces keep that cheap.
        for start in range(0, len(data), _ZLIB_IN):
            left = data[start : start + _ZLIB_IN]
            while True:
                out = self._inner.decompress(left, _ZLIB_OUT)
                left = self._inner.unconsumed_tail
                if out:
                    yield out
                if self._inner.eof:
                    self._unused = bytes(self._inner.unused_data) + data[start + _ZLIB_IN :]
                    return
                # A full output may have more behind it even when all input is taken.
                if not left and len(out) < _ZLIB_OUT:
                    break


class _Isal(_FedByPieces):
    """isal's own object, as bz2's: what does not fit into the output is kept inside."""

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        view = memoryview(data)
        for start in range(0, len(data), _ISAL):
            part = view[start : start + _ISAL]
            while True:
                out = self._inner.decompress(part, _ISAL)
                if out:
                    yield out
                if self._inner.eof:
                    self._unused = bytes(self._inner.unused_data) + data[start + _ISAL :]
                    return
                if self._inner.needs_input:
                    break
                part = view[:0]


class _BufferedLike:
    """bz2, lzma and lz4: what does not fit into the output is kept inside."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def is_over(self) -> bool:
        return bool(self._inner.eof)

    @property
    def unused(self) -> bytes:
        return bytes(self._inner.unused_data or b"")

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        while True:
            out = self._inner.decompress(data, _OUT)
            if out:
                yield out
            if self._inner.eof or self._inner.needs_input:
                return
            data = b""


class _Zstd(_FedByPieces):
    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTD_IN):
            out = self._inner.decompress(data[start : start + _ZSTD_IN])
            if out:
                yield bytes(out)
            if self._inner.eof:
                self._unused = bytes(self._inner.unused_data) + data[start + _ZSTD_IN :]
                return


Begin = Callable[[], tuple[_Frame, tuple[type[BaseException], ...]]]
"""Makes a frame, and says what the library raises about bad data; raises NeedsLibrary."""


@dataclass(frozen=True, slots=True, eq=False)
class Codec:
    """How one kind of compression is read.

    Attributes:
        name: as in reports.
        magic: the first bytes of each frame.
        begin: makes one.
        padding: whether zero bytes may follow the last frame.
    """

    name: str
    magic: bytes
    begin: Begin
    padding: bool = False


def _gzip() -> tuple[_Frame, tuple[type[BaseException], ...]]:
    try:
        from isal import igzip_lib
    except ImportError:
        return zlib_frame(31)()
    own = cast("type[BaseException]", igzip_lib.IsalError)
    return _Isal(igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)), (own,)


def _bzip2() -> tuple[_Frame, tuple[type[BaseException], ...]]:
    import bz2

    return _BufferedLike(bz2.BZ2Decompressor()), (OSError, ValueError)


def _xz() -> tuple[_Frame, tuple[type[BaseException], ...]]:
    import lzma

    return _BufferedLike(lzma.LZMADecompressor()), (lzma.LZMAError,)


def _lz4() -> tuple[_Frame, tuple[type[BaseException], ...]]:
    return _BufferedLike(needed("lz4.frame", "lz4").LZ4FrameDecompressor()), (RuntimeError,)


def _zstd() -> tuple[_Frame, tuple[type[BaseException], ...]]:
    zstandard = needed("zstandard")
    # zstd --long=31, which public dumps are made by: the memory limit of the check bounds it.
    unlimited = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    return _Zstd(unlimited.decompressobj()), (zstandard.ZstdError,)


GZIP = Codec("gzip", b"\x1f\x8b", _gzip, padding=True)
BZIP2 = Codec("bzip2", b"BZh", _bzip2)
XZ = Codec("xz", b"\xfd7zXZ\0", _xz, padding=True)
LZ4 = Codec("lz4", _LZ4_MAGIC, _lz4)
ZSTD = Codec("zstd", _ZSTD_MAGIC, _zstd)
CODECS = (GZIP, BZIP2, XZ, LZ4, ZSTD)
_MAX_WINDOW = 1 << 31


def decompressed(codec: Codec, source: Source, found: Findings) -> Iterator[bytes]:
    """The content, piece by piece. Raises Corrupt where the stream is damaged or cut."""
    stream = source.stream()
    codec.begin()  # a missing library is said before anything is read
    first = stream.read(16)
    if codec is LZ4 and first[:4] != _LZ4_MAGIC and _may_be_hadoop_lz4(first):
        yield from _hadoop_lz4(first, stream)
        return
    if not first.startswith(codec.magic[: len(first)]) and not _is_skippable(codec, first):
        raise Corrupt(Reason.BAD_MAGIC, f"does not begin as {codec.name} does", 0)
    _note_missing_checksum(codec, first, found)
    yield from _frames(codec, first, stream)


def _frames(codec: Codec, data: bytes | memoryview, stream: Stream) -> Iterator[bytes]:
    frame, errors = codec.begin()
    start = 0
    has_begun = True
    while data or (data := stream.view()):
        if not has_begun:
            data = bytes(data)
            if codec.padding and not data.strip(b"\0"):
                data = b""
                continue
            start = stream.offset - len(data)
            data = _next_frame(codec, data, stream, start)
            frame, errors = codec.begin()
            has_begun = True
        try:
            yield from frame.feed(data)
        except errors as error:
            if is_of_memory(first_line(error)):
                raise out_of_memory() from error
            message = f"{codec.name}: {first_line(error)}, in the part that begins at byte {start}"
            raise Corrupt(_reason(error), message, stream.offset - len(data)) from error
        data = b""
        if frame.is_over:
            data, has_begun = frame.unused, False
    if has_begun and not frame.is_over:
        message = f"the {codec.name} stream ends before its end mark"
        raise Corrupt(Reason.TRUNCATED, message, stream.offset)


def _next_frame(codec: Codec, data: bytes, stream: Stream, start: int) -> bytes:
    """After the end of a frame: another one begins, or somebody has added what is none."""
    if len(data) < 16:
        data += stream.read(16 - len(data))
    if data.startswith(codec.magic) or _is_skippable(codec, data):
        return data
    if codec.magic.startswith(data):
        raise Corrupt(Reason.TRUNCATED, f"ends within a {codec.name} header", start)
    message = f"bytes that are no {codec.name} follow the end of the stream"
    raise Corrupt(Reason.TRAILING_DATA, message, start)


def _is_skippable(codec: Codec, data: bytes) -> bool:
    """zstd and lz4 share the frames that are to be passed over: 0x184D2A50 to 5F."""
    if codec is not ZSTD and codec is not LZ4:
        return False
    return data[1:4] == b"\x2a\x4d\x18" and 0x50 <= data[0] <= 0x5F


def _note_missing_checksum(codec: Codec, first: bytes, found: Findings) -> None:
    # zstd: RFC 8878, 3.1.1.1.1; lz4: lz4_Frame_format.md, FLG byte.
    is_bare = (codec is ZSTD and len(first) > 4 and not first[4] & 0x04) or (
        codec is LZ4 and first[:4] == _LZ4_MAGIC and len(first) > 4 and not first[4] & 0x14
    )
    if is_bare:
        found.note(
            Reason.UNPROTECTED,
            f"this {codec.name} file has no checksum of its content: a changed byte may go unseen",
        )


def _reason(error: BaseException) -> Reason:
    text = str(error).lower()
    return Reason.BAD_CRC if "check" in text or "crc" in text else Reason.BAD_DATA


def _may_be_hadoop_lz4(first: bytes) -> bool:
    """Hadoop's Lz4Codec writes no frames: length of the data, then length of each part, data."""
    if len(first) < 8:
        return False
    raw, packed = struct.unpack(">II", first[:8])
    return bool(0 < raw <= _MAX_HADOOP_BLOCK and 0 < packed <= raw + raw // 255 + 16)


def _hadoop_lz4(first: bytes, stream: Stream) -> Iterator[bytes]:
    import lz4.block

    held = first

    def take(size: int) -> bytes:
        nonlocal held
        data, held = held[:size], held[size:]
        return data + stream.read(size - len(data)) if len(data) < size else data

    while header := take(4):
        start = stream.offset - len(held) - len(header)
        left = int.from_bytes(header, "big")
        if len(header) < 4 or left > _MAX_HADOOP_BLOCK:
            raise Corrupt(Reason.BAD_STRUCTURE, "no length of a Hadoop lz4 block", start)
        while left:
            size = int.from_bytes(take(4), "big")
            packed = take(size) if size <= _MAX_HADOOP_BLOCK else b""
            if len(packed) < size or not size:
                raise Corrupt(Reason.TRUNCATED, "ends within a Hadoop lz4 block", start)
            try:
                out = lz4.block.decompress(packed, uncompressed_size=left)
            except lz4.block.LZ4BlockError as error:
                raise Corrupt(Reason.BAD_DATA, f"Hadoop lz4: {first_line(error)}", start) from error
            left -= len(out)
            yield out


def unpacked(begin: Begin, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What one frame holds, a little at a time; what follows it is passed over.

    Raises ValueError: the frame is damaged or cut.
    """
    frame, errors = begin()
    try:
        for piece in pieces:
            if not frame.is_over:
                yield from frame.feed(piece)
    except errors as error:
        if is_of_memory(first_line(error)):
            raise out_of_memory() from error
        raise ValueError(first_line(error)) from error
    if not frame.is_over:
        raise ValueError("its end is missing")


def zlib_frame(wbits: int) -> Begin:
    """A stream of zlib's: ``wbits`` as there."""

    def begin() -> tuple[_Frame, tuple[type[BaseException], ...]]:
        import zlib

        return _ZlibLike(zlib.decompressobj(wbits=wbits)), (zlib.error,)

    return begin


def unsupported_snappy(_source: Source, _found: Findings) -> None:
    """Snappy streams differ from program to program; none is checked."""
    raise NotSupported("snappy streams are not checked")


def _format(
    codec: Codec, endings: tuple[str, ...], protects: str, tar_ending: str = ""
) -> InputFormat:
    # "BZh" alone is too little to tell bzip2 by.
    recognizes = is_never_recognized if codec is BZIP2 else begins_with(codec.magic)
    return InputFormat(
        codec.name,
        endings,
        protects,
        recognizes=recognizes,
        decompress=partial(decompressed, codec),
        tar_endings=(tar_ending,) if tar_ending else (),
    )


_WHERE_WRITTEN = "the content, where the writer wrote its checksum (the {} command does)"

FORMATS = (
    _format(GZIP, (".gz", ".bgz"), "the content; of the header (time, name) nothing", ".tgz"),
    _format(BZIP2, (".bz2",), "every byte", ".tbz2"),
    _format(XZ, (".xz",), "every byte", ".txz"),
    _format(ZSTD, (".zst", ".zstd"), _WHERE_WRITTEN.format("zstd"), ".tzst"),
    _format(LZ4, (".lz4",), _WHERE_WRITTEN.format("lz4")),
    InputFormat("snappy", (".snappy",), "not checked", unsupported_snappy),
)
