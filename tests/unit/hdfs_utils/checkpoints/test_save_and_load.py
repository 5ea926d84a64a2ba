"""Checkpoints: whole or not there, verified, and never the last one deleted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hdfs_utils import checkpoints
from hdfs_utils.checkpoints import MANIFEST, Checkpoint, Limits, Retention, SkippedCheckpoint
from hdfs_utils.errors import CorruptData, HdfsError, InvalidPath, Unavailable
from hdfs_utils.filesystem import FileSystem
from tests.fakes.files import MemoryFiles, fail_on

HOME = "/ckpt"
SHARD = "shard-00000-of-00001"
AT_ONCE = Limits(patience_s=0.0)


@pytest.fixture
def fs() -> MemoryFiles:
    return MemoryFiles()


def save(fs: MemoryFiles, step: int, keep: int = 3) -> checkpoints.Checkpoint:
    files = {"model": b"m%d" % step, "shards/0": b"s" * step}
    metadata = {"loss": 1 / (step + 1)}
    return checkpoints.save(HOME, step, files, metadata, keep, limits=AT_ONCE, fs=fs)


def steps(fs: MemoryFiles) -> list[int]:
    return [int(s.path.split("-")[1]) for s in fs.list(HOME) if "/step-" in s.path]


def overwrite(fs: MemoryFiles, path: str, data: bytes) -> None:
    fs.write_bytes(path, data, overwrite=True)


def test_what_was_saved_is_loaded(fs: MemoryFiles) -> None:
    saved = save(fs, 7)
    found = checkpoints.latest(HOME, fs=fs)
    assert found == saved
    assert (saved.step, saved.metadata) == (7, {"loss": 0.125})
    assert checkpoints.load(saved, fs=fs) == {"model": b"m7", "shards/0": b"s" * 7}
    assert checkpoints.load_latest(HOME, fs=fs) == (saved, {"model": b"m7", "shards/0": b"s" * 7})


def test_without_checkpoints_there_is_none(fs: MemoryFiles) -> None:
    assert checkpoints.latest(HOME, fs=fs) is None
    fs.mkdirs(HOME)
    fs.write_bytes(f"{HOME}/notes.txt", b"")
    fs.mkdirs(f"{HOME}/other")
    assert checkpoints.latest(HOME, fs=fs) is None


def test_the_highest_step_is_the_newest_and_of_one_step_the_later(fs: MemoryFiles) -> None:
    save(fs, 10)
    save(fs, 9)
    again = save(fs, 10)
    found = checkpoints.latest(HOME, fs=fs)
    assert found is not None
    assert found.path == again.path


def test_without_its_manifest_a_checkpoint_does_not_exist(fs: MemoryFiles) -> None:
    first, second = save(fs, 1), save(fs, 2)
    fs.delete(f"{second.path}/{MANIFEST}")
    skipped: list[SkippedCheckpoint] = []
    assert checkpoints.latest(HOME, fs=fs, report=skipped.append) == first
    assert [s.path for s in skipped] == [second.path]
    assert "manifest" in skipped[0].reason


@pytest.mark.parametrize(
    "damage", [lambda d: b"", lambda d: d[:-1], lambda d: b"M" + d[1:], lambda d: d + d]
)
def test_a_damaged_file_makes_it_torn(fs: MemoryFiles, damage: Callable[[bytes], bytes]) -> None:
    first, second = save(fs, 1), save(fs, 2)
    path = f"{second.path}/{SHARD}"
    overwrite(fs, path, damage(fs.read_bytes(path)))
    skipped: list[SkippedCheckpoint] = []
    assert checkpoints.latest(HOME, fs=fs, report=skipped.append) == first
    assert SHARD in skipped[0].reason
    with pytest.raises(CorruptData):
        checkpoints.load(second, fs=fs)


def test_a_missing_file_makes_it_torn(fs: MemoryFiles) -> None:
    first, second = save(fs, 1), save(fs, 2)
    fs.delete(f"{second.path}/{SHARD}")
    assert checkpoints.latest(HOME, fs=fs) == first


def test_a_damaged_manifest_makes_it_torn(
    fs: MemoryFiles, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = save(fs, 1), save(fs, 2)
    manifest = fs.read_bytes(f"{second.path}/{MANIFEST}")
    for data in (b"", b"{}", manifest[:-3], manifest.replace(b'"step": 2', b'"step": 3')):
        overwrite(fs, f"{second.path}/{MANIFEST}", data)
        with caplog.at_level(logging.WARNING):
            assert checkpoints.latest(HOME, fs=fs) == first
        assert second.path in caplog.text
        caplog.clear()


def test_a_file_system_that_does_not_answer_is_not_a_torn_checkpoint(fs: MemoryFiles) -> None:
    save(fs, 1)
    save(fs, 2)
    fs.fail = fail_on("open", Unavailable("down"))
    with pytest.raises(Unavailable):
        checkpoints.latest(HOME, fs=fs)


@pytest.mark.parametrize("operation", ["mkdirs", "create", "write", "close", "rename"])
def test_a_save_that_fails_leaves_the_one_before(fs: MemoryFiles, operation: str) -> None:
    first = save(fs, 1)
    fs.fail = fail_on(operation, Unavailable("down"))
    with pytest.raises(Unavailable):
        save(fs, 2)
    assert checkpoints.latest(HOME, fs=fs) == first
    assert steps(fs) == [1]


def test_retention_keeps_the_newest(fs: MemoryFiles) -> None:
    for step in range(1, 6):
        save(fs, step, keep=2)
    assert steps(fs) == [4, 5]
    for step in (6, 7):
        save(fs, step, keep=1)
    assert steps(fs) == [7]


def test_retention_counts_whole_ones_only_and_never_deletes_what_was_just_saved(
    fs: MemoryFiles,
) -> None:
    for step in (100, 200):
        save(fs, step, keep=3)
    torn = save(fs, 300, keep=3)
    fs.delete(f"{torn.path}/{MANIFEST}")
    saved = save(fs, 50, keep=1)
    assert steps(fs) == [50, 200, 300]
    assert fs.exists(saved.path)
    assert checkpoints.latest(HOME, fs=fs) is not None


def test_retention_clears_unfinished_saves_away(fs: MemoryFiles) -> None:
    torn = save(fs, 1)
    fs.delete(f"{torn.path}/{MANIFEST}")
    save(fs, 2)
    assert steps(fs) == [2]


def test_a_failing_retention_does_not_fail_the_save(
    fs: MemoryFiles, caplog: pytest.LogCaptureFixture
) -> None:
    save(fs, 1)
    fs.fail = fail_on("delete", HdfsError("no"), times=99)
    with caplog.at_level(logging.WARNING):
        second = save(fs, 2, keep=1)
    assert "not cleared away" in caplog.text
    assert checkpoints.latest(HOME, fs=fs) == second


def test_bad_arguments(fs: MemoryFiles) -> None:
    with pytest.raises(InvalidPath):
        checkpoints.save(f"hdfs://elsewhere{HOME}", 1, {"a": b""}, fs=fs)
    with pytest.raises(InvalidPath):
        checkpoints.latest(f"hdfs://elsewhere{HOME}", fs=fs)
    for keep, step in ((0, 1), (1, -1), (1, 10**10)):
        with pytest.raises(ValueError):
            checkpoints.save(HOME, step, {"a": b""}, keep=keep, fs=fs)
    for name in ("../a", "/a", "", "a/", "./a", "x/../a"):
        with pytest.raises(InvalidPath):
            checkpoints.save(HOME, 1, {name: b""}, fs=fs)
    with pytest.raises(ValueError):
        checkpoints.save(HOME, 1, {"a": b""}, {"loss": float("nan")}, fs=fs)
    assert checkpoints.latest(HOME, fs=fs) is None


def test_arrays(fs: MemoryFiles) -> None:
    arrays = {"w": np.arange(6.0).reshape(2, 3), "b": np.zeros(0, np.int8), "n": np.int64(4)}
    checkpoints.save_arrays(HOME, 3, arrays, {"epoch": 1}, fs=fs)
    found = checkpoints.load_arrays(HOME, fs=fs)
    assert found is not None
    checkpoint, loaded = found
    assert checkpoint.metadata == {"epoch": 1}
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].dtype == np.asarray(array).dtype
    with pytest.raises(TypeError, match="objects"):
        checkpoints.save_arrays(HOME, 4, {"w": np.array([object()])}, fs=fs)


def test_a_directory_is_enough(tmp_path: Path) -> None:
    directory = f"file://{tmp_path}/ckpt"
    saved = checkpoints.save(directory, 1, {"a": b"x" * 100})
    assert checkpoints.latest(directory) == saved
    assert checkpoints.load_arrays(f"file://{tmp_path}/none") is None


def test_pruning_reads_the_newest_and_keeps_the_one_before_a_torn_one(fs: MemoryFiles) -> None:
    saved = [save(fs, step, 9) for step in (1, 2, 3, 4)]
    shown = checkpoints.prune(HOME, Retention(1), delete=False, fs=fs)
    assert [one.goes for one in shown] == [False, True, True, True]
    assert not any(one.is_gone for one in shown)

    def verify(_fs: FileSystem, checkpoint: Checkpoint) -> None:
        if checkpoint.step == 4:
            raise CorruptData("a bit has turned on the disk")

    torn: list[SkippedCheckpoint] = []
    done = checkpoints.prune(HOME, Retention(1), verify=verify, fs=fs, report=torn.append)
    assert [(one.listing.name.step, one.is_gone, one.why) for one in done] == [
        (4, False, "torn"), (3, False, "one of the last 1"),
        (2, True, "not selected to keep"), (1, True, "not selected to keep"),
    ]  # fmt: skip
    assert [one.path for one in torn] == [saved[3].path]
    assert steps(fs) == [3, 4]


def test_a_reader_of_its_own_gets_the_newest_good_one(fs: MemoryFiles) -> None:
    saved = [save(fs, step, 9) for step in (1, 2, 3)]
    skipped: list[SkippedCheckpoint] = []

    def read(checkpoint: Checkpoint) -> int:
        if checkpoint.step == 3:
            raise CorruptData("not as it was saved")
        return checkpoint.step

    found = checkpoints.first_good(HOME, read, fs=fs, report=skipped.append)
    assert found == (saved[1], 2)
    assert [one.path for one in skipped] == [saved[2].path]
