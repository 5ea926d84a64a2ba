"""The part of a log that shows a failure: lines of its start and its end, whatever its size."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_json, read_at_most

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 256 * 1024
"""A traceback of a few hundred frames, with what libraries print after it while they end."""

MAX_LINE_CHARS = 2000
"""Kept of the start of a line; rules look for words that come early in it."""

ERROR_FILE_BYTES = 256 * 1024
"""torch writes a message and a call stack."""

ERROR_CHARS = 8000
"""Kept of the message."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """``at``: the offset of its last byte in the log."""

    text: str
    at: int


def log_evidence(path: Path, start: int = 0, secrets: Collection[str] = ()) -> tuple[LogLine, ...]:
    """Lines from the start and the end of what was written after offset ``start``; empty when there
    is nothing to read. Secret values are masked, since lines of evidence are kept."""
    try:
        with path.open("rb") as stream:
            end = stream.seek(0, os.SEEK_END)
            begin = stream.seek(min(start, end))
            head = stream.read(HEAD_BYTES)
            tail_begin = stream.seek(max(stream.tell(), end - TAIL_BYTES))
            tail = stream.read(TAIL_BYTES)
    except OSError:
        return ()
    if begin + len(head) == tail_begin:
        return tuple(_lines(head + tail, begin, secrets))
    return (*_lines(head, begin, secrets), *_lines(tail, tail_begin, secrets))


def _lines(data: bytes, begin: int, secrets: Collection[str]) -> Iterator[LogLine]:
    masked = data
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        value = secret.encode("utf-8", "surrogateescape")
        # As many lines as before: so each is still known by its number.
        masked = masked.replace(value, b"***" + b"\n" * value.count(b"\n"))
    at = begin - 1
    for line, shown in zip(data.split(b"\n"), masked.split(b"\n"), strict=True):
        at += len(line)
        if shown.strip():
            yield LogLine(_shown(shown), at)
        at += 1


def error_file_evidence(path: Path) -> tuple[tuple[str, ...], float | None]:
    """Message and time of the file that ``torch.distributed.elastic``'s ``@record`` writes (the
    variable TORCHELASTIC_ERROR_FILE names it); nothing where there is none that can be read."""
    try:
        with path.open("rb") as file:
            return parse_error_file(read_at_most(file, ERROR_FILE_BYTES))
    except (OSError, MalformedData):
        return (), None


def parse_error_file(data: bytes) -> tuple[tuple[str, ...], float | None]:
    """``{"message": {"message": TEXT, "extraInfo": {"timestamp": "1795000000"}}}``; what does not
    look like this says nothing. Raises MalformedData: no JSON."""
    plain = decode_json(data, max_bytes=ERROR_FILE_BYTES, is_lenient=True)
    outer = plain.get("message") if isinstance(plain, dict) else None
    message, more = outer, None
    if isinstance(outer, dict):
        message, more = outer.get("message"), outer.get("extraInfo")
    text = message[:ERROR_CHARS] if isinstance(message, str) else ""
    stamp = more.get("timestamp") if isinstance(more, dict) else None
    try:
        at_s = float(stamp) if isinstance(stamp, (str, int)) else None
    except (ValueError, OverflowError):
        at_s = None
    return tuple(text.splitlines()), at_s if at_s is not None and isfinite(at_s) else None


def _shown(line: bytes) -> str:
    # A progress bar rewrites its line: what a terminal would show in the end.
    shown = line.rstrip(b"\r").rpartition(b"\r")[2]
    return shown[: MAX_LINE_CHARS * 4].decode("utf-8", "replace")[:MAX_LINE_CHARS]
