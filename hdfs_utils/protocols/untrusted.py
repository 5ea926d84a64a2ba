"""The one door for bytes that another process wrote.

What lies in ZooKeeper, in directories that others may write and in other jobs' files, and what
daemons and agents answer, may be torn, of another version, or made to do harm. It is decoded here
and nowhere else (``tests/unit/architecture/test_one_door.py``)::

    entry = decode_record(read_at_most(stream, MAX_BYTES), max_bytes=MAX_BYTES)
    path, length = entry.text("path"), entry.integer("length", most=1 << 60)

- Nothing is larger than the caller allows: not the bytes, not what they unpack to, not the depth.
  The values take at most about 40 times the memory of the bytes.
- Values have the type and the range that the caller names; all text can be encoded as UTF-8.
- There is one error, :class:`~hdfs_utils.errors.MalformedData`, whatever the bytes are. Its message
  quotes at most a few characters of them, escaped.

The caller names the limits, adds the path to the error or catches it, says what it continues
without, and continues. Nothing here reads a clock, a file or the network on its own."""

from __future__ import annotations

import gc
import json
import re
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

from hdfs_utils.errors import MalformedData

MAX_DEPTH = 32
"""Arrays and objects within each other, unless the caller says otherwise. Our own values have at
most 12; Python's recursion limit, which what handles a value may meet, is 1,000."""

MAX_TEXT = 4096
"""Characters of a text, unless the caller says otherwise: the longest path of Linux."""

INT64 = (1 << 63) - 1
_MAX_DIGITS = len(str(-INT64))
_LONG_DIGITS = 1000
_LARGE = 2**18
"""Bytes of JSON from which on the garbage collector is felt."""
_FLOAT_MAX = float.fromhex("0x1.fffffffffffffp+1023")
_SHOWN = 40
_HALF = re.compile("[\ud800-\udfff]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


class Readable(Protocol):
    """A file, or the body of an HTTP answer."""

    def read(self, size: int = ..., /) -> bytes: ...


def read_at_most(stream: Readable, max_bytes: int) -> bytes:
    """All that is left in a stream. Raises MalformedData: more than ``max_bytes``.

    See also ``FileSystem.read_bytes``.
    """
    data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise MalformedData(f"longer than {max_bytes} bytes")
    return data


@contextmanager
def at_path(path: str, operation: str = "") -> Iterator[None]:
    """Says in the MalformedData of this block which file it is about."""
    try:
        yield
    except MalformedData as error:
        error.path = error.path or path
        error.operation = error.operation or operation
        raise


def decompress(data: bytes, *, max_bytes: int) -> bytes:
    """What one zlib or gzip stream unpacks to.

    Raises:
        MalformedData: that is more than ``max_bytes``; the stream is damaged, cut off, or has
            something behind it.
    """
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        found = unpacker.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise MalformedData(f"cannot be unpacked: {error}") from None
    if len(found) > max_bytes:
        raise MalformedData(f"unpacks to more than {max_bytes} bytes")
    if not unpacker.eof:
        raise MalformedData("cannot be unpacked: it is cut off")
    if unpacker.unused_data:
        raise MalformedData("cannot be unpacked: something follows its end")
    return found


def decode_json(
    data: bytes, *, max_bytes: int, max_depth: int = MAX_DEPTH, is_lenient: bool = False
) -> Any:
    """The value of JSON in UTF-8.

    Args:
        data: the bytes.
        max_bytes: longer ones are not looked at.
        max_depth: how deep arrays and objects may be nested.
        is_lenient: take NaN, infinities, longer integers, halves of surrogate pairs, and of a key
            that occurs twice the last value: a user's own values, and Hadoop, which writes all
            of these. What :class:`Record` gives is checked all the same.

    Raises:
        MalformedData: not such JSON, or an object has a key twice.
    """
    if len(data) > max_bytes:
        raise MalformedData(f"longer than {max_bytes} bytes")
    try:
        text = str(data, "utf-8")
        with _no_collections() if len(data) > _LARGE else nullcontext():
            value = (_LENIENT if is_lenient else _STRICT).decode(text)
        is_too_deep = _is_deeper(value, max_depth)
        if not is_lenient and not is_too_deep and _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        is_too_deep = True
    except ValueError as error:
        raise MalformedData(f"not JSON: {_reason(error)} in {shown(data)}") from None
    if is_too_deep:
        raise MalformedData(f"nested deeper than {max_depth}: {shown(data)}")
    return value


def decode_record(
    data: bytes, *, max_bytes: int, max_depth: int = MAX_DEPTH, is_lenient: bool = False
) -> Record:
    """The JSON object in ``data``; see :func:`decode_json`. Raises MalformedData."""
    return Record(
        decode_json(data, max_bytes=max_bytes, max_depth=max_depth, is_lenient=is_lenient)
    )


def shown(value: object) -> str:
    """The beginning of a foreign value, in printable ASCII."""
    part = value[:_SHOWN] if isinstance(value, (bytes, str)) else value
    if isinstance(part, (dict, list)):
        return "an object" if isinstance(part, dict) else "an array"
    text = ascii(part)
    is_cut = isinstance(value, (bytes, str)) and len(value) > _SHOWN
    return f"{text[: 4 * _SHOWN]}{'...' if is_cut else ''}"


def is_encodable(text: str) -> bool:
    """Whether it has no half of a surrogate pair, which no file, log or terminal takes."""
    return text.isascii() or not _HALF.search(text)


class Record:
    """A JSON object, asked for its fields by name, type and range.

    Every question raises MalformedData where the field is missing and has no default, is of another
    type, or out of range. ``null`` counts as missing; a boolean is not a number.

    Attributes:
        plain: the object itself.
        where: where it lies within the whole, for messages.
    """

    __slots__ = ("plain", "where")

    def __init__(self, plain: object, where: str = "") -> None:
        if not isinstance(plain, dict):
            raise MalformedData(f"{where or 'it'} is not an object: {shown(plain)}")
        self.plain: dict[str, Any] = plain
        self.where = where

    def __contains__(self, key: str) -> bool:
        return self.plain.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain)

    def __len__(self) -> int:
        return len(self.plain)

    def text(
        self,
        key: str,
        *,
        max_length: int = MAX_TEXT,
        pattern: re.Pattern[str] | None = None,
        default: str | None = None,
    ) -> str:
        """A text; where there is a ``pattern``, one that matches it as a whole."""
        value = self._field(key, default)
        if type(value) is not str:
            raise self._wrong(key, "a text", value)
        return self._checked_text(key, value, max_length, pattern)

    def integer(
        self, key: str, *, least: int = 0, most: int = INT64, default: int | None = None
    ) -> int:
        """An integer of ``least`` to ``most``."""
        value = self._field(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(key, f"an integer of {least} to {most}", value)
        return value

    def number(
        self,
        key: str,
        *,
        least: float = -_FLOAT_MAX,
        most: float = _FLOAT_MAX,
        default: float | None = None,
    ) -> float:
        """A finite number of ``least`` to ``most``."""
        value = self._field(key, default)
        # NaN is not within any bounds.
        if type(value) not in (int, float) or not least <= value <= most:
            raise self._wrong(key, f"a number of {least:g} to {most:g}", value)
        return float(value)

    def flag(self, key: str, *, default: bool | None = None) -> bool:
        """True or false."""
        value = self._field(key, default)
        if type(value) is not bool:
            raise self._wrong(key, "true or false", value)
        return value

    def items(self, key: str, *, max_count: int, default: tuple[()] | None = None) -> list[Any]:
        """An array of at most ``max_count`` values of any type."""
        value = self._field(key, default)
        if value == () and default == ():
            return []
        if type(value) is not list or len(value) > max_count:
            raise self._wrong(key, f"an array of at most {max_count}", value)
        return value

    def integers(
        self, key: str, *, max_count: int, least: int = 0, most: int = INT64
    ) -> tuple[int, ...]:
        """An array of integers of ``least`` to ``most``."""
        found = self.items(key, max_count=max_count)
        for value in found:
            if type(value) is not int or not least <= value <= most:
                raise self._wrong(key, f"integers of {least} to {most}", value)
        return tuple(found)

    def texts(
        self,
        key: str,
        *,
        max_count: int,
        max_length: int = MAX_TEXT,
        default: tuple[()] | None = None,
    ) -> tuple[str, ...]:
        """An array of texts."""
        found = self.items(key, max_count=max_count, default=default)
        for value in found:
            if type(value) is not str:
                raise self._wrong(key, "texts", value)
            self._checked_text(key, value, max_length, None)
        return tuple(found)

    def record(self, key: str, *, max_count: int | None = None) -> Record:
        """An object within this one, of at most ``max_count`` fields."""
        found = Record(self._field(key, None), self._name(key))
        if max_count is not None and len(found) > max_count:
            raise self._wrong(key, f"an object of at most {max_count} fields", found.plain)
        return found

    def records(
        self, key: str, *, max_count: int, default: tuple[()] | None = None
    ) -> list[Record]:
        """An array of objects."""
        found = self.items(key, max_count=max_count, default=default)
        where = self._name(key)
        return [Record(value, f"{where}[{number}]") for number, value in enumerate(found)]

    def _field(self, key: str, default: object) -> Any:
        value = self.plain.get(key)
        if value is None:
            value = default
        if value is None:
            raise MalformedData(f"{self._name(key)} is missing")
        return value

    def _checked_text(
        self, key: str, value: str, max_length: int, pattern: re.Pattern[str] | None
    ) -> str:
        if not is_encodable(value):
            raise self._wrong(key, "text without halves of surrogate pairs", value)
        if len(value) > max_length:
            raise self._wrong(key, f"a text of at most {max_length} characters", value)
        if pattern is not None and not pattern.fullmatch(value):
            raise self._wrong(key, f"a text like {pattern.pattern}", value)
        return value

    def _wrong(self, key: str, expected: str, found: object) -> MalformedData:
        return MalformedData(f"{self._name(key)} has to be {expected}, not {shown(found)}")

    def _name(self, key: str) -> str:
        # A mapping's keys are foreign too.
        is_plain = len(key) <= _SHOWN and key.isascii() and key.isidentifier()
        name = key if is_plain else shown(key)
        return f"{self.where}.{name}" if self.where else name


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS or not -INT64 - 1 <= (found := int(text)) <= INT64:
        raise ValueError("an integer of more than 64 bits")
    return found


def _long_integer(text: str) -> int:
    # The time that Python takes for it grows with the square of the digits.
    if len(text) > _LONG_DIGITS:
        raise ValueError(f"an integer of more than {_LONG_DIGITS} digits")
    return int(text)


def _number(text: str) -> float:
    found = float(text)
    if not -_FLOAT_MAX <= found <= _FLOAT_MAX:
        raise ValueError("a number that is not finite")
    return found


_STRICT = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_number
)
_LENIENT = json.JSONDecoder(parse_int=_long_integer)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Values of JSON are not garbage; the garbage collector would look at all of them again and
    again, which takes twice as long as the parsing. Of several threads here at a time the one
    that has paused it lets it continue."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


_NESTING = frozenset({dict, list})


def _values(nested: Any) -> Collection[Any]:
    return nested.values() if type(nested) is dict else nested


def _is_deeper(value: object, limit: int) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            inner
            for outer in map(_values, level)
            # A column of a million numbers is passed at the speed of C.
            if not _NESTING.isdisjoint(map(type, outer))
            for inner in outer
            if type(inner) in _NESTING
        ]
    return bool(level)


def _reason(error: ValueError) -> str:
    """Why, without a word of the bytes."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.rstrip(': ')} at character {error.pos}"
    if isinstance(error, UnicodeDecodeError):
        return f"no UTF-8 ({error.reason})"
    if isinstance(error, UnicodeEncodeError):
        return "half a surrogate pair"
    return str(error)
