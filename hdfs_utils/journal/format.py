"""The bytes of a journal: framed records that a torn end cannot fake.

A record is one frame: ``<crc32, 8 hex digits> <sequence> <length> <payload>\\n``. The checksum is
over everything after it but the line feed. Payloads are arbitrary bytes; where they are text, the
file can be read with ``hdfs dfs -cat``.

The first frame of a segment has sequence 0 and is its header, in JSON: the epoch, and the older
segments with the length at which each was cut. Records count from 1 through all segments.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hdfs_utils.errors import CorruptData
from hdfs_utils.protocols.untrusted import at_path, decode_record

_HEAD = re.compile(rb"([0-9a-f]{8}) ((0|[1-9][0-9]{0,18}) (0|[1-9][0-9]{0,9}) )")
_LONGEST_HEAD = 8 + 1 + 19 + 1 + 10 + 1
# One line for each older segment.
_MAX_HEADER_BYTES = 1 << 20
VERSION = 1
_NAME = re.compile(r"journal-(?P<epoch>[0-9]{10})-(?P<part>[0-9]{4})\.log")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame and where the next one begins."""

    sequence: int
    payload: bytes
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a segment.

    Attributes:
        epoch: of its writer.
        cuts: the segments before it, in order, each with its length in bytes.
    """

    epoch: int
    cuts: Mapping[str, int]

    def encode(self) -> bytes:
        """The payload of frame 0."""
        content = {"version": VERSION, "epoch": self.epoch, "cuts": dict(self.cuts)}
        return json.dumps(content, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as read: its header (None if it was never completed), records, torn bytes."""

    header: Header | None
    records: tuple[Frame, ...]
    torn: int


def segment_name(epoch: int, part: int) -> str:
    """The file name of a segment; names sort in the order of writing."""
    return f"journal-{epoch:010d}-{part:04d}.log"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """Epoch and part of a file name, None if it is not a segment's."""
    match = _NAME.fullmatch(name)
    return (int(match["epoch"]), int(match["part"])) if match else None


def encode(sequence: int, payload: bytes) -> bytes:
    """The frame of one record: CRC-32 of the rest, number, length in bytes, payload."""
    body = b"%d %d " % (sequence, len(payload)) + payload
    return b"%08x %s\n" % (zlib.crc32(body), body)


def encode_all(first_sequence: int, payloads: Iterable[bytes]) -> bytes:
    """Frames of consecutive records."""
    return b"".join(encode(first_sequence + n, payload) for n, payload in enumerate(payloads))


def read_frame(data: bytes, start: int) -> Frame | None:
    """The whole and sound frame at ``start``, else None."""
    match = _HEAD.match(data, start, start + _LONGEST_HEAD)
    if not match:
        return None
    begin = match.end()
    end = begin + int(match[4])
    if data[end : end + 1] != b"\n":
        return None
    payload = data[begin:end]
    if zlib.crc32(payload, zlib.crc32(match[2])) != int(match[1], 16):
        return None
    return Frame(int(match[3]), payload, end + 1)


def parse_segment(data: bytes, path: str) -> Segment:
    """Read a segment up to its torn end.

    Raises:
        CorruptData: a broken frame with whole frames behind it, which no crash of a writer makes.
    """
    frames: list[Frame] = []
    position = 0
    while position < len(data):
        frame = read_frame(data, position)
        if frame is None:
            _check_torn(data, position, path)
            break
        frames.append(frame)
        position = frame.end
    torn = len(data) - position
    if not frames:
        return Segment(None, (), torn)
    if frames[0].sequence != 0:
        raise CorruptData("a segment without a header", path=path, operation="read journal")
    return Segment(_header(frames[0], path), tuple(frames[1:]), torn)


def _check_torn(data: bytes, start: int, path: str) -> None:
    """A torn end has nothing whole behind it."""
    position = data.find(b"\n", start)
    while position != -1:
        if read_frame(data, position + 1) is not None:
            message = f"damaged at byte {start}, with whole records behind it"
            raise CorruptData(message, path=path, operation="read journal")
        position = data.find(b"\n", position + 1)


def _header(frame: Frame, path: str) -> Header:
    with at_path(path, "read journal"):
        content = decode_record(frame.payload, max_bytes=_MAX_HEADER_BYTES)
        version = content.integer("version")
        if version == VERSION:
            cuts = content.record("cuts")
            return Header(content.integer("epoch"), {name: cuts.integer(name) for name in cuts})
    message = f"written in version {version} of the format; this code reads {VERSION}"
    raise CorruptData(message, path=path, operation="read journal")
