"""Small files made to do harm, one or more of each format: bombs, loops, negative sizes, deep
nesting, text that takes quadratic time. Each is some KB, at most a few MB."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import h5py
import lz4.frame
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
from PIL import Image

from hdfs_utils.validation import Reason
from tests.unit.hdfs_utils.validation import samples

MIB = 1 << 20


@dataclass(frozen=True)
class Sample:
    """``kind``: the format. ``ends``: the reasons of which one is to be found. ``is_endless``: only
    the limit of time ends it."""

    kind: str
    name: str
    make: Callable[[], bytes]
    ends: tuple[Reason, ...]
    is_endless: bool = False


def _table(size_mib: int) -> pa.Table:
    """One text, all of it the same letter."""
    return pa.table({"a": pa.array(["a" * (size_mib * MIB)])})


def parquet_bomb() -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(
        _table(160), out, compression="zstd", use_dictionary=False, write_statistics=False
    )
    return bytes(out.getvalue())


def parquet_footer() -> bytes:
    """The footer announces more than there is."""
    return samples.parquet(random.Random(1))[:-8] + struct.pack("<I", 0x7FFFFFF0) + b"PAR1"


def orc_bomb() -> bytes:
    out = pa.BufferOutputStream()
    pyarrow.orc.write_table(_table(160), out, compression="zstd", dictionary_key_size_threshold=0.0)
    return bytes(out.getvalue())


def arrow_bomb(*, is_stream: bool) -> bytes:
    out = pa.BufferOutputStream()
    made = _table(256)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    begin = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with begin(out, made.schema, options=options) as writer:
        writer.write_table(made)
    return bytes(out.getvalue())


def arrow_stream_length() -> bytes:
    return b"\xff\xff\xff\xff" + struct.pack("<i", 0x7FFFFFF8) + bytes(100)


def hdf5_loop() -> bytes:
    """So many chunks, none of them stored, that nobody sees the last."""
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file.create_dataset("x", shape=(1 << 50,), chunks=(1 << 16,), dtype="u1")
    return out.getvalue()


def hdf5_bomb() -> bytes:
    out = io.BytesIO()
    size = 512 * MIB
    with h5py.File(out, "w") as file:
        made = file.create_dataset("x", shape=(size,), chunks=(size,), dtype="u1", compression=1)
        made.id.write_direct_chunk((0,), _zeros(size))
    return out.getvalue()


def _zeros(size: int) -> bytes:
    packer = zlib.compressobj(1)
    parts = [packer.compress(bytes(MIB)) for _ in range(size // MIB)]
    return b"".join((*parts, packer.flush()))


def tar_of(size: int, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """A header with a size in base 256, which may be negative (CVE-2025-8194)."""
    info = tarfile.TarInfo("a")
    info.type, info.size = kind, 0
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = size.to_bytes(12, "big", signed=True)
    header[124] |= 0x80
    header[148:156] = b" " * 8
    header[148:155] = b"%06o\0" % sum(header)
    return bytes(header) + bytes(1536)


def tar_pax(lines: bytes) -> bytes:
    """A pax header, and a member behind it."""
    head, member = tarfile.TarInfo("pax"), tarfile.TarInfo("a.txt")
    head.type, head.size = tarfile.XHDTYPE, len(lines)
    data = head.tobuf(tarfile.USTAR_FORMAT) + lines + bytes(-len(lines) % 512)
    return data + member.tobuf(tarfile.USTAR_FORMAT) + bytes(1024)


def tar_of_short_lines() -> bytes:
    """Eight headers of a MiB, each of 170,000 lines, and no end mark."""
    one = tar_pax(b"6 a=b\n" * (MIB // 6 - 1))[:-1024]
    return 8 * one


def zip_bomb() -> bytes:
    """One member and a directory that names it 20,000 times, for 1 GiB each."""
    packed = _zeros(16 * MIB)[2:]
    name = b"a.json"
    local = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 8, 0, 0, 0, len(packed), 16 * MIB, 6, 0)
    entry = struct.pack(
        "<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, 0, 8, 0, 0, 0, len(packed), 16 * MIB, 6,
        0, 0, 0, 0, 0, 0,
    ) + name  # fmt: skip
    start = len(local) + len(name) + len(packed)
    directory = entry * 20_000
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 20_000, 20_000, len(directory), start, 0)
    return local + name + packed + directory + end


def zip_of(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return out.getvalue()


def png_bomb() -> bytes:
    """30,000 x 30,000 pixels of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", _zeros(MIB))
        + chunk(b"IEND", b"")
    )


def gif_of_frames() -> bytes:
    """A canvas of 11,000 x 11,000, and 2,000 frames of one pixel on it."""
    small = io.BytesIO()
    Image.new("P", (1, 1)).save(small, "GIF")
    data = small.getvalue()
    frame = data[data.index(b",", 13) : -1]
    head = bytearray(data[: data.index(b",", 13)])
    head[6:10] = struct.pack("<HH", 11_000, 11_000)
    return bytes(head) + frame * 2_000 + b";"


def npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header


def safetensors(header: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header


def _avro_head(schema: bytes, codec: bytes = b"null") -> bytes:
    def text(value: bytes) -> bytes:
        return _zigzag(len(value)) + value

    pairs = text(b"avro.schema") + text(schema) + text(b"avro.codec") + text(codec)
    return b"Obj\x01" + _zigzag(2) + pairs + _zigzag(0) + bytes(16)


def _zigzag(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def avro_nulls() -> bytes:
    """A block of nothing with 2^62 records in it."""
    return _avro_head(b'"null"') + _zigzag(1 << 62) + _zigzag(0) + bytes(16)


def avro_array_of_nulls() -> bytes:
    """One record: an array of 2^40 nulls."""
    block = _zigzag(1 << 40) + _zigzag(0)
    head = _avro_head(b'{"type": "array", "items": "null"}')
    return head + _zigzag(1) + _zigzag(len(block)) + block + bytes(16)


def avro_bomb() -> bytes:
    packed = _zeros(512 * MIB)[2:]  # raw deflate
    head = _avro_head(b'"bytes"', b"deflate")
    return head + _zigzag(1) + _zigzag(len(packed)) + packed + bytes(16)


def avro_schema() -> bytes:
    return _avro_head(b'{"type": "array", "items": ' * 5_000 + b'"null"' + b"}" * 5_000)


def sequence(form: str, tail: bytes) -> bytes:
    """The header of a good one, then this."""
    good = samples.sequence_file(random.Random(1), form)
    sync = good.index(b"here") + 4
    return good[: sync + 16] + tail


def sequence_negative() -> bytes:
    return sequence("plain", struct.pack(">ii", 100, -50) + bytes(200))


def sequence_bomb() -> bytes:
    packed = _zeros(512 * MIB)
    record = struct.pack(">ii", len(packed), 0) + packed
    # And a value that is no zlib at all, to have a finding.
    return sequence("record", record + struct.pack(">ii", 5, 0) + b"wrong")


def xz_dictionary() -> bytes:
    """Its header asks for a dictionary of 4 GiB."""
    data = bytearray(lzma.compress(b"x" * 1000))
    size = (data[12] + 1) * 4
    data[12 + 4] = 40
    data[12 + size - 4 : 12 + size] = struct.pack("<I", zlib.crc32(data[12 : 12 + size - 4]))
    return bytes(data)


def zstd_bomb() -> bytes:
    """8 GiB of spaces: blocks of 128 KiB in 4 bytes each."""
    block = struct.pack("<I", 1 << 1 | (128 << 10) << 3)[:3] + b" "
    last = struct.pack("<I", 1 | 1 << 1 | 1 << 3)[:3] + b" "
    return b"\x28\xb5\x2f\xfd" + bytes((0x00, 0x38)) + block * (64 << 10) + last


def lz4_bomb() -> bytes:
    out = io.BytesIO()
    with lz4.frame.open(out, "wb") as file:
        for _ in range(400):
            file.write(b" " * MIB)
    return out.getvalue()


def tfrecord_length() -> bytes:
    length = struct.pack("<Q", (1 << 63) - 1)
    return length + samples.masked(length) + bytes(100)


def _all() -> Iterator[Sample]:
    bad, cut, over = Reason.BAD_STRUCTURE, Reason.TRUNCATED, Reason.OVER_LIMIT
    data, deep = Reason.BAD_DATA, b"[" * 200_000
    yield Sample("tfrecord", "length.tfrecord", tfrecord_length, (cut,))
    yield Sample(
        "recordio", "length.rec", lambda: struct.pack("<II", 0xCED7230A, (1 << 29) - 1), (cut,)
    )
    yield Sample("parquet", "bomb.parquet", parquet_bomb, (over,))
    yield Sample("parquet", "footer.parquet", parquet_footer, (data, over))
    yield Sample("orc", "bomb.orc", orc_bomb, (over,))
    yield Sample("arrow", "bomb.arrow", lambda: arrow_bomb(is_stream=False), (over,))
    yield Sample("arrow-stream", "bomb.arrows", lambda: arrow_bomb(is_stream=True), (over,))
    yield Sample("arrow-stream", "length.arrows", arrow_stream_length, (data, over))
    yield Sample("tar", "negative.tar", lambda: tar_of(-512), (bad,))
    yield Sample("tar", "member.tar", lambda: tar_of(-512, tarfile.REGTYPE), (bad,))
    yield Sample("tar", "pax.tar", lambda: tar_pax(b"13 size=-512\n"), (bad,))
    yield Sample("tar", "line.tar", lambda: tar_pax(b"-9 size=5\n"), (bad,))
    yield Sample("tar", "quadratic.tar", tar_of_short_lines, (cut,))
    yield Sample("tar", "deep.tgz", lambda: _deep_tar(6), (Reason.NOT_SUPPORTED,))
    yield Sample("zip", "overlap.zip", zip_bomb, (bad,))
    yield Sample("zip", "bomb.zip", lambda: zip_of("a.json", b" " * (300 * MIB)), (over,))
    yield Sample("image", "bomb.png", png_bomb, (over,))
    yield Sample("image", "frames.gif", gif_of_frames, (over,))
    yield Sample("npy", "header.npy", lambda: npy(b"(" * (2 * MIB)), (over,))
    yield Sample("npy", "deep.npy", lambda: npy(b"[" * 9_000), (bad,))
    yield Sample(
        "npy",
        "negative.npy",
        lambda: npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-8,), }\n"),
        (bad,),
    )
    yield Sample("hdf5", "loop.h5", hdf5_loop, (over,), is_endless=True)
    yield Sample("hdf5", "bomb.h5", hdf5_bomb, (over,))
    yield Sample("safetensors", "deep.safetensors", lambda: safetensors(deep), (bad,))
    yield Sample(
        "safetensors",
        "negative.safetensors",
        lambda: safetensors(b'{"a": {"dtype": "U8", "shape": [-8], "data_offsets": [0, -8]}}'),
        (bad,),
    )
    yield Sample(
        "safetensors",
        "quadratic.safetensors",
        lambda: safetensors(
            b'{"a": {"dtype": "U8", "data_offsets": [0, 8], "shape": ['
            + b",".join([b"9" * 4000] * 2_000)
            + b"]}}"
        ),
        (bad,),
    )
    yield Sample("jsonl", "deep.jsonl", lambda: deep + b"\n", (Reason.OVER_LIMIT,))
    yield Sample("jsonl", "number.jsonl", lambda: b"[" + b"9" * MIB + b"]\n", (data,))
    yield Sample("json", "deep.json", lambda: deep, (Reason.OVER_LIMIT,))
    yield Sample("json", "many.json", lambda: b"[" + b"[],{}," * (4 * MIB) + b"0]", (over,))
    yield Sample("csv", "quote.csv", lambda: b'a,b\n1,"' + b"a\n" * MIB, (Reason.NOT_SUPPORTED,))
    yield Sample("csv", "columns.csv", lambda: b"a\n" + b"," * MIB, (Reason.BAD_COLUMNS,))
    yield Sample("text", "wrong.txt", lambda: b"\xff" * (4 * MIB), (Reason.BAD_ENCODING,))
    yield Sample("sequence-file", "negative.seq", sequence_negative, (bad,))
    yield Sample("sequence-file", "bomb.seq", sequence_bomb, (data,))
    yield Sample("avro", "nulls.avro", avro_nulls, (over,))
    yield Sample("avro", "array.avro", avro_array_of_nulls, (over,))
    yield Sample("avro", "bomb.avro", avro_bomb, (over,))
    yield Sample("avro", "schema.avro", avro_schema, (bad,))
    yield Sample("gzip", "bomb.json.gz", lambda: gzip.compress(b" " * (300 * MIB), 1), (over,))
    yield Sample("bzip2", "bomb.txt.bz2", lambda: endless_bzip2(20_000), (over,), is_endless=True)
    yield Sample("xz", "dictionary.txt.xz", xz_dictionary, (over,))
    yield Sample("zstd", "bomb.json.zst", zstd_bomb, (over,))
    yield Sample("lz4", "bomb.json.lz4", lz4_bomb, (over,))
    yield Sample(
        "lz4",
        "blocks.txt.lz4",
        lambda: struct.pack(">II", 64 << 20, 9) + b"\x1fa" + b"\1\0",
        (cut,),
    )
    yield Sample("snappy", "any.snappy", lambda: b"any", (Reason.NOT_SUPPORTED,))


def endless_bzip2(members: int) -> bytes:
    """45 bytes give 900,000: decompressing a few MB takes minutes."""
    return bz2.compress(b" " * 900_000) * members


def _deep_tar(depth: int) -> bytes:
    data = b"x"
    for number in range(depth):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            info = tarfile.TarInfo("a.tgz" if number else "a.txt")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        data = out.getvalue()
    return data


SAMPLES = tuple(_all())
