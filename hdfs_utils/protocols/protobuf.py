"""The few bits of protobuf's wire format that Hadoop's own protocols need.

Not the protobuf package: this one stands alone, and half a dozen small messages do not pay for
generated code. Field numbers stand where the messages are made, from Hadoop's ``.proto`` files
(hadoop-common ``RpcHeader.proto``, hadoop-hdfs-client ``ClientNamenodeProtocol.proto``,
``hdfs.proto``, ``datatransfer.proto``); the wire format is
https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

Value = Union[int, bytes, str, bool]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_SHIFT = 63
"""Bits before the tenth byte of a number, the last one that 64 bits have."""


def varint(value: int) -> bytes:
    """A number; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> int:
    """A ``sint32`` as the number that goes onto the wire."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def message(*fields: tuple[int, Value]) -> bytes:
    """Encode ``(number, value)`` pairs: numbers as varints, bytes and text with their length."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3 | _VARINT) + varint(int(value))
        else:
            raw = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | _BYTES) + varint(len(raw)) + raw
    return bytes(out)


def delimited(encoded: bytes) -> bytes:
    """A message behind its length."""
    return varint(len(encoded)) + encoded


def read_varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """The number at a position, and the position behind it.

    Raises:
        ValueError: the data ends in it, or it has more than 64 bits.
    """
    result = shift = 0
    while shift <= _MAX_SHIFT:
        if position >= len(data):
            raise ValueError("a truncated message")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
    raise ValueError("a number of more than 64 bits")


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in order: numbers, and bytes for everything with a length.

    Raises:
        ValueError: it is damaged.
    """
    position = 0
    while position < len(data):
        key, position = read_varint(data, position)
        kind = key & 7
        if kind == _VARINT:
            number, position = read_varint(data, position)
            yield key >> 3, number
            continue
        if kind == _BYTES:
            size, position = read_varint(data, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if position + size > len(data):
            raise ValueError("a truncated message")
        yield key >> 3, data[position : position + size]
        position += size


class Message:
    """A decoded message: the last value of each field, and all of a repeated one. Raises
    ValueError: it is damaged, or a field is of another type."""

    __slots__ = ("_values",)

    def __init__(self, data: bytes) -> None:
        self._values: dict[int, list[int | bytes]] = {}
        for number, value in fields(data):
            self._values.setdefault(number, []).append(value)

    def __contains__(self, number: int) -> bool:
        return number in self._values

    def number(self, number: int, default: int = 0) -> int:
        value = self._values.get(number, (default,))[-1]
        if not isinstance(value, int):
            raise ValueError(f"field {number} is not a number")
        return value

    def raw(self, number: int) -> bytes:
        """A field of bytes; empty if it is not there."""
        value = self._values.get(number, (b"",))[-1]
        if not isinstance(value, bytes):
            raise ValueError(f"field {number} has no bytes")
        return value

    def text(self, number: int) -> str:
        return self.raw(number).decode(errors="replace")

    def all(self, number: int) -> list[bytes]:
        """All values of a repeated field of bytes or messages."""
        return [value for value in self._values.get(number, ()) if isinstance(value, bytes)]

    def sub(self, number: int) -> Message:
        return Message(self.raw(number))
