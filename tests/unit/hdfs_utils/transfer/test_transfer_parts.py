"""Resuming, sweeping, progress lines and stuck workers, without a cluster."""

from __future__ import annotations

import io
import json
import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hdfs_utils import FileSystem, transfer
from hdfs_utils.backends.local import LocalFileSystem
from hdfs_utils.concurrency.worker_pool import WorkerPool
from hdfs_utils.errors import AlreadyExists, QuotaExceeded, Unavailable
from hdfs_utils.filesystem import Capabilities, TimeLimits, format_bytes
from hdfs_utils.protocols.checksums import crc32c
from hdfs_utils.transfer import Options
from hdfs_utils.transfer.file_copy import SmallFileWriter
from hdfs_utils.transfer.options import SENDING
from hdfs_utils.transfer.progress_bar import PlainProgress
from hdfs_utils.transfer.staging_dir import DEAD_S, StagingOwner
from hdfs_utils.transfer.tree_transfer import SETTLE_TOGETHER
from tests.fakes.files import MemoryFiles, fail_on

LOCAL = LocalFileSystem()


@pytest.fixture
def fs() -> MemoryFiles:
    files = MemoryFiles()
    files.limits = TimeLimits(outage_s=0.0)
    return files


def interrupted(fs: MemoryFiles, tree: Path, options: Options) -> str:
    """The hidden directory of a put that broke off at its end, and whose process is gone."""
    # The first gives the hidden directory its name.
    fs.fail = fail_on("rename", Unavailable("down"), times=9, after=1)
    with pytest.raises(Unavailable):
        transfer.copy(LOCAL, str(tree), fs, "/t", options)
    fs.fail = lambda _operation, _path: None
    (left,) = fs.list("/")
    die(fs, left.path)
    return left.path


def die(fs: FileSystem, left: str, **changes: str) -> None:
    """Its owner is a process of this machine that is gone."""
    name = f"{left}/{StagingOwner.this().name}"
    dead = replace(StagingOwner.this(), **{"start": "longago", **changes})
    fs.rename(name, f"{left}/{dead.name}")


def tree_of(root: Path) -> Path:
    (root / "tree").mkdir()
    for name in ("a", "b", "c"):
        (root / "tree" / name).write_bytes(name.encode() * 1500)
    return root / "tree"


def test_what_was_finished_is_not_sent_again(fs: MemoryFiles, tmp_path: Path) -> None:
    tree, options = tree_of(tmp_path), Options(part=4000)
    interrupted(fs, tree, options)
    (tree / "b").write_bytes(b"new" * 700)
    done = transfer.copy(LOCAL, str(tree), fs, "/t", options)
    assert done.resumed == 3000
    assert fs.read_bytes("/t/b") == b"new" * 700
    assert fs.read_bytes("/t/a") == b"a" * 1500
    assert [s.path for s in fs.list("/")] == ["/t"]


def test_parts_that_were_joined_are_only_renamed(fs: MemoryFiles, tmp_path: Path) -> None:
    tree, options = tree_of(tmp_path), Options(part=1000)
    interrupted(fs, tree, options)  # at the rename of the first file's joined parts
    assert transfer.copy(LOCAL, str(tree), fs, "/t", options).resumed == 1500
    assert transfer.compare(LOCAL, str(tree), fs, "/t").differences == ()


def test_a_torn_journal_counts_as_none(fs: MemoryFiles, tmp_path: Path) -> None:
    tree, options = tree_of(tmp_path), Options(part=1000)
    left = interrupted(fs, tree, options)
    for segment in fs.list(f"{left}/journal"):
        data = fs.read_bytes(segment.path)
        fs.write_bytes(segment.path, data[:-4], overwrite=True)
    done = transfer.copy(LOCAL, str(tree), fs, "/t", options)
    assert done.resumed == 0
    assert transfer.compare(LOCAL, str(tree), fs, "/t").differences == ()


def test_a_journal_that_is_none_is_warned_of(
    fs: MemoryFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody has written it on purpose: its checksum is right."""
    tree, options = tree_of(tmp_path), Options(part=1000)
    left = interrupted(fs, tree, options)
    body = b'["a"]\n'
    for segment in fs.list(f"{left}/journal"):
        fs.write_bytes(segment.path, body + b"%08x\n" % crc32c(body), overwrite=True)
    assert transfer.copy(LOCAL, str(tree), fs, "/t", options).resumed == 0
    assert "/journal/" in caplog.text
    assert "is not believed" in caplog.text


@pytest.mark.parametrize("change", ["owner", "mode"])
def test_what_others_could_have_planted_is_left_alone(
    fs: MemoryFiles, tmp_path: Path, change: str
) -> None:
    """The name of the directory can be foretold, and anybody may make it in a place like /tmp."""
    tree, options = tree_of(tmp_path), Options(part=4000)
    left = interrupted(fs, tree, options)
    fs.write_bytes(f"{left}/tree/a", b"planted" * 300, overwrite=True)
    if change == "owner":
        fs.chown(left, "mallory")
    else:
        fs.chmod(left, 0o777)
    done = transfer.copy(LOCAL, str(tree), fs, "/t", options)
    assert done.resumed == 0
    assert fs.read_bytes("/t/a") == b"a" * 1500


def test_a_planted_earlier_target_does_not_get_its_name(fs: MemoryFiles, tmp_path: Path) -> None:
    """Where an earlier target is moved aside to can be foretold too."""
    tree = tree_of(tmp_path)
    fs.mkdirs("/.t.replaced.tmp")
    fs.write_bytes("/.t.replaced.tmp/a", b"planted")
    fs.chown("/.t.replaced.tmp", "mallory")
    transfer.copy(LOCAL, str(tree), fs, "/t", Options())
    assert fs.read_bytes("/t/a") == b"a" * 1500
    fs.delete("/t", recursive=True)
    fs.chown("/.t.replaced.tmp", fs.stat("/").owner)
    with pytest.raises(AlreadyExists):  # its own is recovered, and not overwritten
        transfer.copy(LOCAL, str(tree), fs, "/t", Options())
    assert fs.read_bytes("/t/a") == b"planted"


def test_a_planted_link_is_not_followed(fs: MemoryFiles, tmp_path: Path) -> None:
    """To the local disk: every file of the tree leads to one of the victim's."""
    tree = tree_of(tmp_path)
    for number in range(SETTLE_TOGETHER):
        (tree / f"small-{number}").write_bytes(b"s")
    transfer.copy(LOCAL, str(tree), fs, "/t", Options())
    mine, target = tmp_path / "bashrc", tmp_path / "shared" / "t"
    mine.write_text("mine")
    target.parent.mkdir()
    seen: set[Path] = set()
    fs.fail = lambda _operation, _path: seen.update(target.parent.iterdir())
    transfer.copy(fs, "/t", LOCAL, str(target), Options(part=4000))
    fs.fail = lambda _operation, _path: None
    shutil.rmtree(target)
    planted = min((path for path in seen if path != target), key=lambda path: len(path.name))
    dead = replace(StagingOwner.this(), start="longago")
    (planted / dead.name).mkdir(parents=True)
    (planted / "tree").mkdir()
    for file in tree.iterdir():
        (planted / "tree" / file.name).symlink_to(mine)
    # With something finished an earlier run's directory is kept.
    line = json.dumps(["a", 1500, 0, 0]).encode() + b"\n"
    (planted / "journal").mkdir()
    (planted / "journal" / "00000000.jsonl").write_bytes(line + b"%08x\n" % crc32c(line))
    planted.chmod(0o777)
    transfer.copy(fs, "/t", LOCAL, str(target), Options(part=4000))
    assert mine.read_text() == "mine"
    assert (target / "b").read_bytes() == b"b" * 1500


def test_another_run_that_lives_is_left_alone(fs: MemoryFiles, tmp_path: Path) -> None:
    tree, options = tree_of(tmp_path), Options(part=1000)
    left = interrupted(fs, tree, options)
    dead = next(s.path for s in fs.list(left) if "/owner-" in s.path)
    fs.rename(dead, f"{left}/{StagingOwner.this().name}")
    assert transfer.copy(LOCAL, str(tree), fs, "/t", options).resumed == 0
    assert fs.exists(left)


def test_another_hosts_run_counts_as_dead_when_it_is_silent(
    fs: MemoryFiles, tmp_path: Path
) -> None:
    tree, options = tree_of(tmp_path), Options(part=1000)
    left = interrupted(fs, tree, options)
    dead = next(s.path for s in fs.list(left) if "/owner-" in s.path)
    fs.rename(dead, f"{left}/owner-1-2-3-another-host.example")
    fs.set_times(left, int(time.time() * 1000) - 60_000)
    assert transfer.copy(LOCAL, str(tree), fs, "/t", options).resumed == 0
    assert fs.exists(left)
    fs.delete("/t", recursive=True)
    fs.set_times(left, int((time.time() - DEAD_S - 60) * 1000))
    assert transfer.copy(LOCAL, str(tree), fs, "/t", options).resumed > 0
    assert not fs.exists(left)


def test_of_two_who_take_it_over_one_begins_afresh(fs: MemoryFiles, tmp_path: Path) -> None:
    tree, options = tree_of(tmp_path), Options(part=1000)
    left = interrupted(fs, tree, options)
    rename = fs.rename

    def too_late(src: str, dst: str, overwrite: bool = False) -> None:
        if "/owner-" in src:
            rename(src, f"{left}/owner-1-2-3-quicker.example")
        rename(src, dst, overwrite)

    fs.rename = too_late  # type: ignore[method-assign]
    assert transfer.copy(LOCAL, str(tree), fs, "/t", options).resumed == 0
    assert transfer.compare(LOCAL, str(tree), fs, "/t").differences == ()
    assert fs.exists(left)


def test_who_owns_it_is_in_a_name() -> None:
    assert StagingOwner.of(StagingOwner.this().name) == StagingOwner.this()
    assert StagingOwner.this().lives_here
    assert StagingOwner.of("owner-7-8-9-a-b.c") == StagingOwner(7, "8", "9", "a-b.c")
    assert StagingOwner.of("journal") is StagingOwner.of("owner-x-1-2-h") is None


def test_leftovers_of_the_dead_are_swept(fs: MemoryFiles, tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    interrupted(fs, tree, Options(part=1000))
    other = tmp_path / "other"
    other.write_bytes(b"x")
    transfer.copy(LOCAL, str(other), fs, "/t", Options())
    assert [s.path for s in fs.list("/")] == ["/t"]


def test_a_directory_set_aside_gets_its_name_back(fs: MemoryFiles, tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    transfer.put_tree(fs, tree, "/t")
    fs.rename("/t", "/.t.replaced.tmp")  # killed between the two renames
    fs.fail = fail_on("create", Unavailable("down"), times=99)
    with pytest.raises(Unavailable):
        transfer.copy(LOCAL, str(tree), fs, "/t", Options(overwrite=True, resume=False))
    assert [s.path for s in fs.list("/")] == ["/t"]


def test_a_large_get_resumes_by_what_the_disk_has(fs: MemoryFiles, tmp_path: Path) -> None:
    data = os.urandom(5000)
    fs.write_bytes("/large", data)
    options = Options(part=1000, threads=1)
    reads = [0]

    def fail(operation: str, _path: str) -> None:
        reads[0] += operation == "open"
        if operation == "open" and reads[0] > 3:
            raise Unavailable("down")

    fs.fail = fail
    with pytest.raises(Unavailable):
        transfer.copy(fs, "/large", LOCAL, str(tmp_path / "large"), options)
    fs.fail = lambda _operation, _path: None
    assert not (tmp_path / "large").exists()
    (left,) = tmp_path.iterdir()
    die(LOCAL, str(left))
    done = transfer.copy(fs, "/large", LOCAL, str(tmp_path / "large"), options)
    assert done.resumed == 3000
    assert (tmp_path / "large").read_bytes() == data


@pytest.mark.parametrize("was_rebooted", [False, True])
def test_a_get_of_small_files_resumes_unless_the_machine_went_down(
    fs: MemoryFiles, tmp_path: Path, was_rebooted: bool
) -> None:
    """Small files reach the disk together, at the end: after a crash of the machine some of what
    is finished may be empty, and their length might not show it."""
    for number in range(20):
        fs.write_bytes(f"/tree/{number:02}", b"%02d" % number * 50)
    fs.fail = fail_on("open", Unavailable("down"), times=9, after=15)
    options, goal = Options(part=2000, threads=1), tmp_path / "tree"
    with pytest.raises(Unavailable):
        transfer.copy(fs, "/tree", LOCAL, str(goal), options)
    fs.fail = lambda _operation, _path: None
    (left,) = tmp_path.iterdir()
    die(LOCAL, str(left), **({"boot": "anearlierone"} if was_rebooted else {}))
    if was_rebooted:
        (left / "tree" / "00").write_bytes(bytes(100))
    done = transfer.copy(fs, "/tree", LOCAL, str(goal), options)
    assert done.resumed == (0 if was_rebooted else 1500)
    assert transfer.compare(fs, "/tree", LOCAL, str(goal)).differences == ()


def test_small_files_are_on_the_disk_before_they_get_their_name(
    fs: MemoryFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        fs.write_bytes(f"/tree/d/{number:02}", b"x" * 50)
    goal, seen = tmp_path / "tree", []
    settle = LocalFileSystem.settle

    def settled(self: LocalFileSystem, path: str) -> None:
        settle(self, path)
        seen.append((goal.exists(), len(list(Path(path).rglob("*")))))

    monkeypatch.setattr(LocalFileSystem, "settle", settled)
    transfer.copy(fs, "/tree", LOCAL, str(goal), Options())
    assert seen == [(False, 21)]
    assert len(list((goal / "d").iterdir())) == 20


def test_plain_progress_has_files_bytes_rate_and_time_left() -> None:
    now = [0.0]
    stream = io.StringIO()
    plain = PlainProgress("put", stream, lambda: now[0])
    plain.begin(4, 400 << 20)
    for _ in range(2):
        now[0] += 5
        plain.add(100 << 20)
        plain.file_done()
    first, second = stream.getvalue().splitlines()
    assert first == "put: 100.0 MiB of 400.0 MiB, 0 of 4 files, 20.0 MiB/s, 15 s left"
    assert second == "put: 200.0 MiB of 400.0 MiB, 1 of 4 files, 20.0 MiB/s, 10 s left"
    assert [format_bytes(n) for n in (0, 1023, 1024, 1 << 40)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.0 TiB",
    ]


class SlowToComplete(MemoryFiles):
    """As HDFS by the native client: closing waits, and a busy DataNode refuses now and then."""

    capabilities = Capabilities(completes_slowly=True)


def test_many_small_files_with_refusals(fs: MemoryFiles, tmp_path: Path) -> None:
    tree = tmp_path / "many"
    tree.mkdir()
    for number in range(300):
        (tree / f"{number}").write_bytes(b"%d" % number)
    slow = SlowToComplete()
    refused: list[str] = []

    def busy(operation: str, path: str) -> None:
        if operation == "create" and path.endswith("7") and path not in refused:
            refused.append(path)
            raise Unavailable("too busy")

    slow.fail = busy
    done = transfer.copy(LOCAL, str(tree), slow, "/t", Options())
    assert (done.files, done.size) == (300, 10 + 90 * 2 + 200 * 3)
    assert slow.read_bytes("/t/297") == b"297"
    assert len(refused) == 30


def test_small_files_that_are_refused_for_good_end_the_transfer(
    fs: MemoryFiles, tmp_path: Path
) -> None:
    slow = SlowToComplete()
    slow.fail = fail_on("create", QuotaExceeded("full"), times=1000)
    with pytest.raises(QuotaExceeded):
        transfer.copy(LOCAL, str(tree_of(tmp_path)), slow, "/t", Options())
    assert not slow.exists("/t")


@pytest.mark.parametrize(
    ("size", "least", "most"),
    [(10, 2, SENDING), (30 << 20, 1, 1), (100 << 20, 1, 1)],
    ids=["many", "large", "larger than the limit"],
)
def test_what_is_being_sent_is_limited_by_number_and_by_bytes(
    size: int, least: int, most: int
) -> None:
    """Hundreds of threads with files of 4 MiB would be a gigabyte."""
    pool = WorkerPool(100)
    small = SmallFileWriter(MemoryFiles(), pool, None)
    lock, now, seen = threading.Lock(), [0], [0]

    def read() -> bytes:
        with lock:
            now[0] += 1
            seen[0] = max(seen[0], now[0])
        time.sleep(0.002)
        with lock:
            now[0] -= 1
        return b"x"

    pool.run(lambda number: small.write(f"/{number}", size, read), range(150))
    assert least <= seen[0] <= most
