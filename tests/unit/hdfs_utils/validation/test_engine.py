"""Many files: all that is broken is found, nothing else; what reading does is told apart."""

from __future__ import annotations

import io
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow.parquet as pq
import pytest

import hdfs_utils
from hdfs_utils.blacklist.quarantine import quarantine
from hdfs_utils.errors import CorruptData, PermissionDenied
from hdfs_utils.filesystem import FileStatus
from hdfs_utils.transfer import Options, put_tree
from hdfs_utils.transfer.tree_manifest import TreeManifests
from hdfs_utils.validation import (
    CheckOptions,
    Checks,
    FindingKind,
    Problem,
    Reason,
    Verdict,
    check_file,
    choose_sample,
    data_files,
    verify,
)
from hdfs_utils.validation.hdfs_blocks import BadBlock, parse_fsck
from hdfs_utils.validation.report_table import ParquetReport
from hdfs_utils.validation.user_checks import as_check, load
from tests.fakes.files import MemoryFiles
from tests.unit.hdfs_utils.validation.broken_dataset import WAYS, build
from tests.unit.hdfs_utils.validation.samples import make


def test_one_percent_broken_in_each_way_all_found_and_no_false_alarm() -> None:
    fs = MemoryFiles()
    assert len(WAYS) >= 12
    # 1 % of all files is broken in each way: 22 % of them in all.
    made = build(fs, "/data", clean_files=780, per_way=10)
    reports = list(verify(fs, data_files(fs, "/data"), CheckOptions(workers=4)))
    assert [r.path for r in reports] == sorted(made.files)
    found = {r.path for r in reports if r.verdict is Verdict.CORRUPT}
    missed = {path: way for path, way in made.broken.items() if path not in found}
    false = found - made.broken.keys()
    assert not missed
    assert not false
    assert not [r for r in reports if r.verdict is Verdict.NOT_CHECKED]


def test_reports_come_as_parquet(tmp_path: Path) -> None:
    fs = MemoryFiles()
    made = build(fs, "/data", clean_files=20, per_way=1)
    report = ParquetReport()
    report.add(verify(fs, data_files(fs, "/data")))
    report.write_local(tmp_path / "report.parquet")
    table = pq.read_table(tmp_path / "report.parquet").to_pylist()
    assert {row["path"] for row in table} == set(made.files)
    assert {row["path"] for row in table if row["verdict"] == "corrupt"} == made.broken.keys()
    wrong = [row for row in table if row["kind"] == "content"]
    assert all(row["reason"] and row["message"] for row in wrong)
    report.write(fs, "/out/report.parquet")
    assert fs.read_bytes("/out/report.parquet") == (tmp_path / "report.parquet").read_bytes()


def test_hidden_files_are_no_data() -> None:
    fs = MemoryFiles()
    for name in ("_SUCCESS", ".hidden/a.txt", "_temporary/b.txt", "c/d.txt", "e.txt"):
        fs.write_bytes(f"/d/{name}", b"x\n")
    assert [s.path for s in data_files(fs, "/d")] == ["/d/c/d.txt", "/d/e.txt"]
    assert [s.path for s in data_files(fs, "/d/e.txt")] == ["/d/e.txt"]


class _Fails(MemoryFiles):
    """Reading fails after the first bytes."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def open_reader(self, path: str):  # type: ignore[no-untyped-def]
        inner = super().open_reader(path)
        error = self.error
        size = inner.size

        class Failing(io.BytesIO):
            def __init__(self) -> None:
                super().__init__(inner.read())
                self.size = size

            def read(self, count: int | None = -1, /) -> bytes:
                wanted = size if count is None or count < 0 else count
                if self.tell() + wanted > 600:
                    raise error
                return super().read(wanted)

        return Failing()


@pytest.mark.parametrize(
    "name", ["a.parquet", "a.tfrecord", "a.png", "a.h5", "a.npz", "a.txt.gz", "a.orc", "a.avro"]
)
def test_bytes_that_hdfs_cannot_give_say_nothing_about_the_content(name: str) -> None:
    for error, verdict, reason in (
        (CorruptData("no good replica", path="/x"), Verdict.CORRUPT, Reason.BLOCK_CORRUPT),
        (PermissionDenied("not yours", path="/x"), Verdict.NOT_CHECKED, Reason.UNREADABLE),
    ):
        fs = _Fails(error)
        fs.write_bytes(f"/{name}", make(name, 1))
        report = check_file(fs, fs.stat(f"/{name}"))
        assert report.verdict is verdict
        assert not report.has_bad_content
        assert reason in {f.reason for f in report.findings}


def test_a_block_without_replica_is_known_without_reading() -> None:
    fs = MemoryFiles()
    fs.write_bytes("/d/a.txt", b"fine\n")
    fs.fail = lambda operation, _path: pytest.fail("read") if operation == "open" else None
    options = CheckOptions(bad_blocks={"/d/a.txt": "blk_1 has no good replica"})
    report = check_file(fs, FileStatus("/d/a.txt", 5, False, 1, "me", "us", 0o644, 1, 1), options)
    assert report.verdict is Verdict.CORRUPT
    assert not report.has_bad_content


def test_a_file_replaced_while_it_is_read_is_not_accused() -> None:
    fs = MemoryFiles()
    fs.write_bytes("/d/a.jsonl", b"not json\n")
    status = fs.stat("/d/a.jsonl")
    fs.write_bytes("/d/a.jsonl", b'{"new": 1}\nhalf', overwrite=True)
    report = check_file(fs, status)
    assert report.verdict is Verdict.NOT_CHECKED
    assert {f.reason for f in report.findings} == {Reason.CHANGED}


def test_a_file_that_is_gone_is_not_checked() -> None:
    fs = MemoryFiles()
    status = FileStatus("/gone.txt", 5, False, 1, "me", "us", 0o644, 1, 1)
    assert check_file(fs, status).verdict is Verdict.NOT_CHECKED


def test_the_sample_is_stable_and_grows_with_the_share() -> None:
    files = [FileStatus(f"/d/{n}", 1, False, 1, "me", "us", 0o644, 1, 1) for n in range(1000)]
    chosen = choose_sample(files, 0.05)
    assert len(chosen) == 50
    shuffled = random.Random(1).sample(files, len(files))
    assert choose_sample(shuffled, 0.05) == chosen
    assert {f.path for f in chosen} <= {f.path for f in choose_sample(files, 0.1)}
    assert choose_sample(files, 0.05, seed="other") != chosen
    assert len(choose_sample(files, 0.0001)) == 20
    assert choose_sample(files[:3], 0.5) == files[:3]


def sensor_check(file: BinaryIO, path: str) -> Iterator[Problem | str]:
    """An example of a user's own check: numbers that must rise."""
    before = -1
    for number, line in enumerate(file):
        if int(line) <= before:
            yield Problem(f"{int(line)} after {before}", record=number)
        before = int(line)


def test_a_users_own_check_by_name() -> None:
    fs = MemoryFiles()
    fs.write_bytes("/d/a.sensor", b"1\n2\n2\n3\n")
    fs.write_bytes("/d/b.sensor", b"1\n2\n3\n")
    fs.write_bytes("/d/c.sensor", b"1\nx\n")
    own = {".sensor": as_check(sensor_check)}
    reports = list(verify(fs, data_files(fs, "/d"), CheckOptions(Checks(own=own))))
    assert [r.verdict.value for r in reports] == ["corrupt", "clean", "corrupt"]
    assert reports[0].findings[0].record == 2
    assert "invalid literal" in reports[2].findings[0].message
    loaded = load("tests.unit.hdfs_utils.validation.test_engine:sensor_check")
    report = check_file(fs, fs.stat("/d/a.sensor"), CheckOptions(Checks(own={".sensor": loaded})))
    assert report.verdict is Verdict.CORRUPT
    for wrong in ("nothing", "no.such:thing", "os:nothing", "os:sep"):
        with pytest.raises(ValueError, match=r"module:function|load|function"):
            load(wrong)


def test_a_users_check_that_breaks_accuses_nobody() -> None:
    def broken(file: BinaryIO, path: str) -> None:
        raise ZeroDivisionError

    fs = MemoryFiles()
    fs.write_bytes("/d/a.mine", b"x")
    options = CheckOptions(Checks(own={".mine": as_check(broken)}))
    report = check_file(fs, fs.stat("/d/a.mine"), options)
    assert report.verdict is Verdict.NOT_CHECKED
    assert "ZeroDivisionError" in report.findings[0].message


def test_leaving_early_leaves_no_thread_behind(tmp_path: Path) -> None:
    fs = hdfs_utils.connect("file:///")
    for number in range(8):
        (tmp_path / f"{number}.txt").write_bytes(b"a line\n" * (3 << 20))
    before = threading.active_count()
    reports = verify(fs, data_files(fs, str(tmp_path)), CheckOptions(workers=2))
    next(reports)
    reports.close()
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before


def test_what_fsck_answers() -> None:
    listed = (
        "The list of corrupt files under path '/d' are:\n"
        "blk_1073741861\t1\t/d/part 1\nblk_-17\t/d/x\n"
        "The filesystem under path '/d' has 2 CORRUPT files\n"
    )
    assert parse_fsck(listed) == (
        BadBlock("blk_1073741861", "/d/part 1"),
        BadBlock("blk_-17", "/d/x"),
    )
    assert parse_fsck("The filesystem under path '/' has 0 CORRUPT files\n") == ()
    with pytest.raises(hdfs_utils.HdfsError, match="Access denied"):
        parse_fsck("Access denied for user you\n")


def test_a_finding_says_its_kind() -> None:
    fs = MemoryFiles()
    fs.write_bytes("/a.npy", make("a.npy", 1))
    report = check_file(fs, fs.stat("/a.npy"))
    assert {f.kind for f in report.findings} == {FindingKind.NOTE}
    assert report.verdict is Verdict.CLEAN


# ---- the manifest of a copied tree ---------------------------------------------------------------


def copied_tree(fs: MemoryFiles, folder: Path) -> None:
    (folder / "rows").mkdir()
    (folder / "rows" / "a.jsonl").write_text('{"text": "alpha"}\n')
    (folder / "rows" / "b.jsonl").write_text('{"text": "beta"}\n')
    (folder / "notes.xyz").write_text("of no format that is known")
    put_tree(fs, folder, "/data/t", options=Options(manifest=True))


def checked(fs: MemoryFiles, path: str) -> dict[str, Verdict]:
    options = CheckOptions(manifests=TreeManifests(fs))
    return {one.path: one.verdict for one in verify(fs, data_files(fs, path), options)}


@pytest.mark.parametrize("path", ["/data", "/data/t", "/data/t/rows", "/data/t/rows/a.jsonl"])
def test_a_flipped_letter_is_found_by_the_manifest_around_it(tmp_path: Path, path: str) -> None:
    fs = MemoryFiles()
    copied_tree(fs, tmp_path)
    assert set(checked(fs, path).values()) == {Verdict.CLEAN}
    fs.write_bytes("/data/t/rows/a.jsonl", b'{"text": "alphb"}\n', overwrite=True)
    assert checked(fs, path)["/data/t/rows/a.jsonl"] is Verdict.CORRUPT
    assert checked(fs, path).get("/data/t/rows/b.jsonl", Verdict.CLEAN) is not Verdict.CORRUPT


def test_what_is_listed_and_missing_is_named_and_what_is_hidden_is_not(tmp_path: Path) -> None:
    fs = MemoryFiles()
    copied_tree(fs, tmp_path)
    fs.delete("/data/t/rows/b.jsonl")
    manifests = TreeManifests(fs)
    list(verify(fs, data_files(fs, "/data/t"), CheckOptions(manifests=manifests)))
    assert list(manifests.unseen("/data/t")) == ["/data/t/rows/b.jsonl"]
    assert list(manifests.unseen("/data/t/rows/a.jsonl")) == []


def test_a_quarantined_file_is_not_missing(tmp_path: Path) -> None:
    fs = MemoryFiles()
    copied_tree(fs, tmp_path)
    quarantine(fs, fs.stat("/data/t/rows/b.jsonl"), reason="bad", by="me", at_s=1.0)
    manifests = TreeManifests(fs)
    list(verify(fs, data_files(fs, "/data/t"), CheckOptions(manifests=manifests)))
    assert list(manifests.unseen("/data/t")) == []
