"""One file checked in a process of its own."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import pytest

from hdfs_utils.errors import MalformedData
from hdfs_utils.validation.check_in_subprocess import (
    CheckOutcome,
    _packages,
    check_in_subprocess,
    not_checked,
    parse,
)
from hdfs_utils.validation.file_check_child import is_covered
from tests.unit.hdfs_utils.validation import samples


def look(path: Path, **options: object) -> CheckOutcome:
    return parse(check_in_subprocess(f"file://{path}", limit_s=60.0, **options))  # type: ignore[arg-type]


def test_clean_and_corrupt_files_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(samples.tfrecord(random.Random(1), [100] * 5))
    whole = look(path)
    assert (whole.verdict, whole.format, whole.is_covered) == ("clean", "tfrecord", True)
    data = bytearray(path.read_bytes())
    data[150] ^= 1
    path.write_bytes(data)
    bad = look(path)
    assert (bad.verdict, bad.reason) == ("corrupt", "bad-crc")
    assert "record 1" in bad.message
    status = path.stat()
    assert (bad.length, bad.mtime_ms) == (status.st_size, status.st_mtime_ns // 1_000_000)
    assert bad.checksum
    path.unlink()
    assert look(path).verdict == "gone"


def test_a_check_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x")
    began = time.monotonic()
    outcome = parse(check_in_subprocess(f"file://{tmp_path}/a.txt", limit_s=0.01))
    assert outcome.verdict == "not checked"
    assert "not done within 0.01 s" in outcome.message
    assert time.monotonic() - began < 30


def test_a_file_that_needs_too_much_memory_is_not_accused(tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "a.npz", a=np.zeros(1 << 20))
    assert look(tmp_path / "a.npz").verdict == "clean"
    pytest.importorskip("PIL")
    from PIL import Image

    Image.new("RGB", (6000, 6000)).save(tmp_path / "a.png")
    assert look(tmp_path / "a.png").verdict == "clean"
    small = look(tmp_path / "a.png", max_memory=64 << 20)
    assert (small.verdict, small.message) == ("not checked", "its check needs more than 64 MiB")


def test_another_interpreter_helps_out_where_a_library_is_missing(tmp_path: Path) -> None:
    """The first one is made to miss it; the second is the very same Python without that."""
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3]}), path)
    hidden = tmp_path / "hidden" / "pyarrow"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('hidden')")
    before = list(sys.path)
    sys.path.insert(0, str(hidden.parent))
    try:
        missing = look(path)
        other = look(path, python=[sys.executable])
    finally:
        sys.path[:] = before
    assert missing.verdict == "not checked"
    assert other.verdict == "clean", other


def test_a_module_in_the_working_directory_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where somebody stands in a directory of shared data; neither by this interpreter nor by
    another one."""
    here = tmp_path / "here"
    here.mkdir()
    for module in ("json", "random", "hdfs_utils", "pyarrow"):
        (here / f"{module}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    (tmp_path / "a.parquet").write_bytes(samples.make("a.parquet", 1))
    hidden = tmp_path / "hidden" / "pyarrow"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('hidden')")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", ":")
    monkeypatch.setattr(sys, "path", ["", str(here), str(hidden.parent), *sys.path])
    assert look(tmp_path / "a.parquet").reason == "needs-library"
    assert look(tmp_path / "a.parquet", python=[sys.executable]).verdict == "clean"
    assert not (tmp_path / "ran").exists()


def test_an_interpreter_that_is_none_is_not_checked(tmp_path: Path) -> None:
    (tmp_path / "a.snappy").write_bytes(b"abc")
    assert look(tmp_path / "a.snappy", python=["/no/such/python"]).verdict == "not checked"


def test_what_makes_no_sense_is_no_outcome() -> None:
    for text in ("", "[]", "{}", "null", '{"verdict": 3}'):
        with pytest.raises(MalformedData):
            parse(text)
    assert parse(not_checked("why")).message == "why"
    assert parse('{"verdict": "clean", "from the future": 1}').verdict == "clean"


def test_formats_whose_checksums_cover_all() -> None:
    covered = [name for name in ("tfrecord", "gzip+jsonl", "zip", "xz") if is_covered(name)]
    assert covered == ["tfrecord", "gzip+jsonl", "zip", "xz"]
    bare = ("jsonl", "parquet", "image", "tar", "npy", "", "own-format")
    assert [name for name in bare if is_covered(name)] == []


def test_the_package_is_found_from_another_interpreter() -> None:
    assert (Path(_packages()) / "hdfs_utils" / "__init__.py").exists()
