"""Each format's check on good files, and on files broken in its own ways."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import random
import struct
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hdfs_utils.validation import (
    FORMATS,
    CheckOptions,
    Checks,
    FileReport,
    FindingKind,
    Reason,
    TextRules,
    Verdict,
    check_file,
    formats,
    registry,
)
from hdfs_utils.validation.registry import format_of
from hdfs_utils.validation.sandbox.decoder_pool import DecoderPool
from tests.fakes.files import MemoryFiles
from tests.unit.hdfs_utils.validation import samples
from tests.unit.hdfs_utils.validation.samples import GOOD, make


def check(name: str, data: bytes, options: CheckOptions | None = None) -> FileReport:
    fs = MemoryFiles()
    fs.write_bytes(f"/d/{name}", data)
    return check_file(fs, fs.stat(f"/d/{name}"), options)


def reasons(report: FileReport) -> set[Reason]:
    return {f.reason for f in report.findings if f.kind is FindingKind.CONTENT}


def text_rules(**rules: object) -> CheckOptions:
    return CheckOptions(Checks(TextRules(**rules)))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", GOOD)
def test_good_files_are_clean(name: str) -> None:
    for seed in (1, 2, 3):
        report = check(name, make(name, seed))
        assert report.verdict is Verdict.CLEAN, report.findings
        assert report.records > 0
        assert not {f.kind for f in report.findings} - {FindingKind.NOTE}


@pytest.mark.parametrize("name", GOOD)
def test_an_empty_file_is_corrupt_unless_allowed(name: str) -> None:
    assert reasons(check(name, b"")) == {Reason.EMPTY}
    assert check(name, b"", CheckOptions(Checks(allows_empty=True))).verdict is Verdict.CLEAN


@pytest.mark.parametrize("name", GOOD)
def test_zeros_are_no_data(name: str) -> None:
    """What is left of a file whose blocks were reserved but never written."""
    report = check(name, bytes(len(make(name, 1))))
    assert report.verdict is Verdict.CORRUPT, report


@pytest.mark.parametrize("name", GOOD)
def test_noise_is_no_data(name: str) -> None:
    noise = random.Random(7).randbytes(5000)
    assert check(name, noise).verdict is Verdict.CORRUPT


@pytest.mark.parametrize("name", [n for n in GOOD if not n.startswith(("part", "hadoop"))])
def test_the_format_is_told_by_the_bytes_where_they_tell(name: str) -> None:
    data = make(name, 1)
    by_name = format_of(name, b"", Checks())
    by_magic = format_of("part-00000", data[:512], Checks())
    assert by_magic in ("", by_name, by_name.partition("+")[0])


def test_every_format_says_what_it_protects() -> None:
    assert len(FORMATS) == 24
    assert all(known.protects for known in FORMATS.values())


def test_a_new_format_is_one_new_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sensor_files.py").write_text(
        "from hdfs_utils.validation.findings import Corrupt, Reason\n"
        "from hdfs_utils.validation.input_format import InputFormat\n"
        "def check_sensor(source, found):\n"
        "    if source.whole()[:4] != b'SNSR':\n"
        "        raise Corrupt(Reason.BAD_MAGIC, 'does not begin with SNSR', 0)\n"
        "FORMATS = (InputFormat('sensor', ('.sensor',), 'none', check_sensor),)\n"
    )
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    sensor = registry.discover()["sensor"]
    fs = MemoryFiles()
    fs.write_bytes("/a.sensor", b"SNSX")
    own = Checks(own={".sensor": sensor.check})  # type: ignore[dict-item]
    report = check_file(fs, fs.stat("/a.sensor"), CheckOptions(own))
    assert reasons(report) == {Reason.BAD_MAGIC}


def test_an_unknown_format_is_not_checked_and_never_clean() -> None:
    report = check("a.unheard-of", b"data")
    assert report.verdict is Verdict.NOT_CHECKED
    assert "--format" in report.findings[0].message


def test_the_user_may_name_the_format() -> None:
    data = make("a.tfrecord", 1)
    assert check("part-0", data).verdict is Verdict.NOT_CHECKED
    assert check("part-0", data, CheckOptions(format="tfrecord")).verdict is Verdict.CLEAN
    assert check("a.bin", gzip.compress(data), CheckOptions(format="gzip+tfrecord")).records == 20


def test_tfrecord_names_offset_and_record() -> None:
    data = bytearray(samples.tfrecord(random.Random(1), [100, 100, 100, 100]))
    second, fourth = 116 + 20, 3 * 116 + 4
    data[second] ^= 1
    data[fourth] ^= 1
    report = check("a.tfrecord", bytes(data))
    assert [(f.offset, f.record, f.reason) for f in report.findings] == [
        (116, 1, Reason.BAD_CRC),
        (348, 3, Reason.BAD_CRC),
    ]


@pytest.mark.parametrize(
    "sizes", [[5 << 20], [3 << 20, 10, 4 << 20, 7], [2097152 - 16, 1, 2097140]]
)
def test_tfrecords_longer_than_a_piece(sizes: list[int]) -> None:
    good = samples.tfrecord(random.Random(1), sizes)
    assert check("a.tfrecord", good).records == len(sizes)
    for cut in (1, 3, 4, 5, 100):
        assert reasons(check("a.tfrecord", good[:-cut])) == {Reason.TRUNCATED}
    rng = random.Random(2)
    for _ in range(10):
        broken = bytearray(good)
        broken[rng.randrange(len(good))] ^= 1 << rng.randrange(8)
        assert reasons(check("a.tfrecord", bytes(broken))) & {Reason.BAD_CRC, Reason.TRUNCATED}


def test_a_file_with_very_many_faults_is_not_listed_for_ever() -> None:
    line = b"not json\n"
    report = check("a.jsonl", line * 10_000)
    assert len(report.findings) == 101
    assert report.verdict is Verdict.CORRUPT


def test_a_half_written_parquet_file_has_no_footer() -> None:
    data = make("a.parquet", 1)
    report = check("a.parquet", data[: len(data) // 2])
    assert reasons(report) == {Reason.TRUNCATED}
    assert "does not end with PAR1" in report.findings[0].message


def test_parquet_names_row_group_and_column() -> None:
    data = bytearray(make("a.parquet", 1))
    at = data.find(b"PAR1") + 200
    data[at] ^= 0x10
    report = check("a.parquet", bytes(data))
    assert reasons(report) == {Reason.BAD_CRC}
    finding = report.findings[0]
    assert (finding.record, finding.offset) == (0, 4)
    assert "column id" in finding.message


def test_a_damaged_gzip_is_not_blamed_on_what_is_inside() -> None:
    data = bytearray(make("a.txt.gz", 1))
    report = check("a.txt.gz", bytes(data[:-20]))
    assert [f.member for f in report.findings] == [""]
    assert reasons(report) == {Reason.TRUNCATED}
    assert reasons(check("a.txt.gz", make("a.txt.gz", 1) + b"junk")) == {Reason.TRAILING_DATA}
    data[-5] ^= 1
    assert reasons(check("a.txt.gz", bytes(data))) == {Reason.BAD_CRC}


def test_a_fault_inside_a_good_gzip_is_blamed_on_what_is_inside() -> None:
    report = check("a.jsonl.gz", gzip.compress(b'{"a": 1}\n{"a": \n{"a": 2}\n'))
    assert [(f.member, f.record, f.reason) for f in report.findings] == [
        ("decompressed", 1, Reason.BAD_DATA)
    ]


def test_a_member_of_a_tar_is_named() -> None:
    out = io.BytesIO()
    good, bad = make("a.png", 1), bytearray(make("a.png", 1))
    bad[300] ^= 1
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in {"1.png": good, "2.png": bytes(bad), "3.png": good}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    report = check("a.tar", out.getvalue())
    bad_ones = [f for f in report.findings if f.kind is FindingKind.CONTENT]
    assert [(f.member, f.reason) for f in bad_ones] == [("2.png", Reason.BAD_CRC)]
    assert report.records == 3


def test_tar_without_its_end_is_cut() -> None:
    data = make("a.tar", 1)
    end = len(data.rstrip(b"\0")) + 511 & ~511
    assert reasons(check("a.tar", data[:end])) == {Reason.TRUNCATED}
    assert reasons(check("a.tar", data[: end + 512])) == {Reason.TRUNCATED}
    assert check("a.tar", data[: end + 1024]).verdict is Verdict.CLEAN
    assert reasons(check("a.tar", data[: end + 1024] + b"x")) == {Reason.TRAILING_DATA}


def test_a_picture_under_another_name_is_noted_not_condemned() -> None:
    report = check("a.jpg", make("a.png", 1))
    assert report.verdict is Verdict.CLEAN
    assert "it is PNG" in report.findings[0].message


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": 1, "x": 0.5', Reason.BAD_DATA),
        (b'{"id": "1", "x": 0.5}', Reason.BAD_SCHEMA),
        (b'{"x": 0.5}', Reason.BAD_SCHEMA),
        (b"[1, 2]", Reason.BAD_SCHEMA),
        (b'{"id": 1, "x": 0.5, "t": "\xff"}', Reason.BAD_ENCODING),
        (b"\0\0\0\0", Reason.BAD_DATA),
    ],
)
def test_json_lines(line: bytes, reason: Reason) -> None:
    options = text_rules(schema={"id": "integer", "x": "number"})
    good = b'{"id": 7, "x": 1}\n'
    report = check("a.jsonl", good + line + b"\n" + good, options)
    assert reasons(report) == {reason}
    assert report.findings[0].record == 1
    assert report.findings[0].offset in (len(good), len(good) + line.find(b"\xff"))


def test_json_lines_cut_in_the_last_line_and_blank_lines() -> None:
    assert reasons(check("a.jsonl", b'{"a": 1}\n{"a": 2')) == {Reason.TRUNCATED}
    assert check("a.jsonl", b'{"a": 1}\n\n{"a": 2}').verdict is Verdict.CLEAN


@pytest.mark.parametrize(
    ("rows", "reason", "record"),
    [
        (b"1,2,3\n4,5\n", Reason.BAD_COLUMNS, 2),
        (b'1,2,"3\n', Reason.TRUNCATED, 1),
        (b"1,2,\xe9\n", Reason.BAD_ENCODING, 1),
        (b"1,2,3\n1,\0,3\n", Reason.BAD_ENCODING, 2),
        (b"1,2,3\nx,2,3\n", Reason.BAD_SCHEMA, 2),
        (b'1,"2"x,3\n', Reason.BAD_DATA, 1),
    ],
)
def test_csv(rows: bytes, reason: Reason, record: int) -> None:
    report = check("a.csv", b"a,b,c\n" + rows, text_rules(schema={"a": "integer"}))
    assert reasons(report) == {reason}
    assert report.findings[0].record == record


def test_csv_with_line_breaks_in_cells_and_a_fixed_number_of_columns() -> None:
    assert check("a.csv", b'a,b\n1,"two\nlines"\n').records == 2
    assert reasons(check("a.csv", b"a,b\n1,2\n", text_rules(columns=3))) == {Reason.BAD_COLUMNS}
    assert reasons(check("a.csv", b"a,b\n", text_rules(schema={"z": "any"}))) == {Reason.BAD_SCHEMA}


def test_other_encodings_than_utf8() -> None:
    data = "Zürich\n".encode("latin-1")
    assert reasons(check("a.txt", data)) == {Reason.BAD_ENCODING}
    assert check("a.txt", data, text_rules(encoding="latin-1")).verdict is Verdict.CLEAN
    wide = "日本\n".encode("utf-16")
    assert check("a.txt", wide, text_rules(encoding="utf-16")).verdict is Verdict.CLEAN
    assert reasons(check("a.txt", wide[:-1], text_rules(encoding="utf-16"))) == {Reason.TRUNCATED}


def test_a_bad_character_is_found_at_its_place_across_pieces() -> None:
    good = "ä\n".encode() * (1 << 20)
    for at in (5, 2097151, 2097152, 3_000_000):
        report = check("a.txt", good[:at] + b"\xff" + good[at:])
        finding = next(f for f in report.findings if f.reason is Reason.BAD_ENCODING)
        assert finding.offset in (at - 1, at)


def test_what_the_format_cannot_protect_is_said() -> None:
    for name in ("a.npy", "a.jpg", "a.orc", "a.rec", "a.safetensors", "plain.avro", "a.seq"):
        assert Reason.UNPROTECTED in {f.reason for f in check(name, make(name, 1)).findings}
    bare = samples.zstd(make("a.txt", 1), checksum=False)
    assert Reason.UNPROTECTED in {f.reason for f in check("a.txt.zst", bare).findings}


def test_npy_of_python_objects_is_not_unpickled() -> None:
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"cos\nsystem\n"
    assert check("a.npy", data).verdict is Verdict.NOT_CHECKED


def test_safetensors_with_a_gap_or_an_overlap() -> None:
    def made(*spans: tuple[int, int]) -> bytes:
        header = json.dumps(
            {
                str(n): {"dtype": "U8", "shape": [end - start], "data_offsets": [start, end]}
                for n, (start, end) in enumerate(spans)
            }
        ).encode()
        return struct.pack("<Q", len(header)) + header + bytes(10)

    assert check("a.safetensors", made((0, 4), (4, 10))).verdict is Verdict.CLEAN
    for spans in [((0, 4), (5, 10)), ((0, 5), (4, 10)), ((0, 4), (4, 9)), ((0, 4), (4, 11))]:
        assert check("a.safetensors", made(*spans)).verdict is Verdict.CORRUPT


def test_a_sequence_file_with_a_strange_sync_mark() -> None:
    data = make("a.seq", 1)
    header_end = data.index(b"\xff\xff\xff\xff")
    sync = data[header_end - 16 : header_end]
    at = data.index(sync, header_end + 20)
    broken = data[:at] + bytes(16) + data[at + 16 :]
    assert reasons(check("a.seq", broken)) == {Reason.BAD_STRUCTURE}
    assert check("old.seq", b"SEQ\x05" + data[4:]).verdict is Verdict.NOT_CHECKED


def test_bombs_do_not_fill_the_memory() -> None:
    import tracemalloc

    bomb = gzip.compress(bytes(64 << 20))
    twice = bz2.compress(bytes(64 << 20))
    for name, data in {"a.bin.gz": bomb, "b.bin.bz2": twice}.items():
        tracemalloc.start()
        assert check(name, data).verdict is Verdict.CLEAN
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 32 << 20


@pytest.fixture
def hide(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[[str], CheckOptions]]:
    """Options for checks without a library, in this process and in those that it starts."""
    pool = DecoderPool()

    def without(module: str) -> CheckOptions:
        (tmp_path / f"{module}.py").write_text("raise ImportError('hidden')")
        monkeypatch.syspath_prepend(tmp_path)
        for loaded in [m for m in sys.modules if m == module or m.startswith(f"{module}.")]:
            monkeypatch.setitem(sys.modules, loaded, None)
        monkeypatch.setitem(sys.modules, module, None)
        return CheckOptions(decoders=pool)

    yield without
    pool.close()


def test_the_plain_zlib_does_where_isal_is_missing(hide: Callable[[str], CheckOptions]) -> None:
    data, options = make("a.txt.gz", 1), hide("isal")
    assert check("a.txt.gz", data, options).verdict is Verdict.CLEAN
    assert check("a.txt.gz", data[:-1], options).verdict is Verdict.CORRUPT


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("a.tfrecord", "google_crc32c"),
        ("a.parquet", "pyarrow"),
        ("a.orc", "pyarrow"),
        ("a.png", "PIL"),
        ("a.npy", "numpy"),
        ("a.h5", "h5py"),
        ("a.avro", "fastavro"),
        ("a.jsonl.zst", "zstandard"),
        ("a.tfrecord.lz4", "lz4"),
    ],
)
def test_without_its_library_a_file_is_not_checked_and_never_clean(
    name: str, module: str, hide: Callable[[str], CheckOptions]
) -> None:
    report = check(name, make(name, 1), hide(module))
    assert report.verdict is Verdict.NOT_CHECKED
    needed = next(f for f in report.findings if f.reason is Reason.NEEDS_LIBRARY)
    assert "pip install 'yarnam[validate]'" in needed.message
