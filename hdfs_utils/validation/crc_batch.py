"""Compares the checksums of many small TFRecords in one call.

A call for each record costs more than the checksum of a small one. CRCs are linear: that of a
buffer follows from those of its parts (``crc(A + B) = shift(crc(A), len(B)) ^ crc(B)``, as in
zlib's ``crc32_combine``), and the file tells those of its parts. So the buffer's CRC is computed in
one call, and what it should be from all that is stored in it, by table look-ups over arrays. The
two differ for certain when one record is wrong (shifting loses nothing), and but for one chance in
2^32 when several are; whoever finds a difference looks at each record on its own."""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hdfs_utils.protocols.checksums import multiply, power

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

MASK_DELTA = 0xA282EAD8
_DIGITS = 7
"""Hexadecimal digits of a distance in bytes: up to 256 MiB."""
MAX_BUFFER = 16**_DIGITS
_ONES = 0xFFFFFFFF


class CrcCombiner:
    """Shifts arrays of CRCs by as many bytes as another array says. Made once: some milliseconds
    and 0.5 MB."""

    def __init__(self, numpy: Any) -> None:
        np = self._np = numpy
        tables = np.zeros((_DIGITS, 16, 4, 256), np.uint32)
        for place in range(_DIGITS):
            for digit in range(16):
                zeros = power(digit * 16**place)
                operator = [multiply(zeros, 1 << bit) for bit in range(32)]
                tables[place, digit] = self._tables(operator)
        self._tables_of = tables.reshape(_DIGITS, 16 * 1024)
        self._by_four = tables[0, 4].reshape(1024)
        zeros = self.by_four(np.full(1, _ONES, np.uint32))[0]
        self.of_zeros = np.uint32(int(zeros) ^ _ONES)
        """crc of four zero bytes: what the inversions before and after come to."""

    def part(self, buffer: bytes, start: int, end: int) -> Any:
        """A part of a buffer, without a copy, in a form that the library for CRCs takes."""
        return self._np.frombuffer(buffer, self._np.uint8)[start:end]

    def _tables(self, operator: list[int]) -> Any:
        np = self._np
        found = np.zeros((4, 256), np.uint32)
        for bit in range(32):
            place, within = divmod(bit, 8)
            has_bit = (np.arange(256) >> within & 1).astype(bool)
            found[place][has_bit] ^= np.uint32(operator[bit])
        return found

    def by_four(self, values: Words) -> Words:
        """All by four bytes."""
        return self._look_up(self._by_four, values, 0)

    def by(self, values: Words, distances: Any) -> Words:
        """Each by its own distance, in bytes below MAX_BUFFER."""
        most = int(distances.max(initial=0))
        for place in range(_DIGITS):
            if most >> 4 * place == 0:
                break
            digit = (distances >> 4 * place & 15) << 10
            values = self._look_up(self._tables_of[place], values, digit)
        return values

    def _look_up(self, table: Words, values: Words, start: Any) -> Words:
        found = table.take(start + (values & 0xFF))
        found ^= table.take(start + (256 + (values >> 8 & 0xFF)))
        found ^= table.take(start + (512 + (values >> 16 & 0xFF)))
        found ^= table.take(start + (768 + (values >> 24)))
        return found  # type: ignore[no-any-return]


@lru_cache(1)
def crc_combiner() -> CrcCombiner | None:
    """``None`` means numpy is not installed."""
    try:
        import numpy as np
    except ImportError:
        return None
    return CrcCombiner(np)


def expected_crc(combiner: CrcCombiner, buffer: bytes, starts: array[int], end: int) -> int:
    """The CRC that ``buffer[starts[0]:end]`` has if every checksum in it fits.

    Args:
        starts: where the records begin, one behind the other up to ``end``; all of them whole,
            their lengths known to be right.
    """
    np = combiner._np  # noqa: SLF001
    begin = np.frombuffer(starts, np.int64)
    follow = np.append(begin[1:], end)
    # Four bytes from any place on, as a little-endian number.
    words = np.ndarray((len(buffer) - 3,), "<u4", buffer, strides=(1,))
    of_length = words[begin + 8]  # take() would copy all of it first
    of_data = words[follow - 4]
    zeros = combiner.of_zeros
    header = combiner.by_four(_unmasked(np, of_length) ^ of_length) ^ zeros
    to_data = combiner.by(header, follow - begin - 16) ^ _unmasked(np, of_data)
    records = combiner.by_four(to_data ^ of_data) ^ zeros
    shifted = combiner.by(records, end - follow)
    return int(np.bitwise_xor.reduce(shifted))


def _unmasked(np: Any, masked: Words) -> Words:
    rotated = masked - np.uint32(MASK_DELTA)
    return (rotated >> 17) | (rotated << 15)  # type: ignore[no-any-return]


def same_headers(combiner: CrcCombiner, buffer: bytes, at: int, size: int) -> int:
    """How many records of this size (their frame included) stand from ``at`` on with the very
    header of the first, counted to the first that differs; all of them whole."""
    np = combiner._np  # noqa: SLF001
    count = (len(buffer) - at) // size
    if count < 2:
        return count
    heads = np.ndarray((count, 12), np.uint8, buffer, at, (size, 1))
    differs = (heads[1:] != heads[0]).any(axis=1)
    first = int(differs.argmax())
    return 1 + first if differs[first] else count
