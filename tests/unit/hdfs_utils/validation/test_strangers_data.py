"""Files as other programs write them: each kind with instances of its own, and with neighbours that
stay what they are."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
from typing import Any

import pytest

from hdfs_utils.validation.engine import CheckOptions, check_file
from hdfs_utils.validation.findings import FileReport
from tests.fakes.files import MemoryFiles

CLEAN, CORRUPT, NOT_CHECKED = "clean", "corrupt", "not checked"


def report(name: str, data: bytes) -> FileReport:
    files = MemoryFiles()
    with files.open_writer(f"/{name}") as out:
        out.write(data)
    return check_file(files, files.stat(f"/{name}"), CheckOptions())


def verdict(name: str, data: bytes) -> str:
    return str(report(name, data).verdict.value)


def tar(*names: str, content: bytes = b"x") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def npy(header: str, data: bytes) -> bytes:
    text = header.encode("latin-1").ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def one_array(count: int = 2) -> bytes:
    return npy(
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count},), }}", bytes(4 * count)
    )


PYTHON_2 = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }"
BOM = "\ufeff".encode()

TEXTS = [
    ("train.json", b'{"a": 1}\n{"a": 2}\n', CLEAN),
    ("train.json", b"[1, 2]\n[3]\n", CLEAN),
    ("train.json", b'{"a": 1}\r\n{"a": 2}', CLEAN),
    ("train.json", b'{"a": 1}\n{"a": \n', CORRUPT),
    ("train.json", b'{"a": 1} {"a": 2}', CORRUPT),
    ("train.json", b'{"a": 1}', CLEAN),
    ("a.jsonl", BOM + b'{"a": 1}\n{"a": 2}\n', CLEAN),
    ("a.json", BOM + b'{"a": 1}', CLEAN),
    ("a.json", BOM + b'{"a": 1}\n{"a": 2}\n', CLEAN),
    ("a.jsonl", b'{"a": 1}\n' + BOM + b'{"a": 2}\n', CORRUPT),
    ("euro.csv", b"name;price\nx;1,5\ny;2\n", CLEAN),
    ("pipes.csv", b"a|b|c\n1|2|3,3\n", CLEAN),
    ("tabs.csv", b"a\tb\n1\t2,5\n", CLEAN),
    ("quoted.csv", b'"a, b";c\n"x, y";2\n', CLEAN),
    ("plain.csv", b"a,b\n1,2\n", CLEAN),
    ("one.csv", b"a\n1\n2\n", CLEAN),
    ("short.csv", b"a,b\n1\n", CORRUPT),
    ("short.csv", b"a;b\n1;2;3\n", CORRUPT),
]


@pytest.mark.parametrize(("name", "data", "expected"), TEXTS)
def test_text(name: str, data: bytes, expected: str) -> None:
    assert verdict(name, data) == expected


def test_own_limits_are_no_damage() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert verdict("deep.json", deep) == NOT_CHECKED
    assert verdict("deep.jsonl", deep + b"\n") == NOT_CHECKED


ARRAYS = [
    (npy(PYTHON_2 % "(2L,)", bytes(8)), CLEAN),
    (npy(PYTHON_2 % "(2L, 3L)", bytes(24)), CLEAN),
    (npy(PYTHON_2 % "()", bytes(4)), CLEAN),
    (one_array() + one_array(3), CLEAN),
    (one_array() * 5, CLEAN),
    (one_array() + one_array(3)[:-1], CORRUPT),
    (one_array() + b"more", CORRUPT),
    (npy(PYTHON_2 % "(2LL,)", bytes(8)), CORRUPT),
    (one_array(), CLEAN),
]


@pytest.mark.parametrize(("data", "expected"), ARRAYS)
def test_arrays(data: bytes, expected: str) -> None:
    pytest.importorskip("numpy")
    assert verdict("a.npy", data) == expected


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, lzma.compress])
def test_a_tar_is_seen_by_its_content(packed: Any) -> None:
    found = report("shard.tar", packed(tar("a.json", "a.txt", content=b"{}")))
    assert found.verdict.value == CLEAN
    assert any("its name does not say" in one.message for one in found.findings)
    assert verdict("shard.tar", packed(tar("a.txt"))[:-9]) == CORRUPT


def test_a_member_whose_name_begins_as_a_codec_does_is_a_member() -> None:
    assert verdict("shard.tar", tar("BZhello.txt")) == CLEAN
    assert verdict("shard.tar", b"no tar at all" * 90) == CORRUPT


@pytest.mark.parametrize(
    ("names", "is_apart"),
    [
        (("0.txt", "1.txt", "0.cls"), True),
        (("d/a.txt", "d/b.txt", "d/a.seg.txt"), True),
        (("x.txt", "y.txt", "z.txt", "y.cls", "x.cls"), True),
        (("0.txt", "0.cls", "1.txt", "1.cls"), False),
        (("d/0.txt", "e/0.txt"), False),
        (("README", "LICENSE", "README2"), False),
    ],
)
def test_a_sample_whose_parts_are_apart_is_noted(names: tuple[str, ...], is_apart: bool) -> None:
    found = report("shard.tar", tar(*names))
    assert found.verdict.value == CLEAN
    assert any("sample" in one.message for one in found.findings) is is_apart


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(40), NOT_CHECKED),
        (b"\0\0\0\x1cftypavif" + bytes(40), NOT_CHECKED),
        (b"P6\n1 1\n255\nabc", NOT_CHECKED),
        (b"8BPS\0\x01" + bytes(40), NOT_CHECKED),
        (b"<html>404</html>", CORRUPT),
        (bytes(64), CORRUPT),
    ],
)
def test_an_image_of_another_kind_is_not_checked(data: bytes, expected: str) -> None:
    pytest.importorskip("PIL")
    assert verdict("crawl.jpg", data) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "int", "logicalType": "date"}, 10**7),
        ({"type": "long", "logicalType": "timestamp-micros"}, 2**62),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x7f\xff\xff"),
    ],
)
def test_avro_holds_values_that_python_cannot_show(kind: dict[str, Any], value: Any) -> None:
    fastavro = pytest.importorskip("fastavro")
    plain = {"type": "record", "name": "R", "fields": [{"name": "d", "type": kind["type"]}]}
    shown = {"type": "record", "name": "R", "fields": [{"name": "d", "type": kind}]}
    record, out = io.BytesIO(), io.BytesIO()
    fastavro.schemaless_writer(record, plain, {"d": value})
    fastavro.writer(out, shown, [])
    data, mark = out.getvalue(), out.getvalue()[-16:]
    block = bytes([2, 2 * len(record.getvalue())]) + record.getvalue() + mark
    assert verdict("far.avro", data + block) == CLEAN
    assert verdict("far.avro", data + block[:-17] + mark) == CORRUPT


def test_without_logical_types_a_schema_is_what_is_written() -> None:
    from hdfs_utils.validation.formats.hadoop_files import _without_logical_types

    schema = {
        "type": "record", "name": "R",
        "fields": [
            {"name": "d", "type": {"type": "int", "logicalType": "date"}},
            {"name": "p", "type": ["null", {"type": "bytes", "logicalType": "decimal",
                                            "precision": 2}]},
        ],
    }  # fmt: skip
    assert "logicalType" not in json.dumps(_without_logical_types(schema))
    assert _without_logical_types("string") == "string"


def test_an_hdf5_that_its_writer_has_not_closed_is_corrupt() -> None:
    h5py = pytest.importorskip("h5py")
    out = io.BytesIO()
    with h5py.File(out, "w", libver="latest") as file:
        file["x"] = [1, 2, 3]
    closed = bytearray(out.getvalue())
    assert verdict("a.h5", bytes(closed)) == CLEAN
    for flags in (0x01, 0x05):
        closed[11] = flags
        found = report("a.h5", bytes(closed))
        assert found.verdict.value == CORRUPT
        assert "has not closed it" in found.findings[0].message


def test_a_wide_window_of_zstd_is_no_damage() -> None:
    zstandard = pytest.importorskip("zstandard")
    for log in (28, 31):
        parameters = zstandard.ZstdCompressionParameters(window_log=log, enable_ldm=True)
        packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        data = packer.compress(b'{"a": 1}\n') + packer.flush()
        assert verdict("a.jsonl.zst", data) in {CLEAN, NOT_CHECKED}
