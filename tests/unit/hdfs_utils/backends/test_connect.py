"""connect: which file system, and what happens where no NameNode answers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

import hdfs_utils
from hdfs_utils import TimeLimits
from hdfs_utils.backends.connect import USER_VARIABLE
from hdfs_utils.backends.local import LocalFileSystem
from hdfs_utils.errors import BadConfig, InvalidPath, NotSupported, Unavailable


@pytest.fixture(autouse=True)
def no_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME", USER_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def silent() -> Iterator[str]:
    """A NameNode that takes connections and never says a word, as a frozen one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def refusing() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_which_file_system() -> None:
    assert isinstance(hdfs_utils.connect("file:///a"), LocalFileSystem)
    local = {"fs.defaultFS": "file:///"}
    assert isinstance(hdfs_utils.connect("/a", conf=local), LocalFileSystem)
    default = {"fs.defaultFS": "hdfs://one:8020"}
    for uri in (None, "/a", "hdfs:///a"):
        assert hdfs_utils.connect(uri, conf=default).uri == "hdfs://one:8020"
    assert hdfs_utils.connect("hdfs://two:8020/a", conf=default).uri == "hdfs://two:8020"


def test_nothing_names_a_file_system() -> None:
    for uri in (None, "/a", "hdfs:///a"):
        with pytest.raises(BadConfig, match="HADOOP_CONF_DIR"):
            hdfs_utils.connect(uri)
    with pytest.raises(BadConfig, match=r"is file:///"):
        hdfs_utils.connect("hdfs:///a", conf={"fs.defaultFS": "file:///"})
    # As Hadoop does: what is no nameservice is a host, asked at the first operation.
    assert hdfs_utils.connect("hdfs://nameservice-unknown/a").uri == "hdfs://nameservice-unknown"
    with pytest.raises(InvalidPath):
        hdfs_utils.connect("ftp://a/b")


def test_limits() -> None:
    assert hdfs_utils.connect("file:///", timeout_s=3).limits == TimeLimits(3, 3, 3, 3, 3)
    assert hdfs_utils.connect("file:///", timeout_s=90).limits.sync_s == TimeLimits().sync_s
    limits = TimeLimits(lease_s=1)
    assert hdfs_utils.connect("file:///", limits=limits).limits is limits
    with pytest.raises(ValueError, match="not both"):
        hdfs_utils.connect("file:///", timeout_s=3, limits=limits)


def test_a_frozen_name_node_does_not_hang_the_caller(silent: str) -> None:
    fs = hdfs_utils.connect(f"hdfs://{silent}", timeout_s=0.5)
    start = time.monotonic()
    with pytest.raises(Unavailable, match=r"no answer within 0\.5 s") as caught:
        fs.stat("/a")
    assert time.monotonic() - start < 2
    assert caught.value.retriable
    assert caught.value.outcome_unknown
    assert silent in str(caught.value)


def test_a_dead_name_node_is_told_within_the_limit(refusing: str) -> None:
    fs = hdfs_utils.connect(f"hdfs://{refusing}", timeout_s=2)
    start = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        fs.exists("/a")
    assert time.monotonic() - start < 3
    assert refusing in str(caught.value)


def test_http_questions_have_the_same_limit(silent: str) -> None:
    conf = {"fs.defaultFS": "hdfs://127.0.0.1:1", "dfs.namenode.http-address": silent}
    fs = hdfs_utils.connect(conf=conf, timeout_s=0.5)
    start = time.monotonic()
    with pytest.raises(Unavailable, match="no answer"):
        fs.free_space()
    assert time.monotonic() - start < 2


def test_without_an_http_address_nothing_is_guessed() -> None:
    conf = {"fs.defaultFS": "hdfs://one:8020", "dfs.namenode.http-address": "one:9870"}
    other = hdfs_utils.connect("hdfs://two:8020", conf=conf)
    with pytest.raises(NotSupported, match="http-address"):
        other.checksum("/a")
    with pytest.raises(NotSupported, match="http-address"):
        other.free_space()


def test_one_process_is_one_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USER_VARIABLE, "")
    conf = {"fs.defaultFS": "hdfs://one:8020"}
    hdfs_utils.connect(conf=conf, user="ann")
    assert os.environ[USER_VARIABLE] == "ann"
    hdfs_utils.connect(conf=conf, user="ann")
    with pytest.raises(NotSupported, match="another process"):
        hdfs_utils.connect(conf=conf, user="bob")
    secure = {**conf, "hadoop.security.authentication": "kerberos"}
    with pytest.raises(NotSupported, match="authenticates"):
        hdfs_utils.connect(conf=secure, user="ann")


def test_children_do_not_inherit_the_thread_count() -> None:
    hdfs_utils.connect(conf={"fs.defaultFS": "hdfs://one:8020"})
    assert "TOKIO_WORKER_THREADS" not in os.environ


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    # The AM and the agents import this package and have 100 and 60 MB for everything.
    code = """
import sys, hdfs_utils, hdfs_utils.journal.log, hdfs_utils.checkpoints, hdfs_utils.transfer
heavy = {"numpy", "pyarrow", "fsspec", "http", "ssl", "asyncio", "hdfs_native", "yarnam"}
found = heavy & {name.partition(".")[0] for name in sys.modules}
assert not found, found
hdfs_utils.connect(conf={"fs.defaultFS": "hdfs://one:8020"})
assert "fsspec" not in sys.modules
print(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40 << 10
