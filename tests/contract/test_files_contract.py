"""One contract for every FileSystem: the fake, the local disk and a real HDFS."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hdfs_native
import pytest

import hdfs_utils
from hdfs_utils import FileSystem, blacklist, transfer
from hdfs_utils.backends.base import is_temporary
from hdfs_utils.backends.fallback import FallbackFileSystem
from hdfs_utils.backends.libhdfs import LIBRARY_VARIABLE
from hdfs_utils.backends.native import NativeFileSystem
from hdfs_utils.errors import (
    AlreadyExists,
    DirectoryNotEmpty,
    HdfsError,
    InvalidPath,
    IsADirectory,
    LeaseLost,
    NotADirectory,
    NotFound,
    NotSupported,
)
from hdfs_utils.protocols.checksums import Md5OfCrc, crc32c
from tests.fakes.files import MemoryFiles
from tests.integration.hadoop_web_servers import httpfs

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

WAYS = ["native", "webhdfs", "fallback"]
if os.environ.get(LIBRARY_VARIABLE):
    # libhdfs comes with a site's Hadoop; where there is one the same is asked of it.
    WAYS.append("arrow")


@pytest.fixture(scope="module")
def gateway(
    cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FileSystem]:
    """HDFS through an HttpFS."""
    with httpfs(cluster, tmp_path_factory.mktemp("httpfs")) as uri:
        yield hdfs_utils.connect(uri, user=cluster.plan.user)


@pytest.fixture(
    params=[
        "memory",
        "local",
        *(pytest.param(way, marks=pytest.mark.hdfs) for way in WAYS),
        pytest.param("httpfs", marks=[pytest.mark.hdfs, pytest.mark.long]),
    ],
    scope="module",
)
def fs(request: pytest.FixtureRequest) -> FileSystem:
    if request.param == "httpfs":
        found: FileSystem = request.getfixturevalue("gateway")
        return found
    if request.param == "memory":
        return MemoryFiles()
    if request.param == "local":
        return hdfs_utils.connect("file:///")
    environment = request.getfixturevalue("cluster_env")
    conf_dir = environment["HADOOP_CONF_DIR"]
    if request.param == "arrow":
        # A JVM starts in this process and has its class path from the environment.
        os.environ.update({name: environment[name] for name in ("HADOOP_CONF_DIR", "PATH")})
    if request.param != "fallback":
        return hdfs_utils.connect(conf_dir=conf_dir, backend=request.param)
    # The native client knows of no NameNode that listens: everything goes the other way.
    found = hdfs_utils.connect(conf_dir=conf_dir, backend="auto", timeout_s=10)
    assert isinstance(found, FallbackFileSystem)
    return FallbackFileSystem(refused(), lambda: webhdfs(conf_dir))


def refused() -> FileSystem:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return hdfs_utils.connect(f"hdfs://127.0.0.1:{port}", conf={}, timeout_s=1)


def webhdfs(conf_dir: str) -> FileSystem:
    return hdfs_utils.connect(conf_dir=conf_dir, backend="webhdfs")


def has_leases(fs: FileSystem) -> bool:
    return fs.capabilities.recovers_leases


def is_without_checksums(fs: FileSystem) -> bool:
    """HDFS's own client, where the site has Kerberos or wire encryption."""
    return isinstance(fs, NativeFileSystem) and not fs.capabilities.stores_crc32c


@pytest.fixture
def replaces(request: pytest.FixtureRequest) -> bool:
    """Whether what is there can be replaced: not through an HttpFS."""
    return "httpfs" not in request.node.name


@pytest.fixture
def home(fs: FileSystem, tmp_path: Path) -> Iterator[str]:
    """An empty directory of this test alone."""
    directory = f"{tmp_path}/{uuid.uuid4().hex}"
    fs.mkdirs(directory)
    yield directory
    fs.delete(directory, recursive=True)


def write_and_sync(writer: hdfs_utils.Writer, data: bytes) -> None:
    writer.write(data)
    writer.sync()


def test_what_was_written_is_read(fs: FileSystem, home: str) -> None:
    data = bytes(range(256)) * 37
    fs.write_bytes(f"{home}/a", data)
    assert fs.read_bytes(f"{home}/a") == data
    assert fs.read_synced(f"{home}/a") == data


def test_an_empty_file_is_a_file(fs: FileSystem, home: str) -> None:
    fs.write_bytes(f"{home}/empty", b"")
    assert fs.read_bytes(f"{home}/empty") == b""
    assert fs.stat(f"{home}/empty").length == 0
    assert fs.block_locations(f"{home}/empty") == ()


def test_status_of_file_and_directory(fs: FileSystem, home: str) -> None:
    fs.write_bytes(f"{home}/d/a", b"12345")
    file, directory = fs.stat(f"{home}/d/a"), fs.stat(f"{home}/d")
    assert (file.path, file.length, file.is_dir) == (f"{home}/d/a", 5, False)
    assert file.replication >= 1
    assert file.block_size > 0
    assert file.owner
    assert file.mtime_ms > 0
    assert (directory.path, directory.length, directory.is_dir) == (f"{home}/d", 0, True)
    assert fs.stat("/").path == "/"


def test_missing(fs: FileSystem, home: str) -> None:
    missing = f"{home}/missing"
    assert not fs.exists(missing)
    assert fs.delete(missing) is False
    for call in (fs.stat, fs.list, fs.open_reader, fs.open_appender, fs.checksum):
        with pytest.raises(NotFound) as caught:
            call(missing)
        assert caught.value.path == missing
        assert missing in str(caught.value)
        assert not caught.value.retriable
    with pytest.raises(NotFound):
        fs.rename(missing, f"{home}/b")
    with pytest.raises(NotFound):
        fs.chmod(missing, 0o600)


def test_below_a_file_nothing_exists(fs: FileSystem, home: str) -> None:
    fs.write_bytes(f"{home}/a", b"")
    assert not fs.exists(f"{home}/a/b")
    assert fs.delete(f"{home}/a/b") is False


def test_a_uri_of_this_file_system_is_a_path(fs: FileSystem, home: str) -> None:
    fs.write_bytes(f"{fs.uri}{home}/a", b"x")
    assert fs.stat(f"{fs.uri}{home}//./a").path == f"{home}/a"


def test_a_uri_of_another_file_system_is_refused(fs: FileSystem) -> None:
    with pytest.raises(InvalidPath):
        fs.exists("hdfs://elsewhere.example:8020/a")
    with pytest.raises(InvalidPath):
        fs.exists("relative/path")


@pytest.mark.parametrize("name", ["with space", "ünïcødé", "100%", "a+b&c=d?e#f;g", "%41", "*?[x]"])
def test_odd_names(fs: FileSystem, home: str, name: str) -> None:
    fs.write_atomic(f"{home}/{name}", b"x")
    assert [s.path for s in fs.list(home)] == [f"{home}/{name}"]
    assert fs.read_bytes(f"{home}/{name}") == b"x"
    assert fs.checksum(f"{home}/{name}").value
    fs.delete(f"{home}/{name}")


def test_list_and_walk_are_by_name(fs: FileSystem, home: str) -> None:
    for path in ("b/2", "b/1", "a", "c/d/e"):
        fs.write_bytes(f"{home}/{path}", b"")
    assert [s.path for s in fs.list(home)] == [f"{home}/a", f"{home}/b", f"{home}/c"]
    walked = [s.path.removeprefix(f"{home}/") for s in fs.walk(home)]
    assert walked == ["a", "b", "b/1", "b/2", "c", "c/d", "c/d/e"]
    with pytest.raises(NotADirectory):
        fs.list(f"{home}/a")


def test_create_never_replaces_by_itself(fs: FileSystem, home: str) -> None:
    fs.write_bytes(f"{home}/a", b"old")
    with pytest.raises(AlreadyExists):
        fs.write_bytes(f"{home}/a", b"new")
    assert fs.read_bytes(f"{home}/a") == b"old"
    fs.write_bytes(f"{home}/a", b"new", overwrite=True)
    assert fs.read_bytes(f"{home}/a") == b"new"


def test_a_directory_is_no_file(fs: FileSystem, home: str) -> None:
    for overwrite in (False, True):
        with pytest.raises(IsADirectory):
            fs.open_writer(home, overwrite=overwrite)
    with pytest.raises(IsADirectory):
        fs.open_reader(home)


def test_a_file_is_no_directory(fs: FileSystem, home: str) -> None:
    fs.write_bytes(f"{home}/a", b"")
    with pytest.raises(NotADirectory):
        fs.open_writer(f"{home}/a/b")
    for path in ("a", "a/b"):
        with pytest.raises(NotADirectory):
            fs.mkdirs(f"{home}/{path}")


def test_reader_seeks_and_stops_at_the_end(fs: FileSystem, home: str) -> None:
    fs.write_bytes(f"{home}/a", b"0123456789")
    with fs.open_reader(f"{home}/a") as reader:
        assert reader.size == 10
        assert reader.read(3) == b"012"
        assert reader.tell() == 3
        assert reader.seek(-2, io.SEEK_END) == 8
        assert reader.read() == b"89"
        assert reader.read(1) == b""
        assert reader.seek(100) == 10
        assert reader.read() == b""
        assert reader.seek(5) == 5
        assert reader.seek(1, io.SEEK_CUR) == 6
        assert reader.read(100) == b"6789"
        with pytest.raises(ValueError):
            reader.seek(-1)


def test_reader_feeds_the_standard_library(fs: FileSystem, home: str) -> None:
    fs.write_bytes(f"{home}/lines", b"".join(b"line %d\n" % n for n in range(1000)))
    with io.BufferedReader(fs.open_reader(f"{home}/lines"), 100) as reader:  # type: ignore[type-var]
        lines = reader.readlines()
    assert lines[999] == b"line 999\n"
    assert len(lines) == 1000


def test_many_pieces_arrive_in_order(fs: FileSystem, home: str) -> None:
    pieces = [bytes([n]) * (200_000 if n % 3 else 7) for n in range(60)]
    with fs.open_writer(f"{home}/a") as writer:
        for piece in pieces:
            assert writer.write(piece) == len(piece)
        assert writer.tell() == sum(map(len, pieces))
    assert fs.read_bytes(f"{home}/a") == b"".join(pieces)


def test_a_piece_larger_than_any_buffer(fs: FileSystem, home: str) -> None:
    data = bytes(range(256)) * (80 << 10)
    fs.write_bytes(f"{home}/a", data)
    with fs.open_reader(f"{home}/a") as reader:
        reader.seek(3)
        assert reader.read() == data[3:]


def test_append_adds_to_the_end(fs: FileSystem, home: str) -> None:
    fs.write_bytes(f"{home}/a", b"one ")
    for word in (b"two ", b"three"):
        with fs.open_appender(f"{home}/a") as writer:
            writer.write(word)
    assert fs.read_bytes(f"{home}/a") == b"one two three"


def test_synced_data_is_there_before_the_close(fs: FileSystem, home: str) -> None:
    writer = fs.open_writer(f"{home}/a")
    writer.write(b"first")
    writer.sync()
    assert fs.read_synced(f"{home}/a") == b"first"
    writer.write(b" second")
    writer.sync()
    assert fs.read_synced(f"{home}/a") == b"first second"
    writer.close()


def test_an_aborted_file_is_gone(fs: FileSystem, home: str) -> None:
    def fail() -> None:
        with fs.open_writer(f"{home}/a") as writer:
            writer.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not fs.exists(f"{home}/a")
    fs.write_bytes(f"{home}/a", b"again")


def test_a_closed_writer_takes_nothing(fs: FileSystem, home: str) -> None:
    writer = fs.open_writer(f"{home}/a")
    writer.close()
    writer.close()
    with pytest.raises(ValueError):
        writer.write(b"late")
    with pytest.raises(ValueError):
        writer.sync()


def test_a_recovered_lease_fences_the_writer(fs: FileSystem, home: str) -> None:
    writer = fs.open_writer(f"{home}/a")
    writer.write(b"kept")
    writer.sync()
    if not has_leases(fs):
        writer.close()
        with pytest.raises(HdfsError):
            fs.recover_lease(f"{home}/a")
        return
    fs.recover_lease(f"{home}/a")
    assert fs.read_bytes(f"{home}/a") == b"kept"
    with pytest.raises(HdfsError):
        write_and_sync(writer, b"stale")
    writer.abort()
    assert fs.read_bytes(f"{home}/a") == b"kept"
    fs.recover_lease(f"{home}/a")
    with fs.open_appender(f"{home}/a") as successor:
        successor.write(b" on")
    assert fs.read_bytes(f"{home}/a") == b"kept on"


def test_a_writer_of_a_deleted_file_is_told(fs: FileSystem, home: str) -> None:
    writer = fs.open_writer(f"{home}/a")
    writer.write(b"x")
    if not has_leases(fs):
        writer.sync()  # over HTTP the file is there only when a DataNode has said so
    fs.delete(f"{home}/a")
    with pytest.raises((LeaseLost, NotFound)):
        writer.close()
    assert not fs.exists(f"{home}/a")


def test_rename(fs: FileSystem, home: str, replaces: bool) -> None:
    fs.write_bytes(f"{home}/a", b"a")
    fs.write_bytes(f"{home}/b", b"b")
    with pytest.raises(AlreadyExists):
        fs.rename(f"{home}/a", f"{home}/b")
    if replaces:
        fs.rename(f"{home}/a", f"{home}/b", overwrite=True)
        assert fs.read_bytes(f"{home}/b") == b"a"
    else:
        with pytest.raises(NotSupported, match="HttpFS cannot replace"):
            fs.rename(f"{home}/a", f"{home}/b", overwrite=True)
        assert fs.read_bytes(f"{home}/b") == b"b"
        fs.delete(f"{home}/a")
    assert not fs.exists(f"{home}/a")
    fs.rename(f"{home}/b", f"{home}/c")
    assert [s.path for s in fs.list(home)] == [f"{home}/c"]
    with pytest.raises(NotFound):
        fs.rename(f"{home}/c", f"{home}/no/where")


def test_rename_of_directories(fs: FileSystem, home: str, replaces: bool) -> None:
    fs.write_bytes(f"{home}/d/x/y", b"y")
    fs.write_bytes(f"{home}/full/z", b"z")
    fs.write_bytes(f"{home}/file", b"f")
    fs.mkdirs(f"{home}/empty")
    with pytest.raises(AlreadyExists):
        fs.rename(f"{home}/d", f"{home}/full")
    if not replaces:
        with pytest.raises(NotSupported):
            fs.rename(f"{home}/d", f"{home}/empty", overwrite=True)
        fs.rename(f"{home}/d", f"{home}/new")
        assert fs.read_bytes(f"{home}/new/x/y") == b"y"
        return
    with pytest.raises(DirectoryNotEmpty):
        fs.rename(f"{home}/d", f"{home}/full", overwrite=True)
    with pytest.raises(NotADirectory):
        fs.rename(f"{home}/d", f"{home}/file", overwrite=True)
    with pytest.raises(IsADirectory):
        fs.rename(f"{home}/file", f"{home}/empty", overwrite=True)
    fs.rename(f"{home}/d", f"{home}/empty", overwrite=True)
    assert fs.read_bytes(f"{home}/empty/x/y") == b"y"
    assert not fs.exists(f"{home}/d")


def test_delete(fs: FileSystem, home: str) -> None:
    fs.write_bytes(f"{home}/d/a", b"")
    with pytest.raises(DirectoryNotEmpty):
        fs.delete(f"{home}/d")
    assert fs.delete(f"{home}/d", recursive=True) is True
    assert not fs.exists(f"{home}/d")
    with pytest.raises(InvalidPath):
        fs.delete("/", recursive=True)


def test_mkdirs_and_chmod(fs: FileSystem, home: str) -> None:
    fs.mkdirs(f"{home}/d/e", 0o700)
    assert fs.stat(f"{home}/d/e").permission == 0o700
    fs.mkdirs(f"{home}/d/e", 0o755)
    assert fs.stat(f"{home}/d/e").permission == 0o700
    fs.chmod(f"{home}/d/e", 0o1777)
    assert fs.stat(f"{home}/d/e").permission == 0o1777


def test_an_acl_is_read_and_the_group_s_bits_are_its_mask(
    request: pytest.FixtureRequest, fs: FileSystem, home: str
) -> None:
    """yarnam.adapters.hdfs.path_owners relies on both."""
    if fs.backend == "local":
        with pytest.raises(NotSupported):
            fs.acl(home)
        return
    assert fs.acl(home) == ()
    entries = ("user:bob:rwx", "group::r-x")
    if isinstance(fs, MemoryFiles):
        fs.chmod(home, 0o775)
        fs.set_acl(home, *entries)
    else:
        where = request.getfixturevalue("cluster_env")["HADOOP_CONF_DIR"]
        client = hdfs_native.Client(config_dir=where)
        named = hdfs_native.AclEntry("user", "access", "rwx", "bob")
        default = hdfs_native.AclEntry("user", "default", "rwx", "eve")
        client.modify_acl_entries(home, [named, default])
    assert fs.acl(home) == entries
    assert fs.stat(home).permission == 0o775
    fs.chmod(home, 0o755)
    assert fs.stat(home).permission == 0o755
    with pytest.raises(NotFound):
        fs.acl(f"{home}/missing")


def test_checksum_tells_content_apart(fs: FileSystem, home: str) -> None:
    for name, data in (("a", b"same"), ("b", b"same"), ("c", b"else")):
        fs.write_bytes(f"{home}/{name}", data)
    a, b, c = (fs.checksum(f"{home}/{name}") for name in "abc")
    assert a == b
    assert a.algorithm == c.algorithm
    assert a.value != c.value


def test_crc32c_is_that_of_the_bytes(fs: FileSystem, home: str) -> None:
    contents = [b"", b"123456789", bytes(range(256)) * 5000]
    paths = [f"{home}/{number}" for number in range(len(contents))]
    for path, data in zip(paths, contents, strict=True):
        with fs.open_writer(path, block_size=1 << 20) as writer:
            writer.write(data)
    if fs.capabilities.reports_md5_of_crc:
        # The site's default is MD5-of-CRC, which HTTP cannot choose: that is compared instead.
        with pytest.raises(NotSupported, match="over HTTP"):
            fs.crc32c(paths)
        return
    if is_without_checksums(fs):
        with pytest.raises(NotSupported, match="with Kerberos"):
            fs.crc32c(paths)
        return
    assert list(fs.crc32c(paths)) == [crc32c(data) for data in contents]
    assert fs.crc32c(paths)[1] == 0xE3069283  # RFC 3720, B.4


@pytest.mark.parametrize("length", [1, 511, 512, 1 << 20, (1 << 20) + 1, 3 << 20, (4 << 20) + 7])
def test_the_md5_of_crcs_is_that_of_the_bytes(fs: FileSystem, home: str, length: int) -> None:
    if not fs.capabilities.reports_md5_of_crc:
        return
    data = b"spam and eggs" * (length // 13 + 1)
    with fs.open_writer(f"{home}/a", block_size=1 << 20) as writer:
        writer.write(data[:length])
    local = Md5OfCrc(1 << 20)
    local.update(data[:length])
    assert fs.checksum(f"{home}/a").value[24:56] == local.hexdigest()


def test_a_tree_that_was_sent_is_verified(fs: FileSystem, home: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "a").write_bytes(b"123456789")
    (tree / "below" / "b").write_bytes(bytes(range(256)) * 5000)
    done = transfer.put_tree(fs, tree, f"{home}/sent")
    assert done.verified == (0 if fs.capabilities.is_local or is_without_checksums(fs) else 2)


def test_times_are_set(fs: FileSystem, home: str) -> None:
    fs.write_bytes(f"{home}/a", b"x")
    fs.set_times(f"{home}/a", 1_600_000_000_123)
    assert fs.stat(f"{home}/a").mtime_ms == 1_600_000_000_123


def test_a_directory_has_the_time_of_its_newest_change(fs: FileSystem, home: str) -> None:
    fs.mkdirs(f"{home}/sub")
    times = []

    def changed(change: Callable[[], object]) -> None:
        time.sleep(0.01)
        change()
        times.append(next(one.mtime_ms for one in fs.list(home) if one.path.endswith("/sub")))

    changed(lambda: fs.write_bytes(f"{home}/sub/a", b"x"))
    changed(lambda: fs.write_atomic(f"{home}/sub/c", b"y"))
    changed(lambda: fs.rename(f"{home}/sub/a", f"{home}/sub/b"))
    changed(lambda: fs.delete(f"{home}/sub/b"))
    assert times == sorted(set(times)), "history_store asks this to see what has changed"


def test_concat_joins_in_order_and_takes_the_sources(fs: FileSystem, home: str) -> None:
    for name in "abc":
        fs.write_bytes(f"{home}/{name}", name.encode() * 1000)
    fs.concat(f"{home}/a", [f"{home}/b", f"{home}/c"])
    assert [s.path for s in fs.list(home)] == [f"{home}/a"]
    assert fs.read_bytes(f"{home}/a") == b"a" * 1000 + b"b" * 1000 + b"c" * 1000


def test_glob_is_that_of_a_shell(fs: FileSystem, home: str) -> None:
    for path in ("a1", "a2", "b1", ".a3", "d/a1", "e/a1", "e/f/a1"):
        fs.write_bytes(f"{home}/{path}", b"")

    def fitting(pattern: str) -> list[str]:
        return [s.path.removeprefix(f"{home}/") for s in fs.glob(f"{home}/{pattern}")]

    assert fitting("a?") == ["a1", "a2"]
    assert fitting("*/a1") == ["d/a1", "e/a1"]
    assert fitting("[ab]1") == ["a1", "b1"]
    assert fitting(".a*") == [".a3"]
    assert fitting("d/a1") == ["d/a1"]
    assert fitting("none*") == fitting("a1/x") == []


def test_blocks_cover_the_file(fs: FileSystem, home: str) -> None:
    with fs.open_writer(f"{home}/a", block_size=1 << 20) as writer:
        writer.write(bytes(2_500_000))
    blocks = fs.block_locations(f"{home}/a")
    assert blocks[0].offset == 0
    for before, after in itertools.pairwise(blocks):
        assert after.offset == before.offset + before.length
    assert blocks[-1].offset + blocks[-1].length == 2_500_000
    assert all(block.hosts for block in blocks)


def test_a_file_that_is_being_written_has_blocks_as_well(fs: FileSystem, home: str) -> None:
    for name in "bcde":
        fs.write_bytes(f"{home}/{name}", b"closed")
    with fs.open_writer(f"{home}/a") as writer:
        write_and_sync(writer, b"synced")
        assert sum(block.length for block in fs.block_locations(f"{home}/a")) in (0, 6)
        with contextlib.suppress(NotSupported):
            # Four are asked by one listing, in which the open one is as well.
            crcs = fs.crc32c([f"{home}/{name}" for name in "bcde"])
            assert crcs == (crc32c(b"closed"),) * 4
    assert sum(block.length for block in fs.block_locations(f"{home}/a")) == 6


def test_free_space(fs: FileSystem) -> None:
    space = fs.free_space()
    assert 0 < space.remaining <= space.capacity
    assert 0 <= space.used <= space.capacity


def test_write_atomic_replaces(fs: FileSystem, home: str, replaces: bool) -> None:
    fs.write_atomic(f"{home}/d/a", b"one")
    if not replaces:
        with pytest.raises(NotSupported):
            fs.write_atomic(f"{home}/d/a", b"two")
        fs.delete(f"{home}/d/a")
    fs.write_atomic(f"{home}/d/a", lambda writer: writer.write(b"two"))
    assert fs.read_bytes(f"{home}/d/a") == b"two"
    with pytest.raises(AlreadyExists):
        fs.write_atomic(f"{home}/d/a", b"three", overwrite=False)
    assert fs.read_bytes(f"{home}/d/a") == b"two"
    assert [s.path for s in fs.list(f"{home}/d")] == [f"{home}/d/a"]


def test_write_atomic_leaves_the_old_whole_on_failure(fs: FileSystem, home: str) -> None:
    fs.write_atomic(f"{home}/a", b"old")

    def half(writer: hdfs_utils.Writer) -> None:
        writer.write(b"half")
        writer.sync()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fs.write_atomic(f"{home}/a", half)
    assert fs.read_bytes(f"{home}/a") == b"old"
    assert [s.path for s in fs.list(home)] == [f"{home}/a"]


def test_a_reader_sees_one_whole_version_while_it_is_replaced(
    fs: FileSystem, home: str, replaces: bool
) -> None:
    if not replaces:
        return  # see test_write_atomic_replaces
    path = f"{home}/a"
    fs.write_atomic(path, b"0" * 1000)
    seen: list[bytes] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.append(fs.read_bytes(path))

    reader = threading.Thread(target=read)
    reader.start()
    deadline, version = time.monotonic() + 60.0, 0
    # On a busy machine all versions may be written before the reader has begun.
    while version < 3 or (len(seen) < 2 and time.monotonic() < deadline):
        version += 1
        fs.write_atomic(path, str(version % 10).encode() * 1000)
    stop.set()
    reader.join()
    assert len(seen) > 1
    assert all(len(data) == 1000 and len(set(data)) == 1 for data in seen)
    assert not [s for s in fs.list(home) if is_temporary(s.path)]


@pytest.mark.parametrize("length", [193, 218, 255])
def test_long_names_are_names(fs: FileSystem, home: str, length: int, tmp_path: Path) -> None:
    """Legal on HDFS and on Linux: written, copied, moved to quarantine and back."""
    path = f"{home}/{'n' * length}"
    fs.write_atomic(path, b"content")
    (tmp_path / "up").mkdir()
    (tmp_path / "up" / ("m" * length)).write_bytes(b"x")
    transfer.put_tree(fs, tmp_path / "up", f"{home}/tree")
    assert fs.read_bytes(f"{home}/tree/{'m' * length}") == b"x"
    if not fs.capabilities.is_local:
        transfer.get_tree(fs, f"{home}/tree", tmp_path / "down")
        assert (tmp_path / "down" / ("m" * length)).read_bytes() == b"x"
    moved = blacklist.quarantine(fs, fs.stat(path), reason="torn", by="me", at_s=1.0)
    assert not fs.exists(path)
    (found,) = blacklist.quarantined(fs, [home])
    assert (found.origin, found.now, found.reason) == (path, moved.now, "torn")
    blacklist.restore(fs, found)
    assert fs.read_bytes(path) == b"content"
    assert blacklist.quarantined(fs, [home]) == ()
