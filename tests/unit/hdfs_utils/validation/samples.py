"""One good file of each format, made by the format's own library where there is one."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import fastavro
import google_crc32c
import h5py
import lz4.block
import lz4.frame
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import safetensors.numpy
import zstandard
from PIL import Image

Maker = Callable[[random.Random], bytes]


def masked(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def tfrecord(rng: random.Random, sizes: list[int] | None = None) -> bytes:
    out = io.BytesIO()
    for size in sizes or [rng.randrange(1, 3000) for _ in range(20)]:
        length = struct.pack("<Q", size)
        data = rng.randbytes(size)
        out.write(length + masked(length) + data + masked(data))
    return out.getvalue()


def recordio(rng: random.Random) -> bytes:
    out = io.BytesIO()
    for kind in (0, 0, 1, 2, 3, 0, 1, 3, 0):
        data = rng.randbytes(rng.randrange(1, 500))
        out.write(struct.pack("<II", 0xCED7230A, kind << 29 | len(data)))
        out.write(data + bytes(-len(data) % 4))
    return out.getvalue()


def table(rng: random.Random) -> pa.Table:
    rows = 2000
    return pa.table(
        {
            "id": pa.array(range(rows)),
            "x": pa.array([rng.random() for _ in range(rows)]),
            "word": pa.array([rng.randbytes(6).hex() for _ in range(rows)]),
            "few": pa.array([rng.choice("abc") for _ in range(rows)]).dictionary_encode(),
        }
    )


def parquet(rng: random.Random, checksums: bool = True, compression: str = "snappy") -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(
        table(rng), out, row_group_size=700, write_page_checksum=checksums, compression=compression
    )
    return bytes(out.getvalue())


def orc(rng: random.Random) -> bytes:
    out = pa.BufferOutputStream()
    pyarrow.orc.write_table(table(rng).drop_columns(["few"]), out, compression="zlib")
    return bytes(out.getvalue())


def arrow(rng: random.Random) -> bytes:
    out = pa.BufferOutputStream()
    made = table(rng)
    with pa.ipc.new_file(out, made.schema) as writer:
        writer.write_table(made, max_chunksize=500)
    return bytes(out.getvalue())


def arrow_stream(rng: random.Random) -> bytes:
    out = pa.BufferOutputStream()
    made = table(rng)
    with pa.ipc.new_stream(out, made.schema) as writer:
        writer.write_table(made, max_chunksize=500)
    return bytes(out.getvalue())


def text(rng: random.Random) -> bytes:
    words = ["naïve", "Zürich", "日本", "plain", "words", "of", "text"]
    lines = (" ".join(rng.choices(words, k=8)) for _ in range(300))
    return ("\n".join(lines) + "\n").encode()


def jsonl(rng: random.Random) -> bytes:
    rows = ({"id": n, "text": rng.choice(["ä", "b"]), "x": rng.random()} for n in range(300))
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def json_document(rng: random.Random) -> bytes:
    return json.dumps({"classes": [rng.randbytes(4).hex() for _ in range(50)]}).encode()


def csv_table(rng: random.Random) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["id", "text", "x"])
    for number in range(300):
        writer.writerow([number, rng.choice(['say "hi"', "a,b", "plain"]), rng.random()])
    return out.getvalue().encode()


def picture(rng: random.Random, kind: str, size: int = 48) -> bytes:
    smooth = np.linspace(0, 200, size * size * 3).reshape(size, size, 3)
    noise = np.frombuffer(rng.randbytes(size * size * 3), np.uint8).reshape(size, size, 3) % 50
    out = io.BytesIO()
    Image.fromarray((smooth + noise).astype(np.uint8)).save(out, kind)
    return out.getvalue()


def array(rng: random.Random) -> np.ndarray[Any, Any]:
    return np.frombuffer(rng.randbytes(8000), np.float32).reshape(50, 40)


def npy(rng: random.Random) -> bytes:
    out = io.BytesIO()
    np.save(out, array(rng))
    return out.getvalue()


def npz(rng: random.Random) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, images=array(rng), labels=np.arange(50))
    return out.getvalue()


def hdf5(rng: random.Random, fletcher32: bool = True) -> bytes:
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        group = file.create_group("train")
        group.create_dataset("x", data=array(rng), chunks=(10, 40), fletcher32=fletcher32)
        group.create_dataset("y", data=np.arange(50), chunks=(50,), fletcher32=fletcher32)
    return out.getvalue()


def tensors(rng: random.Random) -> bytes:
    return safetensors.numpy.save({"w": array(rng), "b": np.arange(7, dtype=np.int64)})


def tar(rng: random.Random, form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for number in range(8):
            long = "x" * 120 if number == 3 else ""
            members = {
                f"{number:06}{long}.png": picture(rng, "PNG", 16),
                f"{number:06}{long}.json": json.dumps({"label": number}).encode(),
                f"{number:06}{long}.cls": b"%d" % number,
            }
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(rng: random.Random) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(8):
            archive.writestr(f"{number}.json", json.dumps({"label": number, "x": rng.random()}))
            archive.writestr(f"{number}.bin", rng.randbytes(500))
    return out.getvalue()


AVRO_SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
}


def avro(rng: random.Random, codec: str = "deflate") -> bytes:
    out = io.BytesIO()
    rows = [{"id": n, "text": rng.randbytes(8).hex()} for n in range(500)]
    fastavro.writer(out, AVRO_SCHEMA, rows, codec=codec, sync_interval=2000)
    return out.getvalue()


def _vint(value: int) -> bytes:
    """WritableUtils.writeVLong for what is not negative."""
    if value <= 127:
        return bytes([value])
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return struct.pack("b", -112 - len(data)) + data


def _hadoop_text(value: str) -> bytes:
    return _vint(len(value)) + value.encode()


def sequence_file(rng: random.Random, form: str = "plain") -> bytes:
    """As SequenceFile.Writer does: ``plain``, ``record`` or ``block`` compressed."""
    sync = rng.randbytes(16)
    out = io.BytesIO()
    out.write(b"SEQ\x06" + 2 * _hadoop_text("org.apache.hadoop.io.BytesWritable"))
    out.write(bytes([form != "plain", form == "block"]))
    if form != "plain":
        out.write(_hadoop_text("org.apache.hadoop.io.compress.DefaultCodec"))
    out.write(struct.pack(">i", 1) + _hadoop_text("made") + _hadoop_text("here") + sync)
    for block in range(5):
        out.write(struct.pack(">i", -1) + sync)
        pairs = [(rng.randbytes(8), rng.randbytes(rng.randrange(300))) for _ in range(10)]
        if form == "block":
            out.write(_vint(len(pairs)))
            for part in (
                b"".join(_vint(len(key)) for key, _ in pairs),
                b"".join(key for key, _ in pairs),
                b"".join(_vint(len(value)) for _, value in pairs),
                b"".join(value for _, value in pairs),
            ):
                packed = zlib.compress(part)
                out.write(_vint(len(packed)) + packed)
            continue
        for key, value in pairs[: block + 5]:
            stored = zlib.compress(value) if form == "record" else value
            out.write(struct.pack(">ii", len(key) + len(stored), len(key)) + key + stored)
    return out.getvalue()


def hadoop_lz4(rng: random.Random) -> bytes:
    data = text(rng)
    packed = lz4.block.compress(data, store_size=False)
    return struct.pack(">II", len(data), len(packed)) + packed


def zstd(data: bytes, checksum: bool = True) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=checksum).compress(data)


GOOD: dict[str, Maker] = {
    "a.tfrecord": tfrecord,
    "a.rec": recordio,
    "a.parquet": parquet,
    "plain.parquet": lambda rng: parquet(rng, checksums=False, compression="none"),
    "a.orc": orc,
    "a.arrow": arrow,
    "a.arrows": arrow_stream,
    "a.txt": text,
    "a.jsonl": jsonl,
    "a.json": json_document,
    "a.csv": csv_table,
    "a.tsv": lambda rng: csv_table(rng).replace(b",", b"\t"),
    "a.png": lambda rng: picture(rng, "PNG"),
    "a.jpg": lambda rng: picture(rng, "JPEG"),
    "a.webp": lambda rng: picture(rng, "WEBP"),
    "a.tiff": lambda rng: picture(rng, "TIFF"),
    "a.gif": lambda rng: picture(rng, "GIF"),
    "a.bmp": lambda rng: picture(rng, "BMP"),
    "a.npy": npy,
    "a.npz": npz,
    "a.h5": hdf5,
    "plain.h5": lambda rng: hdf5(rng, fletcher32=False),
    "a.safetensors": tensors,
    "a.tar": tar,
    "gnu.tar": lambda rng: tar(rng, tarfile.GNU_FORMAT),
    "a.zip": zipped,
    "a.avro": avro,
    "plain.avro": lambda rng: avro(rng, "null"),
    "xz.avro": lambda rng: avro(rng, "xz"),
    "a.seq": sequence_file,
    "record.seq": lambda rng: sequence_file(rng, "record"),
    "block.seq": lambda rng: sequence_file(rng, "block"),
    "a.txt.gz": lambda rng: gzip.compress(text(rng)),
    "two.txt.gz": lambda rng: gzip.compress(text(rng)) + gzip.compress(text(rng)) + bytes(100),
    "a.jsonl.zst": lambda rng: zstd(jsonl(rng)),
    "two.jsonl.zst": lambda rng: zstd(jsonl(rng)) + zstd(jsonl(rng)),
    "a.csv.bz2": lambda rng: bz2.compress(csv_table(rng)),
    "two.txt.bz2": lambda rng: bz2.compress(text(rng)) + bz2.compress(text(rng)),
    "a.tar.xz": lambda rng: lzma.compress(tar(rng)),
    "a.tgz": lambda rng: gzip.compress(tar(rng)),
    "a.tfrecord.lz4": lambda rng: lz4.frame.compress(tfrecord(rng), content_checksum=True),
    "hadoop.txt.lz4": hadoop_lz4,
    "part-00000.tfrecord-00001-of-00010": tfrecord,
}


def make(name: str, seed: int) -> bytes:
    """The good file of this name."""
    return GOOD[name](random.Random(seed))
