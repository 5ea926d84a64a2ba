"""Files brought to local disks: whole or not there, shared, bounded, evicted by age."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hdfs_utils import FileSystem, connect
from hdfs_utils.concurrency.worker_pool import Stopped
from hdfs_utils.errors import CorruptData, NotFound
from hdfs_utils.node_cache import CacheDir, CacheDisk, ChangedInput, NodeStore, NoSpace, WantedFile
from tests.fakes.files import MemoryFiles


@pytest.fixture
def fs() -> FileSystem:
    return connect("file:///")


class World:
    """A directory that plays HDFS, and disks of a node."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = root / "source"
        self.source.mkdir()

    def write(self, name: str, content: bytes) -> WantedFile:
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return self.wanted(name)

    def wanted(self, name: str) -> WantedFile:
        path = self.source / name
        status = connect("file:///").stat(str(path))
        return WantedFile(str(path), status.length, status.mtime_ms, f"train/{name}")

    def disk(self, container: str, disk: int = 0) -> CacheDisk:
        base = self.root / f"disk{disk}"
        return CacheDisk(base / container, base / "yarnam-cache")

    def store(self, container: str, disks: int = 1, cache_max_bytes: int = 1 << 30) -> NodeStore:
        disks_of = [self.disk(container, disk) for disk in range(disks)]
        return NodeStore(
            disks_of, cache_max_bytes=cache_max_bytes, keep_free=0.0, range_bytes=1 << 16
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("is_cached", [True, False])
def test_files_come_whole_and_are_read_only(world: World, fs: FileSystem, is_cached: bool) -> None:
    wanted = [world.write(f"{n}/part", bytes([n]) * n * 1000) for n in range(5)]
    store = world.store("c1")
    found = store.fetch(fs, wanted, is_cached=is_cached)
    for n, file in enumerate(wanted):
        path = found[file.target]
        assert path == world.disk("c1").own / file.target
        assert path.read_bytes() == bytes([n]) * n * 1000
        assert path.stat().st_mode & 0o222 == 0
    snapshot = store.progress.snapshot()
    assert (snapshot.files_done, snapshot.done, snapshot.cached) == (5, 10_000, 0)


def test_a_second_container_finds_them_without_reading(world: World, fs: FileSystem) -> None:
    wanted = [world.write(f"part-{n}", os.urandom(5000)) for n in range(20)]
    world.store("c1").fetch(fs, wanted, is_cached=True)
    store = world.store("c2")
    found = store.fetch(fs, wanted, is_cached=True)
    snapshot = store.progress.snapshot()
    assert (snapshot.fetched, snapshot.cached) == (0, 100_000)
    assert found[wanted[3].target].read_bytes() == (world.source / "part-3").read_bytes()


def test_what_is_only_localized_is_not_shared(world: World, fs: FileSystem) -> None:
    wanted = [world.write("part", b"x" * 1000)]
    world.store("c1").fetch(fs, wanted, is_cached=False)
    store = world.store("c2")
    store.fetch(fs, wanted, is_cached=True)
    assert store.progress.snapshot().fetched == 1000


def test_large_files_come_in_ranges(world: World, fs: FileSystem) -> None:
    content = os.urandom((1 << 20) + 17)
    wanted = [world.write("large", content)]
    for container, is_cached in (("c1", True), ("c2", False)):
        found = world.store(container).fetch(fs, wanted, is_cached=is_cached)
        assert found[wanted[0].target].read_bytes() == content


def test_the_second_call_brings_what_is_new_and_gives_up_what_is_old(
    world: World, fs: FileSystem
) -> None:
    first, second = world.write("one", b"1" * 100), world.write("two", b"2" * 100)
    store = world.store("c1")
    store.fetch(fs, [first], is_cached=False)
    store.keep_only([second.target])
    found = store.fetch(fs, [second], is_cached=False)
    assert not (world.disk("c1").own / first.target).exists()
    assert found[second.target].read_bytes() == b"2" * 100
    assert store.progress.snapshot().fetched == 200


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda path: path.unlink(), NotFound),
        (lambda path: path.write_bytes(b"longer than before"), ChangedInput),
        (lambda path: os.utime(path, (1, 1)), ChangedInput),
    ],
)
@pytest.mark.parametrize("is_cached", [True, False])
def test_a_file_that_is_not_what_the_list_says_is_refused(
    world: World,
    fs: FileSystem,
    spoil: Callable[[Path], object],
    error: type[Exception],
    is_cached: bool,
) -> None:
    wanted = [world.write("part", b"before")]
    spoil(world.source / "part")
    with pytest.raises(error):
        world.store("c1").fetch(fs, wanted, is_cached=is_cached)
    assert not list((world.disk("c1").own).rglob("*"))


def test_written_again_with_the_same_length_and_time_is_noticed(
    world: World, fs: FileSystem
) -> None:
    wanted = [world.write("part", b"old" * 1000)]
    times = (world.source / "part").stat().st_mtime_ns
    world.store("c1").fetch(fs, wanted, is_cached=True)
    (world.source / "part").write_bytes(b"new" * 1000)
    os.utime(world.source / "part", ns=(times, times))
    assert world.wanted("part") == wanted[0]
    store = world.store("c2")
    found = store.fetch(fs, wanted, is_cached=True)
    assert found[wanted[0].target].read_bytes() == b"new" * 1000
    # Who reads the old one goes on with it.
    assert (world.disk("c1").own / wanted[0].target).read_bytes() == b"old" * 1000


def test_bytes_that_do_not_fit_the_checksum_are_never_published(
    world: World,
) -> None:
    class OtherChecksums(MemoryFiles):
        def crc32c(self, paths: Sequence[str]) -> list[int]:
            return [0 for _ in paths]

    fs = OtherChecksums()
    fs.write_bytes("/part", b"x" * 100)
    status = fs.stat("/part")
    wanted = [WantedFile("/part", status.length, status.mtime_ms, "train/part")]
    with pytest.raises(CorruptData, match="twice"):
        world.store("c1").fetch(fs, wanted, is_cached=True)
    assert not list(CacheDir(world.disk("c1").cache).everything())


# ---- room --------------------------------------------------------------------------------


def age(cache: CacheDir, seconds: float) -> None:
    for held in cache.everything():
        os.utime(held.path, (held.used_s - seconds, held.used_s - seconds))


def forget(world: World, container: str) -> None:
    """YARN deletes a container's directory."""
    import shutil

    shutil.rmtree(world.disk(container).own)


def test_the_oldest_that_nobody_reads_gives_way(world: World, fs: FileSystem) -> None:
    files = [world.write(f"part-{n}", bytes([n]) * 400) for n in range(4)]
    for n in (0, 1):
        world.store(f"c{n}", cache_max_bytes=1000).fetch(fs, [files[n]], is_cached=True)
        age(CacheDir(world.disk("c0").cache), 100)
    forget(world, "c0")
    forget(world, "c1")
    # Part 0 is wanted again: now part 1 is the oldest.
    world.store("c2", cache_max_bytes=1000).fetch(fs, [files[0]], is_cached=True)
    world.store("c3", cache_max_bytes=1000).fetch(fs, [files[2]], is_cached=True)
    names = {held.path.read_bytes()[0] for held in CacheDir(world.disk("c0").cache).everything()}
    assert names == {0, 2}


def test_what_is_being_read_stays_and_says_so(world: World, fs: FileSystem) -> None:
    one, two = world.write("one", b"1" * 600), world.write("two", b"2" * 600)
    world.store("c1", cache_max_bytes=1000).fetch(fs, [one], is_cached=True)
    with pytest.raises(NoSpace, match="600 B do not fit a cache of 1000 B, of which 600 B are"):
        world.store("c2", cache_max_bytes=1000).fetch(fs, [two], is_cached=True)
    assert (world.disk("c1").own / one.target).read_bytes() == b"1" * 600


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_disk_is_never_filled(world: World, fs: FileSystem, is_cached: bool) -> None:
    """``keep_free`` of all: as if the disk were full."""
    wanted = [world.write("part", b"x" * 100)]
    store = NodeStore([world.disk("c1")], keep_free=1.0)
    with pytest.raises(NoSpace, match="must stay free"):
        store.fetch(fs, wanted, is_cached=is_cached)


def test_room_that_others_have_claimed_counts_and_the_same_file_counts_once(world: World) -> None:
    cache = CacheDir(world.disk("c1").cache, max_bytes=1000, keep_free=0.0)
    other = CacheDir(world.disk("c1").cache, max_bytes=1000, keep_free=0.0)
    with cache.reserve({"a": 500, "b": 200}) as claim:
        with other.reserve({"a": 500, "b": 200, "c": 300}):
            pass
        with pytest.raises(NoSpace), other.reserve({"c": 400}):
            pass
        claim.fill("a")
        with other.reserve({"c": 800}):
            pass
    with other.reserve({"d": 1000}):
        pass


def test_files_go_to_the_disks_that_have_room(world: World, fs: FileSystem) -> None:
    wanted = [world.write(f"part-{n}", b"x" * 400) for n in range(4)]
    # Two caches of 1000 B each: neither could hold all of it.
    found = world.store("c1", disks=2, cache_max_bytes=2000).fetch(fs, wanted, is_cached=True)
    for disk in (0, 1):
        held = list(CacheDir(world.disk("c1", disk).cache).everything())
        assert len(held) == 2
    assert all(path.read_bytes() == b"x" * 400 for path in found.values())


# ---- many at once, and the dead ------------------------------------------------------------


def test_containers_that_want_the_same_fetch_it_once(world: World, fs: FileSystem) -> None:
    wanted = [world.write(f"part-{n}", os.urandom(20_000)) for n in range(30)]
    stores = [world.store(f"c{n}") for n in range(4)]
    threads = [
        threading.Thread(target=store.fetch, args=(fs, wanted), kwargs={"is_cached": True})
        for store in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(store.progress.snapshot().fetched for store in stores) == 600_000
    for n in range(4):
        own = world.disk(f"c{n}").own
        assert all((own / f.target).read_bytes() == Path(f.path).read_bytes() for f in wanted)


def test_what_the_dead_have_left_is_cleared(world: World, fs: FileSystem) -> None:
    cache = world.disk("c1").cache
    CacheDir(cache)
    (cache / "growing" / "aa.1").write_bytes(b"half")
    (cache / "claims" / "1").write_text(f"aa {1 << 40}\n")
    (cache / "locks" / world.write("part", b"x").key(fs.uri)).touch()
    store = world.store("c1", cache_max_bytes=1000)
    store.fetch(fs, [world.wanted("part")], is_cached=True)
    assert not list((cache / "growing").iterdir())
    assert not list((cache / "claims").iterdir())
    assert not list((cache / "locks").iterdir())


def test_after_a_start_of_the_machine_the_cache_is_empty(world: World, fs: FileSystem) -> None:
    wanted = [world.write("part", b"x" * 100)]
    world.store("c1").fetch(fs, wanted, is_cached=True)
    (world.disk("c1").cache / "boot").write_text("another one")
    assert not list(CacheDir(world.disk("c1").cache).everything())
    store = world.store("c2")
    store.fetch(fs, wanted, is_cached=True)
    assert store.progress.snapshot().fetched == 100
    assert (world.disk("c1").own / wanted[0].target).read_bytes() == b"x" * 100


def test_a_store_that_is_told_to_stop_stops(world: World, fs: FileSystem) -> None:
    wanted = [world.write("part", b"x" * 100)]
    store = world.store("c1")
    cache = CacheDir(world.disk("c1").cache)
    ended: list[BaseException] = []

    def bring() -> None:
        try:
            store.fetch(fs, wanted, is_cached=True)
        except Stopped as error:
            ended.append(error)

    with cache.fetching(wanted[0].key(fs.uri)) as is_ours:
        assert is_ours
        thread = threading.Thread(target=bring)
        thread.start()
        while "another container" not in store.progress.snapshot().trouble:
            time.sleep(0.01)
        store.stop()
        thread.join(10)
    assert len(ended) == 1
    assert not list(cache.everything())
