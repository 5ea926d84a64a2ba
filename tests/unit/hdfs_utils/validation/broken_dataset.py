"""A data set of many small files, a known few of them broken in each of many ways."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import h5py

from hdfs_utils import FileSystem
from tests.unit.hdfs_utils.validation import samples

Break = Callable[[bytes, random.Random], bytes]


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(1, len(data) * 9 // 10)]


def _flip(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _flip_gzip(data: bytes, rng: random.Random) -> bytes:
    return data[:10] + _flip(data[10:], rng)  # the header's time and flags protect nothing


def _magic(data: bytes, rng: random.Random) -> bytes:
    return b"\r\n\r\n" + data[4:]


def _nothing(data: bytes, rng: random.Random) -> bytes:
    return b""


def _zero_block(data: bytes, rng: random.Random) -> bytes:
    size = min(512, len(data) // 4)
    start = rng.randrange(len(data) - size)
    return data[:start] + bytes(size) + data[start + size :]


def _crc(data: bytes, rng: random.Random) -> bytes:
    return data[:-4] + bytes(b ^ 0x55 for b in data[-4:])


def _latin(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    lines[rng.randrange(len(lines))] = "Zürich\n".encode("latin-1")
    return b"".join(lines)


def _lost_column(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    lines[rng.randrange(1, len(lines))] = b"1,two\n"
    return b"".join(lines)


def _broken_line(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    chosen = rng.randrange(len(lines))
    lines[chosen] = lines[chosen][: len(lines[chosen]) // 2] + b"\n"
    return b"".join(lines)


def _half_footer(data: bytes, rng: random.Random) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    return data[: len(data) - 8 - rng.randrange(1, length)]


def _no_end(data: bytes, rng: random.Random) -> bytes:
    return data.rstrip(b"\0")


def _html(data: bytes, rng: random.Random) -> bytes:
    return b"<html><body>503 Service Unavailable</body></html>\n"


def _joined(data: bytes, rng: random.Random) -> bytes:
    return data + data[: len(data) // 2]


def _chunk(data: bytes, rng: random.Random) -> bytes:
    with h5py.File(io.BytesIO(data), "r") as file:
        info = file["train/x"].id.get_chunk_info(rng.randrange(5))
    start, end = info.byte_offset, info.byte_offset + info.size
    return data[:start] + _flip(data[start:end], rng) + data[end:]


WAYS: dict[str, tuple[str, Break]] = {
    "truncated tfrecord": ("a.tfrecord", lambda data, rng: data[: -rng.randrange(1, 16)]),
    "bit flip in a tfrecord": ("a.tfrecord", _flip),
    "bad crc of a tfrecord": ("a.tfrecord", _crc),
    "bit flip in a gzip": ("a.txt.gz", _flip_gzip),
    "truncated gzip": ("a.txt.gz", _cut),
    "wrong magic of a png": ("a.png", _magic),
    "bit flip in a png": ("a.png", _flip),
    "truncated jpeg": ("a.jpg", _cut),
    "no bytes": ("a.jpg", _nothing),
    "half-written parquet footer": ("a.parquet", _half_footer),
    "bit flip in a parquet page": (
        "a.parquet",
        lambda data, rng: data[:4] + _flip(data[4:2000], rng) + data[2000:],
    ),
    "block of zeros in json lines": ("a.jsonl", _zero_block),
    "broken line of json": ("a.jsonl", _broken_line),
    "bad encoding": ("a.txt", _latin),
    "lost column": ("a.csv", _lost_column),
    "error page instead of data": ("a.npz", _html),
    "truncated npy": ("a.npy", _cut),
    "tar without its end": ("a.tar", _no_end),
    "bit flip in a zstd": ("a.jsonl.zst", _flip),
    "two files run together": ("a.avro", _joined),
    "bit flip in an hdf5 dataset": ("a.h5", _chunk),
    "truncated safetensors": ("a.safetensors", _cut),
}  # fmt: skip


@dataclass(frozen=True)
class Dataset:
    files: tuple[str, ...]
    broken: dict[str, str]
    """Path to the way it was broken in."""


def build(
    fs: FileSystem, root: str, clean_files: int, per_way: int, seed: int = 1, threads: int = 16
) -> Dataset:
    """``clean_files`` good ones of all formats, and ``per_way`` broken in each way, by the side of
    each other in directories of 100."""
    rng = random.Random(seed)
    kinds = sorted({name for name, _ in WAYS.values()})
    good = {kind: [samples.make(kind, n) for n in range(3)] for kind in kinds}
    plan: list[tuple[str, bytes, str]] = []
    for number in range(clean_files):
        kind = kinds[number % len(kinds)]
        plan.append((kind, rng.choice(good[kind]), ""))
    for way, (kind, break_it) in WAYS.items():
        for _ in range(per_way):
            whole = rng.choice(good[kind])
            broken = break_it(whole, rng)
            assert broken != whole
            plan.append((kind, broken, way))
    rng.shuffle(plan)
    files, broken_files = [], {}
    work = []
    for number, (kind, data, way) in enumerate(plan):
        path = f"{root}/{number // 100:03}/{number:06}{kind[1:]}"
        files.append(path)
        work.append((path, data))
        if way:
            broken_files[path] = way
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda item: fs.write_bytes(*item), work))
    return Dataset(tuple(files), broken_files)


__all__ = ["WAYS", "Dataset", "build"]
