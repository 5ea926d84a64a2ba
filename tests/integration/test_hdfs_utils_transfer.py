"""Transfers on a real HDFS: kill -9, resuming, flipped bytes, odd names, quotas, viewfs."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hdfs_utils
from hdfs_utils import FileSystem, transfer
from hdfs_utils.backends.native import NativeFileSystem, NativeReader, NativeWriter
from hdfs_utils.errors import CorruptData, PermissionDenied, QuotaExceeded
from hdfs_utils.transfer import Options
from hdfs_utils.transfer.replica_locality import replica_locality
from hdfs_utils.transfer.staging_dir import SUFFIX
from hdfs_utils.transfer.tar_shards import pack_shards

pytestmark = pytest.mark.hdfs

MIB = 1 << 20
LOCAL = hdfs_utils.connect("file:///")


@pytest.fixture(scope="module")
def fs(cluster_env: dict[str, str]) -> FileSystem:
    return hdfs_utils.connect(conf_dir=cluster_env["HADOOP_CONF_DIR"], backend="native")


@pytest.fixture
def home(fs: FileSystem, unique_name: Callable[[str], str]) -> Iterator[str]:
    directory = f"/tmp/{unique_name('transfer')}"
    fs.mkdirs(directory)
    yield directory
    fs.delete(directory, recursive=True)


def make_tree(root: Path, files: int = 30, size: int = 5000, seed: int = 1) -> Path:
    dice = random.Random(seed)
    for number in range(files):
        path = root / f"d{number % 3}" / f"file {number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dice.randbytes(dice.randrange(size)))
    return root


def visible(fs: FileSystem, path: str) -> list[str]:
    return [s.path for s in fs.list(path) if not s.path.rpartition("/")[2].startswith(".")]


def hidden(fs: FileSystem, path: str) -> list[str]:
    return [s.path for s in fs.list(path) if s.path.endswith(SUFFIX)]


def test_odd_names_empty_files_and_directories(fs: FileSystem, home: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("a b", "100%", "%41", ".dot", "new\nline", "ünï/cødé", "*?[x]", "a+b&c=d;e#f"):
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    (tree / "zero").touch()
    (tree / "empty" / "below").mkdir(parents=True)
    (tree / "link").symlink_to("zero")
    done = transfer.put_tree(fs, tree, f"{home}/tree", options=Options(manifest=True))
    assert done.files == 10
    assert done.verified == 8  # empty files have no bytes to ask for
    back = tmp_path / "back"
    transfer.get_tree(fs, f"{home}/tree", back, options=Options(verify="full"))
    for name in (transfer.SUCCESS, transfer.MANIFEST):
        (back / name).unlink()
    assert transfer.sha256_tree(back) == transfer.sha256_tree(tree)
    assert transfer.compare(LOCAL, str(tree), fs, f"{home}/tree").differences == ()
    assert hidden(fs, home) == []


@pytest.mark.long
def test_many_small_files(fs: FileSystem, home: str, tmp_path: Path) -> None:
    """More than the threads that send them, again and again: each time a client, a crew and its
    threads go. By coroutines one time in dozens stood still for ever."""
    tree = make_tree(tmp_path / "tree", files=400)
    for number in range(8):
        assert transfer.put_tree(fs, tree, f"{home}/tree-{number}").files == 400
    assert transfer.compare(LOCAL, str(tree), fs, f"{home}/tree-7").differences == ()


def test_a_large_file_goes_in_parts(fs: FileSystem, home: str, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(9 * MIB + 12345))
    for number, streams in enumerate((1, 3)):
        options = Options(part=2 * MIB, streams=streams)
        done = transfer.copy(
            LOCAL,
            str(tmp_path / "large"),
            fs,
            f"{home}/large{number}",
            options,
        )
        assert (done.files, done.verified) == (1, 1)
        back = tmp_path / f"back{number}"
        transfer.get_tree(fs, f"{home}/large{number}", back, options=options)
        assert back.read_bytes() == (tmp_path / "large").read_bytes()
    assert hidden(fs, home) == []


class FlippingWriter(NativeWriter):
    """Flips a bit of what it is given, after whoever computes checksums has seen it."""

    def write(self, data: Any, /) -> int:
        broken = bytearray(data)
        if broken and random.Random(len(broken)).random() < 0.3:
            broken[len(broken) // 2] ^= 0x10
        return super().write(bytes(broken))


class FlippingReader(NativeReader):
    def read(self, size: int | None = -1, /) -> bytes:
        broken = bytearray(super().read(size))
        if broken:
            broken[-1] ^= 1
        return bytes(broken)


class Flipping(NativeFileSystem):
    """The real file system with a bad cable to it."""

    def __init__(self, inner: NativeFileSystem, *, reads: bool) -> None:
        self.__dict__.update(vars(inner))
        self._reads = reads

    def open_writer(self, *arguments: Any, **named: Any) -> Any:
        writer = super().open_writer(*arguments, **named)
        if not self._reads and "/tree" in arguments[0]:
            writer.__class__ = FlippingWriter
        return writer

    def open_reader(self, path: str) -> Any:
        reader = super().open_reader(path)
        if self._reads:
            reader.__class__ = FlippingReader
        return reader


def test_a_flipped_byte_on_the_way_is_found(fs: FileSystem, home: str, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    assert isinstance(fs, NativeFileSystem)
    with pytest.raises(CorruptData, match="twice"):
        transfer.put_tree(Flipping(fs, reads=False), tree, f"{home}/t", options=Options())
    assert visible(fs, home) == []
    transfer.put_tree(fs, tree, f"{home}/t")
    with pytest.raises(CorruptData, match="twice"):
        transfer.get_tree(
            Flipping(fs, reads=True), f"{home}/t", tmp_path / "b", options=Options(verify="full")
        )
    assert not (tmp_path / "b").exists()


def test_permission_and_quota_leave_the_target_as_it_was(
    fs: FileSystem, home: str, tmp_path: Path, cluster_env: dict[str, str]
) -> None:
    tree = make_tree(tmp_path / "tree")
    fs.mkdirs(f"{home}/small")
    quota = ["hdfs", "dfsadmin", "-setQuota", "12", f"{home}/small"]
    subprocess.run(quota, env=cluster_env, check=True, capture_output=True)
    with pytest.raises(QuotaExceeded):
        transfer.put_tree(fs, tree, f"{home}/small/tree")
    assert fs.list(f"{home}/small") == []
    code = """
        import sys, hdfs_utils
        from hdfs_utils import transfer
        from hdfs_utils.errors import PermissionDenied
        try:
            transfer.put_tree(hdfs_utils.connect(user="stranger"), sys.argv[1], sys.argv[2])
        except PermissionDenied as error:
            print("denied", error)
    """
    done = run(code, cluster_env, str(tree), f"{home}/tree")
    assert done.stdout.startswith("denied")
    assert visible(fs, home) == [f"{home}/small"]
    assert PermissionDenied.retriable is False


def test_sync_sends_what_differs(fs: FileSystem, home: str, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", files=8)

    def sync(**named: bool) -> transfer.SyncResult:
        return transfer.sync(LOCAL, str(tree), fs, f"{home}/t", **named)

    assert len(sync().sent) == 8
    assert sync().sent == ()
    os.utime(tree / "d0" / "file 0", (1, 1))
    assert sync(by_checksum=True).sent == ()
    assert sync().sent == ("d0/file 0",)
    (tree / "d1" / "file 1").write_bytes(b"new")
    (tree / "d1" / "file 4").unlink()
    (tree / "d9").mkdir()
    told = sync(delete=True, dry_run=True)
    assert (told.sent, told.deleted) == (("d1/file 1",), ("d1/file 4",))
    assert fs.exists(f"{home}/t/d1/file 4")
    sync(delete=True)
    assert not fs.exists(f"{home}/t/d1/file 4")
    assert fs.stat(f"{home}/t/d9").is_dir
    assert transfer.compare(LOCAL, str(tree), fs, f"{home}/t").differences == ()
    assert hidden(fs, home) == []


def run(code: str, env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in env.items() if k != "HADOOP_USER_NAME"}
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, env=clean, capture_output=True, text=True, timeout=120)


VICTIM = """
    import faulthandler, sys, hdfs_utils
    from hdfs_utils import transfer
    from hdfs_utils.transfer import Options
    faulthandler.dump_traceback_later(50, exit=True)
    local, fs = hdfs_utils.connect("file:///"), hdfs_utils.connect()
    what, source, target = sys.argv[1:]
    options = Options(overwrite=True, part=1 << 20, threads=2, journal_s=0.2)
    print("go", flush=True)
    if what == "put":
        done = transfer.copy(local, source, fs, target, options)
    elif what == "get":
        done = transfer.copy(fs, source, local, target, options)
    else:
        done = transfer.sync(local, source, fs, target, options)
    print("done", done.resumed, flush=True)
"""


def killed(env: dict[str, str], delay_s: float, *arguments: str) -> list[str]:
    command = [sys.executable, "-c", textwrap.dedent(VICTIM), *arguments]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        time.sleep(delay_s)
        process.kill()
        return lines + process.stdout.readlines()


@pytest.mark.chaos
@pytest.mark.parametrize("what", ["put", "get", "sync"])
def test_kill_9_leaves_the_old_whole_and_a_rerun_resumes(
    fs: FileSystem, home: str, tmp_path: Path, cluster_env: dict[str, str], what: str
) -> None:
    old, new = make_tree(tmp_path / "old", 4, seed=1), make_tree(tmp_path / "new", 60, seed=2)
    (new / "large").write_bytes(os.urandom(24 * MIB))
    hashes = [transfer.sha256_tree(old), transfer.sha256_tree(new)]
    source, target, state = str(new), f"{home}/t", tmp_path / "state"
    if what == "get":
        transfer.put_tree(fs, new, f"{home}/new")
        source, target = f"{home}/new", str(tmp_path / "t")
        transfer.copy(LOCAL, str(old), LOCAL, target)
    else:
        transfer.put_tree(fs, old, target)
    kept = []
    for delay_s in (0.01, 0.04, 0.15, 0.4, 0.7, 1.0):
        lines = killed(cluster_env, delay_s, what, source, target)
        if what == "get":
            seen = transfer.sha256_tree(target)
        else:
            transfer.copy(fs, target, LOCAL, str(state), Options(overwrite=True))
            seen = transfer.sha256_tree(state)
        if what == "sync":  # each file is the old or the new one
            assert_each_old_or_new(state, old, new)
        else:
            assert seen in hashes
        if lines[-1].startswith("done"):
            break
        kept.append(delay_s)
    done = run(VICTIM, cluster_env, what, source, target)
    assert done.returncode == 0, done.stderr
    place = Path(target) if what == "get" else state
    if what != "get":
        transfer.copy(fs, target, LOCAL, str(state), Options(overwrite=True))
    found = {p.relative_to(place): p.read_bytes() for p in place.rglob("*") if p.is_file()}
    assert all(found[p.relative_to(new)] == p.read_bytes() for p in new.rglob("*") if p.is_file())
    assert hidden(fs, home) == []
    assert not list(tmp_path.glob(f".*{SUFFIX}"))
    assert kept, "nothing was killed in the middle"


def assert_each_old_or_new(state: Path, old: Path, new: Path) -> None:
    for path in (p for p in state.rglob("*") if p.is_file()):
        relative = path.relative_to(state)
        allowed = [r / relative for r in (old, new)]
        assert path.read_bytes() in [p.read_bytes() for p in allowed if p.exists()]


@pytest.mark.chaos
def test_a_rerun_sends_finished_parts_only_once(
    fs: FileSystem, home: str, tmp_path: Path, cluster_env: dict[str, str]
) -> None:
    (tmp_path / "large").write_bytes(os.urandom(64 * MIB))
    arguments = ("put", str(tmp_path / "large"), f"{home}/large")
    for _ in range(6):
        lines = killed(cluster_env, 3.0, *arguments)
        if lines[-1].startswith("done") or any(
            "journal" in s.path and s.length for d in hidden(fs, home) for s in fs.walk(d)
        ):
            break
    done = run(VICTIM, cluster_env, *arguments)
    last = lines[-1] if lines[-1].startswith("done") else done.stdout.splitlines()[-1]
    if not lines[-1].startswith("done"):
        assert int(last.split()[1]) >= MIB
    assert fs.read_bytes(f"{home}/large") == (tmp_path / "large").read_bytes()


def test_shards_hold_every_file(fs: FileSystem, home: str, tmp_path: Path) -> None:
    import json
    import tarfile

    tree = tmp_path / "tree"
    for number in range(40):
        for ending in ("jpg", "json"):
            path = tree / f"{number:03}.{ending}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(os.urandom(2000))
    done = pack_shards(LOCAL, str(tree), fs, f"{home}/s", size=20_000)
    assert done.files == 80
    assert done.shards > 3
    index = [json.loads(line) for line in fs.read_bytes(f"{home}/s/index.jsonl").splitlines()]
    assert len(index) == 80
    for line in index[::7]:
        with fs.open_reader(f"{home}/s/{line['shard']}") as reader:
            reader.seek(line["offset"])
            assert reader.read(line["size"]) == (tree / line["path"]).read_bytes()
    seen = set()
    for status in fs.glob(f"{home}/s/*.tar"):
        with fs.open_reader(status.path) as reader, tarfile.open(fileobj=reader) as tar:  # type: ignore[arg-type]
            names = tar.getnames()
        assert {n.partition(".")[0] for n in names if n.endswith("jpg")} == {
            n.partition(".")[0] for n in names if n.endswith("json")
        }
        seen |= set(names)
    assert len(seen) == 80


def test_locality_names_nodes_and_racks(fs: FileSystem, home: str) -> None:
    fs.write_bytes(f"{home}/a", bytes(1000))
    fs.write_bytes(f"{home}/b", bytes(500))
    found = replica_locality(fs, home)
    assert (found.files, found.size) == (2, 1500)
    assert sum(size for _, size in found.racks) >= 1500
    assert all(rack.startswith("/") for rack, _ in found.racks)


def test_viewfs_paths_go_where_the_mounts_say(
    fs: FileSystem, home: str, tmp_path: Path, cluster_env: dict[str, str]
) -> None:
    conf = {
        "fs.defaultFS": "viewfs://table",
        "fs.viewfs.mounttable.table.link./data": f"{fs.uri}{home}",
        # The native client wants one; nothing below is on it.
        "fs.viewfs.mounttable.table.linkFallback": f"{fs.uri}/nowhere",
    }
    view = hdfs_utils.connect(conf_dir=cluster_env["HADOOP_CONF_DIR"], conf=conf)
    tree = make_tree(tmp_path / "tree", files=5)
    done = transfer.put_tree(view, tree, "/data/tree")
    assert done.verified >= 4
    assert sum(b.length for b in view.block_locations("/data/tree/d0/file 0")) > 0
    assert transfer.compare(fs, f"{home}/tree", view, "/data/tree").differences == ()
