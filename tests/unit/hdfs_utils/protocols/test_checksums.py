"""CRC32C, its algebra, and HDFS's default checksum."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from hdfs_utils.protocols.checksums import Crc32c, Md5OfCrc, combine, crc32c


def test_the_known_values() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720, B.4
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"") == 0


@given(st.binary(max_size=3000), st.binary(max_size=3000), st.binary(max_size=50))
def test_the_crc_of_parts_is_that_of_the_whole(a: bytes, b: bytes, c: bytes) -> None:
    two = combine(crc32c(a), crc32c(b), len(b))
    assert combine(two, crc32c(c), len(c)) == crc32c(a + b + c)
    running = Crc32c()
    for piece in (a, b, c):
        running.update(piece)
    assert (running.value, running.length) == (crc32c(a + b + c), len(a + b + c))


@given(st.binary(max_size=9000), st.integers(1, 4000))
def test_md5_of_crc_does_not_depend_on_the_pieces(data: bytes, piece: int) -> None:
    running = Md5OfCrc(block_size=2048)
    for start in range(0, len(data), piece):
        running.update(data[start : start + piece])
    blocks = []
    for block in range(0, len(data), 2048):
        part = data[block : block + 2048]
        crcs = [crc32c(part[i : i + 512]).to_bytes(4, "big") for i in range(0, len(part), 512)]
        blocks.append(hashlib.md5(b"".join(crcs)).digest())
    padding = {0: 32, 1: 16, 2: 0, 3: 16, 4: 0, 5: 48}[len(blocks)]
    assert running.hexdigest() == hashlib.md5(b"".join(blocks) + bytes(padding)).hexdigest()
