"""The messages between a process that decodes and its parent.

The parent sends a request: its length and JSON. The child answers with questions and at last the
outcome, each a letter and what belongs to it:

- ``N``: the next piece of the file.
- ``R``, an offset and a size: a range of the file, at most a piece.
- ``D`` and a length: the outcome in JSON, see :func:`outcome`.

``N`` and ``R`` are answered by a length; the bytes lie in memory that both share, which holds three
pieces: the next ones of the file by turns, a range in the first place. So two are read or ready
while another is looked at. 0 is the end of the file, FAILED a read that failed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import INT64, MAX_TEXT, Record, decode_record
from hdfs_utils.validation.findings import MAX_FINDINGS, Finding, FindingKind, Findings, Reason
from hdfs_utils.validation.sources import PIECE

LENGTH = struct.Struct("<I")
RANGE = struct.Struct("<QI")
FAILED = 0xFFFFFFFF
PLACES = 3
SHARED = PLACES * PIECE
MAX_OUTCOME = 4 << 20
_MAX_LISTED = 4 * (MAX_FINDINGS + 1)


def outcome(found: Findings, *, is_last: bool) -> bytes:
    """As the child sends it. ``is_last``: it ends now, the next file is another child's."""
    listed = [
        {
            "kind": one.kind.value,
            "reason": one.reason.value,
            "message": _plain(one.message),
            # A file may claim any place for its parts.
            "offset": one.offset if one.offset is not None and 0 <= one.offset <= INT64 else None,
            "record": one.record if one.record is not None and 0 <= one.record <= INT64 else None,
            "member": _plain(one.member),
        }
        for one in found.found
    ]
    records = max(0, min(found.records, INT64))
    return json.dumps({"findings": listed, "records": records, "is_last": is_last}).encode()


def _plain(text: str) -> str:
    # Names in archives may hold halves of surrogate pairs.
    return text.encode("utf-8", "backslashreplace").decode()[:MAX_TEXT]


def take_outcome(data: bytes, found: Findings) -> bool:
    """Add it to the findings; returns ``is_last``. Raises MalformedData: a decoder may have been
    made to say anything."""
    told = decode_record(data, max_bytes=MAX_OUTCOME)
    taken = [_finding(one) for one in told.records("findings", max_count=_MAX_LISTED)]
    found.records += told.integer("records")
    for one in taken:
        found.take(one)
    return told.flag("is_last")


def _finding(plain: Record) -> Finding:
    try:
        kind, reason = FindingKind(plain.text("kind")), Reason(plain.text("reason"))
    except ValueError as error:
        raise MalformedData(str(error)) from None
    offset, record = (plain.integer(key) if key in plain else None for key in ("offset", "record"))
    return Finding(kind, reason, plain.text("message"), offset, record, plain.text("member"))


def request(format_name: str, name: str, size: int, checks: Mapping[str, Any]) -> bytes:
    """One file to check. ``size`` in bytes; ``checks``: see ``registry.plain_checks``."""
    told = {"format": format_name, "name": name, "size": size, "checks": checks}
    return json.dumps(told).encode()
