"""hdfs_utils while a NameNode or DataNode of its own cluster is frozen, dead or in safe mode."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hdfs_utils
from hdfs_utils import FileSystem
from hdfs_utils.errors import SafeMode, Unavailable
from hdfs_utils.journal.log import AppendLog, read_journal
from tests.integration.hdfs_faults import own_cluster

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.hdfs, pytest.mark.slow, pytest.mark.chaos]

LIMIT_S = 3.0
# A thread's start and the waiting caller's wake-up on two busy cores.
SLACK_S = 2.0
YARNAM = str(Path(sys.executable).parent / "yarnam")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A cluster of this module: its faults must not meet other tests."""
    with own_cluster(f"faults-{os.getpid()}", tmp_path_factory.mktemp("state")) as started:
        yield started


@pytest.fixture
def connect(own: EmbeddedCluster) -> Callable[[float], FileSystem]:
    return lambda limit_s: hdfs_utils.connect(conf_dir=str(own.conf_dir), timeout_s=limit_s)


@pytest.fixture
def home(
    connect: Callable[[float], FileSystem], unique_name: Callable[[str], str]
) -> Iterator[str]:
    directory = f"/tmp/{unique_name('hdfs-utils')}"
    yield directory
    connect(30).delete(directory, recursive=True)


@contextmanager
def frozen(own: EmbeddedCluster, daemon: str) -> Iterator[None]:
    own.daemon(daemon).kill(signal.SIGSTOP)
    try:
        yield
    finally:
        own.daemon(daemon).kill(signal.SIGCONT)


def start(own: EmbeddedCluster, daemon: str) -> None:
    """By the command: this process would be the daemon's parent and have to wait for its end."""
    env = {**os.environ, "XDG_STATE_HOME": str(own.paths.root.parents[2])}
    subprocess.run([YARNAM, "cluster", "start", "--name", own.name, daemon], env=env, check=True)


def seconds(call: Callable[[], object]) -> float:
    start = time.monotonic()
    with pytest.raises(Unavailable):
        call()
    return time.monotonic() - start


def test_a_frozen_name_node(
    own: EmbeddedCluster, connect: Callable[[float], FileSystem], home: str
) -> None:
    fs = connect(LIMIT_S)
    log = AppendLog.open(fs, home)
    log.append([b"one"])
    half = fs.open_writer(f"{home}/half")
    half.write(b"x")
    with frozen(own, "nn"):
        assert seconds(lambda: fs.exists(home)) < LIMIT_S + SLACK_S
        assert seconds(half.close) < LIMIT_S + SLACK_S
        # The write, then one look at whether a newer epoch is there.
        assert seconds(lambda: log.append([b"two"])) < 2 * LIMIT_S + SLACK_S
        # A client that never had an answer tries the other way, over HTTP, as well.
        assert seconds(lambda: connect(LIMIT_S).free_space()) < 2 * LIMIT_S + SLACK_S
    assert fs.exists(home)
    successor = AppendLog.open(connect(30), home)
    # The unanswered record may have arrived; what was acknowledged has.
    assert successor.recovered.records in ((b"one",), (b"one", b"two"))
    successor.append([b"three"])
    successor.close()
    assert read_journal(fs, home).records[-1] == b"three"


def test_a_journal_outlives_a_restart_of_the_name_node(
    own: EmbeddedCluster, connect: Callable[[float], FileSystem], home: str
) -> None:
    fs = connect(120)
    with AppendLog.open(fs, home) as log:
        log.append([b"one"])
        own.daemon("nn").kill()
        starter = threading.Thread(target=start, args=(own, "nn"))
        starter.start()
        log.append([b"two"])
        starter.join()
        log.append([b"three"])
    assert read_journal(fs, home).records == (b"one", b"two", b"three")
    fs.write_atomic(f"{home}/after", b"x")


def test_a_journal_outlives_the_data_node_it_was_on(
    own: EmbeddedCluster, connect: Callable[[float], FileSystem], home: str
) -> None:
    fs = connect(30)
    with AppendLog.open(fs, home) as log:
        log.append([b"one"])
        (block,) = fs.block_locations(fs.list(home)[0].path)
        hosts = {node.address: f"dn{n}" for n, node in enumerate(own.nodes, 1)}
        daemon = hosts[block.hosts[0]]
        own.daemon(daemon).kill()
        try:
            log.append([b"two"])
            log.append([b"three"])
        finally:
            start(own, daemon)
    assert len(fs.list(home)) > 1, "it went on without a further segment"
    assert AppendLog.open(fs, home).recovered.records == (b"one", b"two", b"three")


def test_safe_mode(own: EmbeddedCluster, connect: Callable[[float], FileSystem], home: str) -> None:
    fs = connect(10)
    fs.write_atomic(f"{home}/a", b"old")

    def switch(how: str) -> None:
        command = ["hdfs", "dfsadmin", "-safemode", how]
        subprocess.run(command, env=own.environ(), check=True, capture_output=True)

    switch("enter")
    try:
        with pytest.raises(SafeMode) as caught:
            fs.write_atomic(f"{home}/a", b"new")
        assert caught.value.retriable
        assert not caught.value.outcome_unknown
        assert fs.read_bytes(f"{home}/a") == b"old"
    finally:
        switch("leave")
    fs.write_atomic(f"{home}/a", b"new")
    assert fs.read_bytes(f"{home}/a") == b"new"
