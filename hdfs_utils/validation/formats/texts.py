"""Text, JSON lines, JSON and CSV: encoding, structure, columns, schema."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from hdfs_utils.validation.findings import Corrupt, Findings, NotSupported, OverLimit, Reason
from hdfs_utils.validation.input_format import VALUE_TYPES, InputFormat, TextRules
from hdfs_utils.validation.sources import Source, Stream, StreamSource

# A longer line is not a line of a training set, and would have to be held in memory.
MAX_LINE = 64 << 20
BYTE_ORDER_MARK = "\ufeff"
TOO_DEEP = "is nested deeper than Python's parser goes"


def check_text(source: Source, found: Findings, rules: TextRules) -> None:
    """Encoding, and no NUL characters (what a crashed writer or a bad disk leaves)."""
    stream = source.stream()
    decoder = codecs.getincrementaldecoder(rules.encoding)()
    is_utf8 = codecs.lookup(rules.encoding).name in ("utf-8", "ascii", "iso8859-1")
    while piece := stream.piece():
        start = stream.offset - len(piece)
        if is_utf8 and (at := piece.find(b"\0")) >= 0:
            raise Corrupt(Reason.BAD_ENCODING, "a NUL character", start + at, found.records)
        _decode(decoder, piece, start, found.records)
        found.records += piece.count(b"\n")
    _decode(decoder, b"", stream.offset, found.records, is_last=True)


def _decode(
    decoder: codecs.IncrementalDecoder, piece: bytes, start: int, line: int, is_last: bool = False
) -> None:
    held = len(decoder.getstate()[0])
    try:
        decoder.decode(piece, is_last)
    except UnicodeDecodeError as error:
        before = piece[: max(0, error.start - held)].count(b"\n")
        reason = Reason.TRUNCATED if is_last else Reason.BAD_ENCODING
        message = f"not {error.encoding}: {error.reason}"
        raise Corrupt(reason, message, start + error.start - held, line + before) from error


def lines_of(source: Source) -> Iterator[tuple[int, bytes]]:
    """Offset and content of each line, with its end. Raises OverLimit above MAX_LINE."""
    stream = source.stream()
    rest: list[bytes] = []
    held = 0
    while piece := stream.piece():
        base = stream.offset - len(piece)
        start = 0
        while (end := piece.find(b"\n", start) + 1) > 0:
            if rest:
                yield base - held, b"".join((*rest, piece[:end]))
                rest, held = [], 0
            else:
                yield base + start, piece[start:end]
            start = end
        if start < len(piece):
            rest.append(piece[start:])
            held += len(piece) - start
            if held > MAX_LINE:
                raise OverLimit(f"a line of more than {MAX_LINE >> 20} MiB")
    if rest:
        yield stream.offset - held, b"".join(rest)


def check_jsonl(source: Source, found: Findings, rules: TextRules) -> None:
    """Each line is JSON, all of the kind of the first (object or array), with the schema's keys."""
    kind: type | None = None
    for number, (offset, line) in enumerate(lines_of(source)):
        found.records = number + 1
        if not line.strip():
            if b"\0" in line or line.strip(b"\r\n\t "):
                found.corrupt(Reason.BAD_ENCODING, "not text", offset, number)
            continue  # many writers leave an empty last line
        try:
            value = json.loads(_text_of(line, rules, is_first=number == 0))
        except UnicodeDecodeError as error:
            message = f"not {error.encoding}: {error.reason}"
            found.corrupt(Reason.BAD_ENCODING, message, offset + error.start, number)
            continue
        except RecursionError as error:
            raise OverLimit(f"line {number} {TOO_DEEP}") from error
        except ValueError as error:
            reason = Reason.BAD_DATA if line.endswith(b"\n") else Reason.TRUNCATED
            found.corrupt(reason, f"not JSON: {error}", offset, number)
            continue
        if kind is None and isinstance(value, (dict, list)):
            kind = type(value)
        if kind is not None and not isinstance(value, kind):
            name = "object" if kind is dict else "array"
            found.corrupt(Reason.BAD_SCHEMA, f"no {name}, as the first was", offset, number)
        elif problem := _schema_problem(value, rules.schema):
            found.corrupt(Reason.BAD_SCHEMA, problem, offset, number)


def _text_of(data: bytes, rules: TextRules, *, is_first: bool = True) -> str:
    """Decoded, without a byte order mark: whoever parses JSON may ignore it (RFC 8259, 8.1)."""
    text = data.decode(rules.encoding)
    return text.removeprefix(BYTE_ORDER_MARK) if is_first else text


def _schema_problem(value: Any, schema: Mapping[str, str]) -> str:
    if not schema:
        return ""
    if not isinstance(value, dict):
        return "no object"
    for name, kind in schema.items():
        if name not in value:
            return f"has no {name!r}"
        if not VALUE_TYPES[kind](value[name]):
            return f"{name!r} is no {kind}"
    return ""


def check_json(source: Source, found: Findings, rules: TextRules) -> None:
    """One JSON document, or JSON Lines, which most tools write under this name as well. Raises
    Corrupt, with the position of the fault where it is known."""
    data = source.whole()
    try:
        value = json.loads(_text_of(data, rules))
    except UnicodeDecodeError as error:
        raise Corrupt(Reason.BAD_ENCODING, f"not {error.encoding}", error.start) from error
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and "\n" in error.doc[: error.pos]:
            found.note(Reason.OTHER_FORMAT, "named as JSON, but it is JSON Lines")
            check_jsonl(StreamSource(source.name, Stream(iter((data,)))), found, rules)
            return
        is_cut = error.pos >= len(error.doc.rstrip())
        reason = Reason.TRUNCATED if is_cut else Reason.BAD_DATA
        raise Corrupt(reason, f"not JSON: {error}", error.pos) from error
    except RecursionError as error:
        raise OverLimit(f"the document {TOO_DEEP}") from error
    except ValueError as error:
        raise Corrupt(Reason.BAD_DATA, f"not JSON: {error}") from error
    found.records += 1
    if problem := _schema_problem(value, rules.schema):
        raise Corrupt(Reason.BAD_SCHEMA, problem, 0)


class _CsvLines:
    """Feeds the reader and remembers where its present row began."""

    def __init__(self, source: Source, found: Findings, rules: TextRules) -> None:
        self._lines = lines_of(source)
        self._found = found
        self._encoding = rules.encoding
        self.row_start: int | None = None

    def __iter__(self) -> Iterator[str]:
        for offset, line in self._lines:
            if self.row_start is None:
                self.row_start = offset
            if b"\0" in line and self._encoding.lower().replace("-", "") in ("utf8", "ascii"):
                at = offset + line.index(b"\0")
                raise Corrupt(Reason.BAD_ENCODING, "a NUL character", at, self._found.records)
            try:
                yield line.decode(self._encoding)
            except UnicodeDecodeError as error:
                message = f"not {error.encoding}: {error.reason}"
                at = offset + error.start
                raise Corrupt(Reason.BAD_ENCODING, message, at, self._found.records) from error


def check_csv(source: Source, found: Findings, rules: TextRules) -> None:
    """Encoding, quotes, the same number of columns in each row, and the schema's types."""
    lines = _CsvLines(source, found, rules)
    texts = iter(lines)
    first = next(texts, "")
    delimiter = rules.delimiter or _delimiter_of(first, source.name)
    begun, texts = lines.row_start, chain((first,) if first else (), texts)
    rows = csv.reader(texts, delimiter=delimiter, strict=True)
    columns, names = rules.columns, list(rules.schema)
    while True:
        lines.row_start, begun = begun, None
        try:
            row = next(rows, None)
        except csv.Error as error:
            if "field limit" in str(error):
                # The reader's own (131,072 characters), which is the whole process's setting.
                raise NotSupported(f"row {found.records}: {error}") from error
            reason = Reason.TRUNCATED if "end of data" in str(error) else Reason.BAD_DATA
            raise Corrupt(reason, f"not CSV: {error}", lines.row_start, found.records) from error
        if row is None:
            return
        number = found.records
        found.records += 1
        if not row:
            continue
        columns = columns or len(row)
        if len(row) != columns:
            message = f"{len(row)} columns instead of {columns}"
            found.corrupt(Reason.BAD_COLUMNS, message, lines.row_start, number)
        elif number == 0 and rules.has_header and rules.schema:
            names = row
            if missing := [name for name in rules.schema if name not in row]:
                message = f"has no column {missing[0]!r}"
                raise Corrupt(Reason.BAD_SCHEMA, message, 0, 0)
        elif problem := _cell_problem(row, names, rules.schema):
            found.corrupt(Reason.BAD_SCHEMA, problem, lines.row_start, number)


def _delimiter_of(first: str, name: str) -> str:
    """By the first line: whatever separates most of its cells, a comma among equals. Where a comma
    is the decimal sign, programs write semicolons."""
    usual = "\t" if ".tsv" in name.lower() else ","
    plain = re.sub(r'"[^"]*"', "", first)
    counts = {mark: plain.count(mark) for mark in (usual, ",", ";", "\t", "|")}
    most = max(counts, key=lambda mark: counts[mark])
    return most if counts[most] else usual


def _cell_problem(row: list[str], names: list[str], schema: Mapping[str, str]) -> str:
    for name, cell in zip(names, row, strict=False):
        kind = schema.get(name, "any")
        try:
            if kind == "integer":
                int(cell)
            elif kind == "number":
                float(cell)
            elif kind == "boolean" and cell.lower() not in ("true", "false", "0", "1"):
                return f"{name!r} is no {kind}: {cell[:40]!r}"
        except ValueError:
            return f"{name!r} is no {kind}: {cell[:40]!r}"
    return ""


FORMATS = (
    InputFormat(
        "jsonl",
        (".jsonl", ".ndjson"),
        "none: encoding, syntax, schema",
        lambda source, found, context: check_jsonl(source, found, context.rules),
        needs_context=True,
    ),
    InputFormat(
        "json",
        (".json",),
        "none: encoding, syntax, schema",
        lambda source, found, context: check_json(source, found, context.rules),
        needs_context=True,
    ),
    InputFormat(
        "csv",
        (".csv", ".tsv"),
        "none: encoding, quotes, columns, schema",
        lambda source, found, context: check_csv(source, found, context.rules),
        needs_context=True,
    ),
    InputFormat(
        "text",
        (".txt", ".text", ".log"),
        "none: encoding",
        lambda source, found, context: check_text(source, found, context.rules),
        needs_context=True,
    ),
)
