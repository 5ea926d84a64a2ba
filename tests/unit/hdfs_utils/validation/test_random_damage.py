"""Damage at random places. What a format cannot show is measured and stated, not hidden."""

from __future__ import annotations

import bz2
import gzip
import random

import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hdfs_utils.validation import Reason, Verdict, check_file
from tests.fakes.files import MemoryFiles
from tests.unit.hdfs_utils.validation.samples import GOOD, make

# Pillow warns of some damage before it raises.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

# Every byte counts: any changed bit is found.
PROTECTED = (
    "a.tfrecord", "a.png", "a.csv.bz2", "a.tar.xz", "a.jsonl.zst", "a.tfrecord.lz4",
    "part-00000.tfrecord-00001-of-00010",
)  # fmt: skip
# A cut anywhere is found. The rest are text, which may end after any line, what has padding at its
# end (tar, gzip; GIF's last byte is missing from many), and what may end between two parts of it
# (members of a gzip, records of TFRecord and RecordIO, blocks of Avro and SequenceFile).
WHOLE = tuple(
    name
    for name in GOOD
    if not name.startswith("two")
    and name not in ("a.txt", "a.csv", "a.tsv", "a.jsonl", "a.tar", "gnu.tar", "a.gif", "a.rec")
    and "tfrecord" not in name
    and not name.endswith((".avro", ".seq"))
)
# By the format's definition these hold no information about the content: gzip's flags that a
# reader ignores, its time, its extra flags and the name of the system (RFC 1952, 2.3).
GZIP_HEADER = range(3, 10)
# The share of changed bits that the check finds, measured over 300 of them; see docs.
FLIPS = 40
# A few bits say nothing of the content (24 of 31,496 in a Zstandard frame, 5 in as long a bzip2):
# padding of bit streams, tables that one symbol fills, how much memory to have ready.
UNPACK = {
    "zst": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
    "bz2": bz2.decompress,
}


def verdict(name: str, data: bytes) -> Verdict:
    return report(name, data).verdict


def report(name, data):  # type: ignore[no-untyped-def]
    fs = MemoryFiles()
    fs.write_bytes(f"/{name}", data)
    return check_file(fs, fs.stat(f"/{name}"))


def flipped(data: bytes, bit: int) -> bytes:
    broken = bytearray(data)
    broken[bit // 8] ^= 1 << bit % 8
    return bytes(broken)


@pytest.mark.parametrize("name", PROTECTED)
@settings(max_examples=60, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), seed=st.integers(0, 3))
@example(place=0.3771336778462087, seed=1)
@example(place=24 / 25320, seed=1)
def test_every_changed_bit_is_found(name: str, place: float, seed: int) -> None:
    good = make(name, seed)
    broken = flipped(good, int(place * len(good) * 8))
    unpack = UNPACK.get(name.rpartition(".")[2])
    if unpack and verdict(name, broken) is Verdict.CLEAN:
        assert unpack(broken) == unpack(good)
        return
    assert verdict(name, broken) is Verdict.CORRUPT


@settings(max_examples=60, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True))
@example(place=0.9958862006873633)
def test_every_changed_bit_of_a_gzip_but_its_header(place: float) -> None:
    good = make("a.txt.gz", 1)
    bit = int(place * len(good) * 8)
    broken = flipped(good, bit)
    if verdict("a.txt.gz", broken) is Verdict.CLEAN and bit // 8 not in GZIP_HEADER:
        # The last bits before the checksum fill a byte up, and say nothing.
        assert bit // 8 == len(good) - 9
        assert gzip.decompress(broken) == gzip.decompress(good)


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=30, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), seed=st.integers(0, 3))
def test_every_cut_is_found(name: str, place: float, seed: int) -> None:
    good = make(name, seed)
    assert verdict(name, good[: int(place * len(good))]) is Verdict.CORRUPT


@pytest.mark.parametrize("name", ["a.tfrecord", "a.rec"])
@settings(max_examples=60, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), seed=st.integers(0, 3))
def test_a_file_of_records_cut_between_two_of_them_is_the_one_that_is_not_found(
    name: str, place: float, seed: int
) -> None:
    good = make(name, seed)
    cut = int(place * len(good))
    found = report(name, good[:cut])
    if found.verdict is Verdict.CLEAN:
        whole = report(name, good)
        assert 0 < found.records < whole.records
        # Exactly at the end of a record: the rest is a whole file of its own.
        assert verdict(name, good[cut:]) is Verdict.CLEAN


@pytest.mark.parametrize("name", GOOD)
def test_no_damage_breaks_the_check_itself(name: str) -> None:
    """Whatever the bytes: a verdict, never "the check itself failed", never an exception."""
    rng = random.Random(name)
    good = make(name, 1)
    for _ in range(FLIPS):
        broken = bytearray(good)
        start = rng.randrange(len(good))
        kind = rng.randrange(4)
        if kind == 0:
            broken[start] ^= 1 << rng.randrange(8)
        elif kind == 1:
            broken[start : start + 64] = rng.randbytes(len(broken[start : start + 64]))
        elif kind == 2:
            del broken[start : start + rng.randrange(1, 100)]
        else:
            broken[start:start] = rng.randbytes(rng.randrange(1, 100))
        found = report(name, bytes(broken) or b"x")
        assert Reason.CHECK_FAILED not in {f.reason for f in found.findings}, found.findings
