"""One row of a trace, and what may stand in it. Everything is bounded; an error names the file and
the line."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import BinaryIO

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import shown

MAX_LINE = 64 << 10
"""Bytes of one line."""

MAX_GPUS = 1_000_000
MAX_S = 1e10
"""Three centuries, and more than the seconds since the epoch."""

MAX_TEXT = 200
"""Characters of a name; longer ones are cut."""


class Row:
    """Fields by name. Each accessor raises MalformedData with the number of the line."""

    __slots__ = ("_fields", "number")

    def __init__(self, number: int, fields: Mapping[str, str]) -> None:
        self.number = number
        self._fields = fields

    def text(self, name: str, *, default: str | None = None) -> str:
        value = self._fields.get(name)
        if value is None or value == "":
            if default is None:
                raise self.wrong(f"{name} is missing")
            return default
        return value[:MAX_TEXT]

    def amount(
        self, name: str, *, least: float = 0.0, most: float = MAX_S, default: float | None = None
    ) -> float:
        """A number in this range."""
        value = self._fields.get(name)
        if (value is None or value.strip() == "") and default is not None:
            return default
        try:
            found = float(value or "")
        except ValueError:
            raise self.wrong(f"{name} is not a number: {shown(value)}") from None
        if not isfinite(found) or not least <= found <= most:
            raise self.wrong(f"{name} is {shown(value)}, not from {least:g} to {most:g}")
        return found

    def count(
        self, name: str, *, least: int = 0, most: int = MAX_GPUS, default: int | None = None
    ) -> int:
        """A whole number in this range."""
        usual = None if default is None else float(default)
        found = self.amount(name, least=least, most=most, default=usual)
        if found != int(found):
            raise self.wrong(f"{name} is {found:g}, which is not a whole number")
        return int(found)

    def moment(self, name: str) -> float:
        """Seconds since the epoch of a time such as 2020-04-01 00:00:58, taken as UTC."""
        value = self.text(name)
        try:
            found = datetime.strptime(f"{value} +0000", "%Y-%m-%d %H:%M:%S %z")
        except ValueError:
            raise self.wrong(
                f"{name} is not a time such as 2020-04-01 00:00:58: {shown(value)}"
            ) from None
        return found.timestamp()

    def wrong(self, why: str) -> MalformedData:
        return MalformedData(f"line {self.number}: {why}")


def text_lines(file: BinaryIO) -> Iterator[str]:
    """Lines of UTF-8, each within ``MAX_LINE``."""
    number = 0
    while True:
        raw = file.readline(MAX_LINE + 1)
        if not raw:
            return
        number += 1
        if len(raw) > MAX_LINE:
            raise MalformedData(f"line {number}: longer than {MAX_LINE} bytes")
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise MalformedData(f"line {number}: no text in UTF-8") from None


def csv_rows(file: BinaryIO, columns: Sequence[str], header: Sequence[str] = ()) -> Iterator[Row]:
    """Rows of a CSV file. ``columns`` must be there; ``header`` names them in a file that has no
    line of names."""
    reader = csv.reader(text_lines(file))
    names = list(header)
    try:
        if not names:
            names = [name.strip() for name in next(reader, [])]
            missing = [name for name in columns if name not in names]
            if missing:
                raise MalformedData(f"line 1: no column {', '.join(missing)}")
        for fields in reader:
            if not fields:
                continue
            if len(fields) > len(names) or len(fields) < min(len(names), len(columns)):
                raise MalformedData(
                    f"line {reader.line_num}: {len(fields)} fields, not {len(names)}"
                )
            yield Row(reader.line_num, dict(zip(names, fields, strict=False)))
    except csv.Error as error:
        raise MalformedData(f"line {reader.line_num}: {error}") from None
