"""Text, JSON lines, JSON and CSV: encoding, structure, columns, schema."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator, Mapping
from typing import Any

from hdfs_utils.validation.findings import Corrupt, Findings, NotSupported, OverLimit, Reason
from hdfs_utils.validation.input_format import VALUE_TYPES, InputFormat, TextRules
from hdfs_utils.validation.sources import Source

# A line longer than this is no line of a training set, and would have to be held in memory.
MAX_LINE = 64 << 20


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
            value = json.loads(line.decode(rules.encoding))
        except UnicodeDecodeError as error:
            message = f"not {error.encoding}: {error.reason}"
            found.corrupt(Reason.BAD_ENCODING, message, offset + error.start, number)
            continue
        except (ValueError, RecursionError) as error:
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
    """One JSON document. Raises Corrupt, with the position of the fault where it is known."""
    data = source.whole()
    try:
        value = json.loads(data.decode(rules.encoding))
    except UnicodeDecodeError as error:
        raise Corrupt(Reason.BAD_ENCODING, f"not {error.encoding}", error.start) from error
    except json.JSONDecodeError as error:
        is_cut = error.pos >= len(error.doc.rstrip())
        reason = Reason.TRUNCATED if is_cut else Reason.BAD_DATA
        raise Corrupt(reason, f"not JSON: {error}", error.pos) from error
    except (ValueError, RecursionError) as error:
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
    plain = source.name.lower()
    delimiter = rules.delimiter or ("\t" if ".tsv" in plain else ",")
    lines = _CsvLines(source, found, rules)
    rows = csv.reader(iter(lines), delimiter=delimiter, strict=True)
    columns, names = rules.columns, list(rules.schema)
    while True:
        lines.row_start = None
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
