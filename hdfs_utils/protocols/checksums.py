"""CRC32C of what passes by, and how the CRCs of parts make that of the whole.

HDFS keeps a CRC32C of each 512 bytes (``dfs.bytes-per-checksum``) and builds a file's checksum
from them: COMPOSITE_CRC is the CRC32C of the bytes, whatever the block size; MD5-of-MD5-of-CRC
hashes the CRCs, block by block.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Castagnoli, reflected: RFC 3720 appendix B.4.
_POLYNOMIAL = 0x82F63B78
CHUNK = 512  # dfs.bytes-per-checksum
# Hadoop's DataOutputBuffer begins with as many bytes and doubles.
_JAVA_BUFFER = 32


@functools.cache
def _extend() -> Callable[[int, bytes], int]:
    import google_crc32c

    if google_crc32c.implementation != "c":
        raise ImportError("google-crc32c came without its compiled part")
    extend: Callable[[int, bytes], int] = google_crc32c.extend
    return extend


def crc32c(data: bytes, crc: int = 0) -> int:
    """CRC32C of ``data``, or of what ``crc`` is of with ``data`` behind it."""
    return _extend()(crc, data)


def combine(first: int, second: int, second_length: int) -> int:
    """The CRC32C of A + B from those of A and of B and the length of B in bytes.

    Appending n zero bytes multiplies a CRC by x^(8n) modulo the polynomial; see Mark Adler's
    ``crc32_combine`` in zlib, of which this is the same algebra.
    """
    if not second_length:
        return first
    return multiply(power(second_length), first) ^ second


def combine_all(parts: Iterable[tuple[int, int]]) -> int:
    """The CRC32C of a whole by those of its consecutive parts and their lengths in bytes."""
    return functools.reduce(lambda whole, part: combine(whole, *part), parts, 0)


def multiply(a: int, b: int) -> int:
    """a * b modulo the polynomial; bit 31 is x^0."""
    product = 0
    for _ in range(32):
        if a & 0x80000000:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ _POLYNOMIAL if b & 1 else b >> 1
        if not a:
            break
    return product


@functools.lru_cache(maxsize=4096)
def power(length: int) -> int:
    """x^(8 * length) modulo the polynomial."""
    result = 0x80000000
    square = 0x00800000  # x^8
    while length:
        if length & 1:
            result = multiply(square, result)
        square = multiply(square, square)
        length >>= 1
    return result


class Crc32c:
    """A running CRC32C with the number of bytes."""

    __slots__ = ("length", "value")

    def __init__(self) -> None:
        self.value = 0
        self.length = 0

    def update(self, data: bytes) -> None:
        """Add the next bytes."""
        self.value = crc32c(data, self.value)
        self.length += len(data)


class Md5OfCrc:
    """HDFS's default file checksum, MD5-of-(MD5-of-(CRC32C of each chunk)), as bytes pass by.

    Args:
        block_size: of the file on HDFS, bytes.
        chunk: ``dfs.bytes-per-checksum``, bytes.
    """

    def __init__(self, block_size: int, chunk: int = CHUNK) -> None:
        self._block_size = block_size
        self._chunk = chunk
        self._in_block = 0
        self._rest = b""
        self._block = hashlib.md5(usedforsecurity=False)
        self._blocks: list[bytes] = []

    def update(self, data: bytes) -> None:
        """Add the next bytes."""
        data = self._rest + data if self._rest else data
        extend, chunk = _extend(), self._chunk
        usable = len(data) - len(data) % chunk
        position = 0
        # A block is whole chunks: HDFS refuses another block size.
        while position < usable:
            end = min(usable, position + self._block_size - self._in_block)
            crcs = [
                extend(0, data[start : start + chunk]).to_bytes(4, "big")
                for start in range(position, end, chunk)
            ]
            self._block.update(b"".join(crcs))
            self._in_block += end - position
            position = end
            if self._in_block == self._block_size:
                self._end_block()
        self._rest = data[usable:]

    def _end_block(self) -> None:
        self._blocks.append(self._block.digest())
        self._block = hashlib.md5(usedforsecurity=False)
        self._in_block = 0

    def hexdigest(self) -> str:
        """The MD5 of the blocks' MD5s.

        Hadoop hashes the whole buffer that they lie in, with the zeros behind them (``getData`` in
        ``FileChecksumHelper.makeFinalResult``), and keeps to that for compatibility.
        """
        if self._rest:
            crc = _extend()(0, self._rest)
            self._block.update(crc.to_bytes(4, "big"))
            self._in_block += len(self._rest)
            self._rest = b""
        if self._in_block:
            self._end_block()
        digests = b"".join(self._blocks)
        capacity = _JAVA_BUFFER
        while capacity < len(digests):
            capacity *= 2
        return hashlib.md5(digests.ljust(capacity, b"\0"), usedforsecurity=False).hexdigest()
