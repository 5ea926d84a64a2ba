"""Whatever bytes lie where others may write: each decoder gives a value or its one error, within
bounded memory.

Not Hypothesis: its search costs a millisecond a case, and here the number of cases is what finds
something. A failure names its seed and its bytes.
"""

from __future__ import annotations

import gzip
import os
import random
import re
import resource
import time
import zlib
from functools import cache

import pytest

from tests.property.foreign_places import PLACES, Place

CASES = 80
"""Mutated samples of one place in each run; ``YARNAM_EXAMPLES`` times as many where it is set."""
LONG_CASES = 3000
"""In the second tier: more than 100,000 over all places."""
BOMB = 256 << 20
"""Bytes of which a zip bomb is made."""
MAX_GROWTH = 192 << 20
"""Of the process over all cases of a place, in bytes."""

SCALARS = [
    b"1e400", b"-1e400", b"NaN", b"Infinity", b"-1", b"0", b"1.5", b"1e308", b"9" * 30,
    b"9" * 5000, b"9223372036854775808", b"true", b"null", b'""', b'"x"', b"[]", b"{}", b"[[]]",
    b'{"a":1}', b'"\\ud800"', b'"../../x"', b'"/etc/passwd"', b'"\\u0000"', b'"\\u001b]52;c;x"',
    b'"nan"', b'"' + b"x" * 100_000 + b'"', b"[" * 3000 + b"]" * 3000, b'{"a":' * 3000,
]  # fmt: skip
SCALAR = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null')


@cache
def always() -> list[bytes]:
    """Given to every place as they are."""
    deep = [opening * 100_000 for opening in (b"[", b'{"a":', b'[{"":', b"(", b"<a>")]
    wide = [b"[" + b"[]," * 30_000 + b"0]", b"[" + b"{}," * 30_000 + b"0]", b"9" * 1_000_000]
    bomb = zlib.compress(bytes(BOMB), 1)
    inside = zlib.compress(b'{"nodes":{"A":["' + b"a" * BOMB + b'"]}}', 1)
    packed = [bomb, inside, gzip.compress(bytes(BOMB), 1)]
    return [b"", b"\0", b"\xff\xfe", b"null", b"{}", b"[]", b"\x80" * 11, *deep, *wide, *packed]


def mutated(sample: bytes, rng: random.Random) -> bytes:
    data = bytearray(sample)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        first, second = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        kind = rng.randrange(8)
        if kind == 0 and data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[first:first] = rng.randbytes(rng.choice((1, 2, 8)))
        elif kind == 2:
            data[first:first] = data[first : min(second, first + 200)]
        elif kind == 3:
            del data[first:]
        elif kind == 4:
            del data[first : min(second, first + 20)]
        else:  # another value in the place of one: what gets past the parser
            found = list(SCALAR.finditer(data))
            if found:
                match = rng.choice(found)
                data[match.start() : match.end()] = rng.choice(SCALARS)
    return bytes(data)


def check(place: Place, data: bytes, seed: int) -> bool:
    """Whether it was decoded."""
    try:
        place.decode(data)
    except place.error:
        return False
    except Exception as error:
        message = f"seed {seed}: {type(error).__name__} for {data[:500]!r} ({len(data)} bytes)"
        raise AssertionError(message) from error
    return True


def seed() -> int:
    """The same in CI: a red run is the change's own fault."""
    return 0 if os.environ.get("CI") else time.time_ns() % (1 << 32)


def run(name: str, cases: int) -> None:
    place, start, whole = PLACES[name], seed(), always()
    rng = random.Random(start)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    decoded = 0
    for number in range(cases):
        if number % 10 == 9:
            data = rng.randbytes(rng.randrange(64))
        else:
            data = mutated(rng.choice(place.samples), rng)
        decoded += check(place, place.sealed(data), start)
        if number % 10 == 8:
            check(place, data, start)
    for data in whole:
        check(place, data, start)
        if len(data) < 4 << 20:
            check(place, place.sealed(data), start)
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
    assert growth < MAX_GROWTH
    assert cases < 1000 or decoded, "no case gets past the first check: it tries nothing"


@pytest.mark.parametrize("name", PLACES)
def test_the_samples_are_decoded(name: str) -> None:
    """Else the cases below would be refused for another reason than theirs."""
    place = PLACES[name]
    for sample in place.samples:
        assert check(place, place.sealed(sample), 0)


@pytest.mark.parametrize("name", PLACES)
def test_foreign_bytes_are_a_value_or_the_one_error(name: str) -> None:
    run(name, round(CASES * max(1.0, float(os.environ.get("YARNAM_EXAMPLES", "1")))))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", PLACES)
def test_a_hundred_thousand_foreign_values(name: str) -> None:
    run(name, LONG_CASES)


def test_a_hundred_thousand_are_tried() -> None:
    assert LONG_CASES * len(PLACES) >= 100_000
