"""RecordIO of MXNet: a magic number, three bits of kind and 29 of length, data padded to 4 bytes.

Format: dmlc-core, ``include/dmlc/recordio.h``. It has no checksums: only the frame is checked.
"""

from __future__ import annotations

import struct

from hdfs_utils.validation.findings import Corrupt, Findings, Reason
from hdfs_utils.validation.input_format import InputFormat, begins_with
from hdfs_utils.validation.sources import Source

MAGIC = 0xCED7230A
_HEADER = struct.Struct("<II")
_WHOLE, _FIRST, _MIDDLE, _LAST = 0, 1, 2, 3
_NEXT = {
    _WHOLE: (_WHOLE, _FIRST),
    _FIRST: (_MIDDLE, _LAST),
    _MIDDLE: (_MIDDLE, _LAST),
    _LAST: (_WHOLE, _FIRST),
}


def check_recordio(source: Source, found: Findings) -> None:
    """The magic number, kind, length and padding of every record."""
    stream = source.stream()
    before = _WHOLE
    found.note(Reason.UNPROTECTED, "RecordIO has no checksums: only its frame was checked")
    while True:
        offset = stream.offset
        header = stream.read(8)
        if not header:
            break
        if len(header) < 8:
            raise Corrupt(Reason.TRUNCATED, "ends within a header", offset, found.records)
        magic, word = _HEADER.unpack(header)
        kind, length = word >> 29, word & (1 << 29) - 1
        if magic != MAGIC:
            raise Corrupt(Reason.BAD_MAGIC, "no record begins here", offset, found.records)
        if kind not in _NEXT[before]:
            message = f"a part of kind {kind} follows one of kind {before}"
            raise Corrupt(Reason.BAD_STRUCTURE, message, offset, found.records)
        padding = -length % 4
        if stream.skip(length) < length or len(pad := stream.read(padding)) < padding:
            raise Corrupt(Reason.TRUNCATED, "ends within a record", offset, found.records)
        if pad.strip(b"\0"):
            raise Corrupt(Reason.BAD_STRUCTURE, "padding is not zero", offset, found.records)
        before = kind
        found.records += kind in (_WHOLE, _LAST)
    if before in (_FIRST, _MIDDLE):
        raise Corrupt(Reason.TRUNCATED, "ends within a divided record", stream.offset)


FORMATS = (
    InputFormat(
        "recordio",
        (".rec", ".recordio"),
        "none: the frame of each record",
        check_recordio,
        recognizes=begins_with(MAGIC.to_bytes(4, "little")),
        is_framing=True,
    ),
)
