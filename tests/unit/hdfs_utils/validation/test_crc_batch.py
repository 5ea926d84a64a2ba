"""Checksums of many records at once: the same findings as one by one, whatever is wrong."""

from __future__ import annotations

import random
import struct
import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdfs_utils.validation import Corrupt, Findings
from hdfs_utils.validation.crc_batch import crc_combiner, expected_crc, same_headers
from hdfs_utils.validation.formats import tfrecord
from hdfs_utils.validation.sources import Source, Stream
from tests.unit.hdfs_utils.validation import samples


class Pieces(Source):
    """In pieces of any sizes, over and over."""

    name = "a.tfrecord"

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.size = len(data)
        self._data, self._sizes = data, sizes

    def stream(self) -> Stream:
        cut: list[bytes] = []
        at = 0
        while at < len(self._data):
            size = self._sizes[len(cut) % len(self._sizes)]
            cut.append(self._data[at : at + size])
            at += size
        return Stream(iter(cut))

    def open(self) -> object:  # type: ignore[override]
        raise NotImplementedError


def check(source: Source) -> tuple[list[tuple[str, int | None, int | None]], int]:
    found = Findings()
    try:
        tfrecord.check_tfrecord(source, found)
    except Corrupt as error:
        return [(error.reason.value, error.offset, error.record)], found.records
    return [(f.reason.value, f.offset, f.record) for f in found.found], found.records


@contextmanager
def without_numpy() -> Iterator[None]:
    """As where it is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "numpy", None)
        crc_combiner.cache_clear()
        yield
    crc_combiner.cache_clear()


@pytest.fixture(scope="module")
def many() -> bytes:
    return samples.tfrecord(random.Random(1), [5, 0, 31, 200, 200, 7] * 40)


def starts_of(data: bytes) -> array[int]:
    starts, at = array("q"), 0
    while at < len(data):
        starts.append(at)
        at += 16 + struct.unpack_from("<Q", data, at)[0]
    return starts


def test_the_crc_follows_from_those_of_the_parts(many: bytes) -> None:
    combiner = crc_combiner()
    assert combiner is not None
    assert expected_crc(combiner, many, starts_of(many), len(many)) == google_crc32c.value(many)
    first = starts_of(many)[50:]
    assert expected_crc(combiner, many, first, len(many)) == google_crc32c.value(many[first[0] :])


def test_every_changed_bit_is_found_where_it_is(many: bytes) -> None:
    rng = random.Random(2)
    starts = list(starts_of(many))
    for _ in range(400):
        at = rng.randrange(len(many))
        data = bytearray(many)
        data[at] ^= 1 << rng.randrange(8)
        findings, _ = check(Pieces(bytes(data), [1 << 20]))
        record = max(n for n, start in enumerate(starts) if start <= at)
        assert [(offset, number) for _, offset, number in findings] == [(starts[record], record)]


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=30),
    times=st.integers(1, 12),
    sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=4),
    damage=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), max_size=3),
    cut=st.integers(0, 100),
)
def test_pieces_and_batches_change_nothing(
    lengths: list[int], times: int, sizes: list[int], damage: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(samples.tfrecord(random.Random(1), lengths * times))
    for at, bits in damage:
        data[at % len(data)] ^= bits
    broken = bytes(data[: len(data) - cut]) or b"x"
    with without_numpy():
        one_by_one = check(Pieces(broken, [1 << 20]))
    assert check(Pieces(broken, [1 << 20])) == one_by_one
    assert check(Pieces(broken, sizes)) == one_by_one


def test_runs_of_one_size_end_where_they_end() -> None:
    combiner = crc_combiner()
    assert combiner is not None
    data = samples.tfrecord(random.Random(1), [10] * 7 + [11] * 3)
    assert same_headers(combiner, data, 0, 26) == 7
    assert same_headers(combiner, data, 7 * 26, 27) == 3
    assert same_headers(combiner, data, 7 * 26, 28) == 1
    assert same_headers(combiner, data[:30], 0, 26) == 1


def test_without_numpy_it_is_one_by_one(many: bytes) -> None:
    with without_numpy():
        assert crc_combiner() is None
        assert check(Pieces(many, [1 << 20])) == ([], 240)
    assert crc_combiner() is not None
