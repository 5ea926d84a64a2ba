"""The input blacklist and the checks of inputs on a real HDFS and ZooKeeper."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hdfs_utils
from hdfs_utils import FileSystem
from hdfs_utils.blacklist import BlacklistView, FileBlacklist
from hdfs_utils.validation import CheckOptions, Reason, Verdict, check_file, data_files, verify
from hdfs_utils.validation.hdfs_blocks import BadBlock, bad_blocks_of_site
from tests.integration.replicas import damage_one_replica, web_address
from tests.unit.hdfs_utils.blacklist.makers import entry
from tests.unit.hdfs_utils.validation import samples
from tests.unit.hdfs_utils.validation.broken_dataset import build

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = pytest.mark.hdfs

ROOT = Path(__file__).parents[2]
LEARN_S = 5.0
WRITERS, ENTRIES_EACH = 50, 2


@pytest.fixture(scope="module")
def fs(cluster_env: dict[str, str]) -> FileSystem:
    return hdfs_utils.connect(conf_dir=cluster_env["HADOOP_CONF_DIR"])


@pytest.fixture
def home(fs: FileSystem, unique_name: Callable[[str], str]) -> Iterator[str]:
    directory = f"/tmp/{unique_name('blacklist')}"
    fs.mkdirs(directory)
    yield directory
    fs.delete(directory, recursive=True)


def run_as(user: str, code: str, env: dict[str, str], *arguments: str) -> str:
    """What a Python process of another user prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        env={**env, "HADOOP_USER_NAME": user},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


WRITER = """
import sys, threading
import hdfs_utils
from hdfs_utils.blacklist import FileBlacklist
from tests.unit.hdfs_utils.blacklist.makers import claim, entry
fs = hdfs_utils.connect()
root, first, count, each, place = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
failures = []
def write(number):
    try:
        own = FileBlacklist(fs, place)
        for n in range(each):
            own.add([
                entry(f"{root}/{number}-{n}", claim(job=f"job{number}")),
                entry(f"{root}/shared", claim(job=f"job{number}")),
            ])
    except BaseException as error:
        failures.append(error)
threads = [threading.Thread(target=write, args=(first + n,)) for n in range(count)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not failures, failures
"""


@pytest.mark.long
def test_fifty_writers_at_once_lose_nothing(
    fs: FileSystem, home: str, cluster_env: dict[str, str]
) -> None:
    """Ten processes of five writers each, all adding and compacting in the same place."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, home, str(5 * n), "5", str(ENTRIES_EACH), f"{home}/o"],
            env={**cluster_env, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
        )
        for n in range(10)
    ]
    try:
        assert [process.wait(120) for process in processes] == [0] * 10
    finally:
        for process in processes:
            process.kill()
    looked = FileBlacklist(fs, f"{home}/o").read([home])
    assert not looked.problems
    found = {e.path: e for e in looked.known.trusted.entries.values()}
    expected = {f"{home}/{n}-{r}" for n in range(WRITERS) for r in range(ENTRIES_EACH)}
    assert found.keys() == expected | {f"{home}/shared"}
    jobs = {claim.job for claim in found[f"{home}/shared"].claims}
    assert jobs == {f"job{n}" for n in range(WRITERS)}


ADD = """
import sys, hdfs_utils
from hdfs_utils.blacklist import FileBlacklist
from tests.unit.hdfs_utils.blacklist.makers import claim, entry
(added,) = FileBlacklist(hdfs_utils.connect(), sys.argv[2]).add([entry(sys.argv[1])])
print(added.is_trusted, added.location)
"""


def test_who_cannot_write_there_cannot_poison_others(
    fs: FileSystem, home: str, cluster_env: dict[str, str]
) -> None:
    env = {**cluster_env, "PYTHONPATH": str(ROOT)}
    open_place = f"{home}/open"
    fs.chmod(home, 0o777)
    make = """
    import sys, hdfs_utils
    hdfs_utils.connect().mkdirs(sys.argv[1])
    hdfs_utils.connect().write_bytes(sys.argv[1] + "/1.txt", b"x")
    """
    run_as("alice", make, env, f"{home}/set")
    assert fs.stat(f"{home}/set").owner == "alice"
    fs.chmod(home, 0o755)
    fs.mkdirs(open_place)
    fs.chmod(open_place, 0o1777)
    by_mallory = run_as("mallory", ADD, env, f"{home}/set/1.txt", open_place)
    assert by_mallory == f"False {open_place}"
    blacklist = FileBlacklist(fs, open_place)
    known = blacklist.read([f"{home}/set"]).known
    assert not known.trusted.entries
    (told,) = known.open.entries.values()
    assert {claim.by for claim in told.claims} == {"mallory"}, "HDFS says who wrote it"
    by_alice = run_as("alice", ADD, env, f"{home}/set/1.txt", open_place)
    assert by_alice == f"True {home}/set/.yarnam-blacklist"
    (proved,) = blacklist.read([f"{home}/set"]).known.trusted.entries.values()
    assert {claim.by for claim in proved.claims} == {"alice"}
    # A place of mallory's own above the data of others: /tmp lets everybody make directories.
    fs.chmod(home, 0o1777)
    make_place = """
    import sys, hdfs_utils
    from hdfs_utils.blacklist import encode
    from tests.unit.hdfs_utils.blacklist.makers import entry
    fs = hdfs_utils.connect()
    fs.write_bytes(sys.argv[1] + "/.yarnam-blacklist/x.json", encode([entry(sys.argv[2])]))
    """
    run_as("mallory", make_place, env, home, f"{home}/set/2.txt")
    looked = blacklist.read([f"{home}/set"]).known
    assert {e.path for e in looked.trusted.entries.values()} == {f"{home}/set/1.txt"}
    assert f"{home}/set/2.txt" in {e.path for e in looked.open.entries.values()}


@pytest.mark.zookeeper
def test_a_running_job_learns_within_seconds(
    fs: FileSystem, home: str, cluster_env: dict[str, str], unique_name: Callable[[str], str]
) -> None:
    from kazoo.client import KazooClient

    from yarnam.adapters.hdfs.shared_blacklist import SharedBlacklist
    from yarnam.adapters.zookeeper.blacklist_notifier import ZooKeeperBlacklistNotifier
    from yarnam.adapters.zookeeper.session import ZooKeeper

    hosts = cluster_env["YARNAM_ZOOKEEPER"].partition("/")[0]
    root = unique_name("blacklist-test")

    def open_one() -> SharedBlacklist:
        notifier = ZooKeeperBlacklistNotifier(ZooKeeper(f"{hosts}/{root}"))
        return SharedBlacklist(FileBlacklist(fs, f"{home}/open"), notifier)

    running, finding = open_one(), open_one()
    try:
        arrived: dict[str, float] = {}
        news = threading.Condition()

        def changed(looked: BlacklistView) -> None:
            with news:
                for found in looked.known.trusted.entries.values():
                    arrived.setdefault(found.path, time.monotonic())
                news.notify_all()

        running.watch([home], changed)
        for number in range(3):
            path = f"{home}/{number}"
            finding.add([entry(path)], at=home)
            added = time.monotonic()
            with news:
                assert news.wait_for(lambda path=path: path in arrived, LEARN_S)
            assert arrived[path] - added < LEARN_S
    finally:
        running.close()
        finding.close()
        cleaner = KazooClient(hosts)
        cleaner.start(10)
        cleaner.delete(f"/{root}", recursive=True)
        cleaner.stop()
        cleaner.close()


def test_what_is_broken_on_hdfs_is_found_and_nothing_else(fs: FileSystem, home: str) -> None:
    made = build(fs, f"{home}/set", clean_files=78, per_way=1, threads=32)
    reports = list(verify(fs, data_files(fs, f"{home}/set"), CheckOptions(workers=4)))
    assert len(reports) == 100
    assert {r.path for r in reports if r.verdict is Verdict.CORRUPT} == made.broken.keys()
    assert all(r.verdict is not Verdict.NOT_CHECKED for r in reports)


def test_a_bad_disk_is_not_a_bad_file(fs: FileSystem, home: str, cluster: EmbeddedCluster) -> None:
    """The only replica is changed on its DataNode's disk: that is HDFS's fault, said as such, and
    never the content's. (With another replica: test_bad_replicas.py.)"""
    path = f"{home}/disk.tfrecord"
    fs.write_bytes(path, samples.make("a.tfrecord", 1))
    block = damage_one_replica(cluster, path)
    report = check_file(fs, fs.stat(path))
    assert report.verdict is Verdict.CORRUPT
    assert not report.has_bad_content
    (finding,) = report.findings
    assert finding.reason is Reason.BLOCK_CORRUPT
    assert "no good replica of the block at byte 0" in finding.message
    web = web_address(cluster)
    assert bad_blocks_of_site(home, (web,), "root") == (BadBlock(block, path),)
    with pytest.raises(hdfs_utils.HdfsError, match="Superuser privilege"):
        bad_blocks_of_site(home, (web,), "alice")
