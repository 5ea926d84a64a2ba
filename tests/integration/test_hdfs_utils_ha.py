"""hdfs_utils on a pair of NameNodes: whichever of them is active, and while that changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hdfs_utils
from hdfs_utils import FileSystem, transfer
from hdfs_utils.errors import Unavailable
from hdfs_utils.journal.log import AppendLog, read_journal
from hdfs_utils.protocols.checksums import crc32c
from tests.integration.ha_hdfs import HaHdfs, ha_hdfs

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.hdfs, pytest.mark.long]

LIMIT_S = 3.0
SLACK_S = 2.0


@pytest.fixture(scope="module")
def pair(cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HaHdfs]:
    with ha_hdfs(cluster, tmp_path_factory.mktemp("ha")) as started:
        yield started


@pytest.fixture
def home(unique_name: Callable[[str], str]) -> str:
    return f"/tmp/{unique_name('ha')}"


def connect(pair: HaHdfs, backend: str = "auto", limit_s: float = 30.0) -> FileSystem:
    return hdfs_utils.connect(conf_dir=str(pair.conf), backend=backend, timeout_s=limit_s)


def everything_works(fs: FileSystem, home: str, tag: str) -> None:
    path = f"{home}/{tag}/a"
    fs.write_bytes(path, b"data")
    fs.rename(path, f"{path}2")
    assert fs.read_bytes(f"{path}2") == b"data"
    assert [entry.path for entry in fs.list(f"{home}/{tag}")] == [f"{path}2"]
    assert fs.block_locations(f"{path}2")[0].length == 4
    if fs.backend == "native":
        assert fs.crc32c([f"{path}2"]) == (crc32c(b"data"),)
    assert fs.checksum(f"{path}2").value
    assert fs.free_space().capacity > 0


@pytest.mark.parametrize(
    "backend",
    ["auto", "native", "webhdfs"],
)
def test_the_same_client_goes_on_after_a_failover(pair: HaHdfs, home: str, backend: str) -> None:
    fs = connect(pair, backend)
    everything_works(fs, home, "before")
    pair.make_active("nn2")
    try:
        everything_works(fs, home, "after")
        assert fs.read_bytes(f"{home}/before/a2") == b"data"
        # Who comes now asks the standby one first.
        everything_works(connect(pair, backend), home, "later")
    finally:
        pair.make_active("nn1")
    everything_works(fs, home, "back")


def test_a_journal_and_a_transfer_outlive_the_active_name_node(
    pair: HaHdfs, home: str, tmp_path: Path
) -> None:
    fs = connect(pair, limit_s=60.0)
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(300):
        (tree / f"{number:03}").write_bytes(b"%03d" % number * 1000)
    with ThreadPoolExecutor(1) as executor, AppendLog.open(fs, f"{home}-journal") as log:
        log.append([b"one"])
        sent = executor.submit(transfer.put_tree, connect(pair, limit_s=60.0), tree, home)
        time.sleep(0.3)
        pair.kill("nn1")
        try:
            taking_over = threading.Thread(target=pair.make_active, args=("nn2",))
            taking_over.start()
            log.append([b"two"])
            taking_over.join()
            log.append([b"three"])
            sent.result(120)
        finally:
            pair.start("nn1")
    compared = transfer.compare(hdfs_utils.connect("file:///"), str(tree), fs, home)
    assert compared.differences == ()
    assert read_journal(fs, f"{home}-journal").records == (b"one", b"two", b"three")
    pair.make_active("nn1")


def test_no_active_name_node(pair: HaHdfs, home: str) -> None:
    fs = connect(pair, limit_s=LIMIT_S)
    fs.mkdirs(home)
    pair.run("org.apache.hadoop.hdfs.tools.DFSHAAdmin", "-transitionToStandby", "nn1")
    try:
        began = time.monotonic()
        with pytest.raises(Unavailable):
            fs.stat(home)
        assert time.monotonic() - began < LIMIT_S + SLACK_S
    finally:
        pair.make_active("nn1")
    assert fs.stat(home).is_dir
