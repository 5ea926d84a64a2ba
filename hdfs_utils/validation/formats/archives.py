"""tar (webdataset) and zip: headers, checksums, and each member by the check of its own format.

tar protects its headers by a sum and its contents not at all; zip has a CRC of each content.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import IO

from hdfs_utils.errors import HdfsError
from hdfs_utils.validation.findings import Corrupt, Findings, NotSupported, Reason
from hdfs_utils.validation.formats.compressed import CODECS, decompressed
from hdfs_utils.validation.input_format import InputFormat
from hdfs_utils.validation.sources import PIECE, Source, Stream, StreamSource

_BLOCK = 512
_ZEROS = bytes(_BLOCK)
_MAX_PAX = 1 << 20
_MOST_SAMPLES = 1 << 18
"""Names that are remembered, about 30 MB."""
_PAX_DIGITS = 9
"""More than a line's length and the space behind it have: _MAX_PAX has seven digits."""

MemberCheck = Callable[[Source, Findings], None]
"""Checks a member by its name; one of an unknown format is passed over."""


def check_tar(source: Source, found: Findings, member: MemberCheck) -> None:
    """Every header's sum and size, the mark of the end, and every member's content."""
    stream = _unpacked(source, found)
    samples = _Samples()
    pax: dict[str, str] = {}
    name_from_before = ""
    while True:
        offset = stream.offset
        block = stream.read(_BLOCK)
        if block == _ZEROS:
            _check_tar_end(stream)
            break
        if len(block) < _BLOCK:
            where = "within a header" if block else "without the mark of its end"
            raise Corrupt(Reason.TRUNCATED, f"ends {where}", offset, found.records)
        info = _tar_header(block, offset, found.records)
        size = int(pax.get("size", info.size))
        if size < 0:  # in base 256 or in a pax header: it would lead back, and round for ever
            message = f"a member of {size} bytes"
            raise Corrupt(Reason.BAD_STRUCTURE, message, offset, found.records)
        if info.type in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME,
                         tarfile.GNUTYPE_LONGLINK):  # fmt: skip
            data = _tar_content(stream, size, found.records)
            if info.type == tarfile.XHDTYPE:
                pax = _pax(data, offset)
            elif info.type == tarfile.GNUTYPE_LONGNAME:
                name_from_before = data.rstrip(b"\0").decode(errors="replace")
            continue
        if info.type == tarfile.GNUTYPE_SPARSE or any(k.startswith("GNU.sparse") for k in pax):
            raise NotSupported("a sparse file in a tar")
        name = pax.get("path") or name_from_before or info.name
        pax, name_from_before = {}, ""
        _tar_member(stream, name, size if info.isreg() else 0, found, member)
        found.records += 1
        if info.isreg():
            samples.take(name)
    if not offset:
        raise Corrupt(Reason.EMPTY, "has no members, only zeros", 0)
    found.note(
        Reason.UNPROTECTED, "tar protects headers only: contents by their own formats, if any"
    )
    if samples.split:
        message = (
            f"the members of sample {samples.split} are not adjacent: shard readers see two samples"
        )
        found.note(Reason.BAD_STRUCTURE, message)


def _unpacked(source: Source, found: Findings) -> Stream:
    """The tar itself. tarfile and webdataset see by its content that it is compressed, so names
    often do not say it."""
    stream = source.stream()
    first = stream.read(_BLOCK)
    whole = Stream(chain((first,), iter(stream.piece, b"")))
    codec = next((one for one in CODECS if first.startswith(one.magic)), None)
    if codec is None or _is_header(first):
        return whole
    found.note(Reason.OTHER_FORMAT, f"compressed with {codec.name}, which its name does not say")
    return Stream(decompressed(codec, StreamSource(source.name, whole), found))


def _is_header(block: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


class _Samples:
    """Finds a sample whose parts are not adjacent. Readers of shards group members by the name up
    to its first dot, as they come."""

    def __init__(self) -> None:
        self.split = ""
        self._last = ""
        self._seen: set[str] = set()

    def take(self, name: str) -> None:
        folder, slash, base = name.rpartition("/")
        stem, dot, _ = base.partition(".")
        if not dot or not stem or self.split:
            return
        key = f"{folder}{slash}{stem}"
        if key != self._last and key in self._seen:
            self.split = key
        self._last = key
        if len(self._seen) < _MOST_SAMPLES:
            self._seen.add(key)


def _tar_header(block: bytes, offset: int, record: int) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        reason = Reason.BAD_CRC if "checksum" in str(error) else Reason.BAD_STRUCTURE
        if offset == 0:
            reason = Reason.BAD_MAGIC
        raise Corrupt(reason, f"no tar header here: {error}", offset, record) from error


def _tar_content(stream: Stream, size: int, record: int) -> bytes:
    if size > _MAX_PAX:
        message = f"an extended header of {size} bytes"
        raise Corrupt(Reason.BAD_STRUCTURE, message, stream.offset, record)
    padded = size + -size % _BLOCK
    data = stream.read(padded)
    if len(data) < padded:
        raise Corrupt(Reason.TRUNCATED, "ends within an extended header", stream.offset, record)
    return data[:size]


def _pax(data: bytes, offset: int) -> dict[str, str]:
    """Lines of "length key=value\\n" (POSIX.1-2001, pax)."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            # Only the line is copied, never the rest: a header may be a MiB of short lines.
            space = data.index(b" ", at, at + _PAX_DIGITS)
            length = int(data[at:space])
            key, _, value = data[space + 1 : at + length].partition(b"=")
            if length < 5 or not value.endswith(b"\n"):
                raise ValueError("length")
            found[key.decode()] = value[:-1].decode()
            at += length
        int(found.get("size", "0"))
    except ValueError as error:
        raise Corrupt(Reason.BAD_STRUCTURE, "a pax header that is none", offset) from error
    return found


def _tar_member(stream: Stream, name: str, size: int, found: Findings, member: MemberCheck) -> None:
    start = stream.offset
    content = StreamSource(name, Stream(_bounded(stream, size)))
    with found.within(name), found.catching():
        member(content, found)
    passed = stream.offset - start
    stream.skip(size - passed)
    padding = -size % _BLOCK
    if stream.offset - start < size or stream.skip(padding) < padding:
        message = f"ends within {name}"
        raise Corrupt(Reason.TRUNCATED, message, stream.offset, found.records)


def _bounded(stream: Stream, size: int) -> Iterator[bytes]:
    while size > 0 and (piece := stream.read(min(size, PIECE))):
        size -= len(piece)
        yield piece


def _check_tar_end(stream: Stream) -> None:
    """Two blocks of zeros, then zeros up to the writer's record size."""
    offset = stream.offset
    second = stream.read(_BLOCK)
    if len(second) < _BLOCK:
        raise Corrupt(Reason.TRUNCATED, "ends within the mark of its end", offset)
    while piece := second or stream.piece():
        if piece.strip(b"\0"):
            message = "bytes that are not zero follow the mark of the end"
            raise Corrupt(Reason.TRAILING_DATA, message, offset)
        second = b""


# What zipfile and zlib raise about a damaged archive.
_ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, KeyError,
    OverflowError,
)  # fmt: skip


def check_zip(source: Source, found: Findings, member: MemberCheck) -> None:
    """The directory, and the CRC and the content of every member."""
    with source.open() as file:
        if file.read(2) != b"PK":
            raise Corrupt(Reason.BAD_MAGIC, "does not begin as zip does", 0)
        try:
            archive = zipfile.ZipFile(file)
        except HdfsError:
            raise
        except _ZIP_ERRORS as error:
            message = f"has no directory at its end ({error}): cut, or not written to its end"
            raise Corrupt(Reason.TRUNCATED, message, source.size) from error
        with archive:
            # Else a directory of many entries for the same bytes is a bomb of any size.
            packed, size = sum(i.compress_size for i in archive.infolist()), file.seek(0, 2)
            if packed > size:
                message = f"its members overlap: {packed} bytes of them in {size}"
                raise Corrupt(Reason.BAD_STRUCTURE, message)
            for info in archive.infolist():
                with found.within(info.filename), found.catching():
                    _zip_member(archive, info, found, member)
                found.records += 1


def _zip_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, found: Findings, member: MemberCheck
) -> None:
    if info.flag_bits & 1:
        raise NotSupported("encrypted")
    try:
        with archive.open(info) as opened:
            stream = Stream(_zip_pieces(opened, info))
            member(StreamSource(info.filename, stream), found)
            stream.drain()  # the CRC is compared at the end
    except HdfsError:
        raise
    except _ZIP_ERRORS as error:
        raise _zip_error(error, info) from error
    if stream.offset != info.file_size:
        message = f"{stream.offset} bytes instead of {info.file_size}"
        raise Corrupt(Reason.BAD_STRUCTURE, message, info.header_offset)


def _zip_pieces(opened: IO[bytes], info: zipfile.ZipInfo) -> Iterator[bytes]:
    while True:
        try:
            piece = opened.read(PIECE)
        except HdfsError:
            raise
        except _ZIP_ERRORS as error:
            raise _zip_error(error, info) from error
        if not piece:
            return
        yield piece


def _zip_error(error: BaseException, info: zipfile.ZipInfo) -> Exception:
    if isinstance(error, NotImplementedError):
        return NotSupported(str(error))
    reason = Reason.BAD_CRC if "CRC" in str(error) else Reason.BAD_DATA
    return Corrupt(reason, str(error) or type(error).__name__, info.header_offset)


FORMATS = (
    InputFormat(
        "tar",
        (".tar",),
        "headers; contents by their own formats",
        lambda source, found, context: check_tar(source, found, context.check_member),
        needs_context=True,
        recognizes=lambda head: head[257:262] == b"ustar",
    ),
    InputFormat(
        "zip",
        (".zip", ".npz"),
        "the content of each member",
        lambda source, found, context: check_zip(source, found, context.check_member),
        needs_context=True,
        recognizes=lambda head: head.startswith(b"PK\x03\x04"),
    ),
)
