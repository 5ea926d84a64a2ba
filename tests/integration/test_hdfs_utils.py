"""hdfs_utils on a real NameNode and DataNode: kill -9, stale writers, users, quotas, memory."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import hdfs_utils
from hdfs_utils import FileSystem, checkpoints, transfer
from hdfs_utils.backends.base import is_temporary
from hdfs_utils.errors import Fenced, NotFound, QuotaExceeded
from hdfs_utils.journal.log import AppendLog, read_journal

pytestmark = pytest.mark.hdfs

# A dead writer's last block is recovered on a DataNode's next heartbeat; the default is 3 s.
TAKEOVER_S = 10.0
APPEND_P50_S = 0.050
RESIDENT_KIB = 40 << 10


@pytest.fixture(scope="module")
def fs(cluster_env: dict[str, str]) -> FileSystem:
    return hdfs_utils.connect(conf_dir=cluster_env["HADOOP_CONF_DIR"])


@pytest.fixture
def home(fs: FileSystem, unique_name: Callable[[str], str]) -> Iterator[str]:
    directory = f"/tmp/{unique_name('hdfs-utils')}"
    fs.mkdirs(directory)
    yield directory
    fs.delete(directory, recursive=True)


@contextmanager
def python(code: str, env: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process that is killed with SIGKILL at the end, where it still runs."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_until(process: subprocess.Popen[str], duration_s: float) -> list[str]:
    """What it prints until it is killed after ``duration_s`` from its first line."""
    assert process.stdout is not None
    found = [process.stdout.readline()]
    assert found[0], "the process died at once"
    time.sleep(duration_s)
    process.kill()
    return found + process.stdout.readlines()


WRITER = """
    import sys, hdfs_utils
    from hdfs_utils.journal.log import AppendLog
    log = AppendLog.open(hdfs_utils.connect(), sys.argv[1])
    number = int(sys.argv[2])
    while True:
        number += 1
        log.append([b"%d" % number, b"x" * (number % 5000)] if number % 2 else [b"%d" % number])
        print(number, flush=True)
"""


def numbers(records: tuple[bytes, ...]) -> list[int]:
    return [int(record) for record in records if not record.startswith(b"x") and record]


def test_every_acknowledged_record_survives_kill_9(
    fs: FileSystem, home: str, cluster_env: dict[str, str]
) -> None:
    last = 0
    for _ in range(3):
        with python(WRITER, cluster_env, home, str(last)) as process:
            acknowledged = [int(line) for line in lines_until(process, random.uniform(0.05, 0.8))]
        start = time.monotonic()
        with AppendLog.open(fs, home) as log:
            assert time.monotonic() - start < TAKEOVER_S
        found = numbers(log.recovered.records)
        assert found == list(range(1, len(found) + 1))
        assert found[-1] - acknowledged[-1] in (0, 1), "more than one batch was in flight"
        last = found[-1]
    assert last > 10


def test_a_live_stale_writer_is_cut_off(
    fs: FileSystem, home: str, cluster_env: dict[str, str]
) -> None:
    code = """
    import sys, hdfs_utils
    from hdfs_utils.errors import Fenced
    from hdfs_utils.journal.log import AppendLog
    log = AppendLog.open(hdfs_utils.connect(), sys.argv[1])
    number = 0
    try:
        while True:
            number += 1
            log.append([b"%d" % number])
            print(number, flush=True)
    except Fenced as error:
        print("fenced", error, flush=True)
    """
    with python(code, cluster_env, home) as stale:
        assert stale.stdout is not None
        assert stale.stdout.readline() == "1\n"
        live = numbers(read_journal(fs, home).records)
        assert live == list(range(1, len(live) + 1))
        with AppendLog.open(fs, home) as log:
            log.append([b"mine"])
            *acknowledged, end = stale.stdout.read().splitlines()
            assert end.startswith("fenced")
            log.append([b"too"])
    recovered = numbers(log.recovered.records)
    assert recovered[: len(acknowledged) + 1] == list(range(1, len(acknowledged) + 2))
    assert len(recovered) - len(acknowledged) - 1 in (0, 1)
    assert read_journal(fs, home).records == (*log.recovered.records, b"mine", b"too")


def test_an_append_is_fast(fs: FileSystem, home: str) -> None:
    times = []
    with AppendLog.open(fs, home) as log:
        for number in range(100):
            start = time.perf_counter()
            log.append([b'{"event": "ContainerGranted", "n": %d}' % number] * 4)
            times.append(time.perf_counter() - start)
    assert sorted(times)[50] <= APPEND_P50_S


def test_memory_of_a_process_with_a_journal(home: str, cluster_env: dict[str, str]) -> None:
    code = """
    import sys, hdfs_utils
    from hdfs_utils.journal.log import AppendLog
    fs = hdfs_utils.connect()
    log = AppendLog.open(fs, sys.argv[1])
    for number in range(200):
        log.append([b"x" * 1000])
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(int(status["VmRSS"].split()[0]), int(status["Threads"]))
    """
    with python(code, cluster_env, home) as process:
        assert process.stdout is not None
        resident, threads = map(int, process.stdout.readline().split())
    assert resident <= RESIDENT_KIB
    assert threads <= 8


def test_a_process_can_be_another_user(
    fs: FileSystem, home: str, cluster_env: dict[str, str]
) -> None:
    fs.mkdirs(f"{home}/open", 0o777)
    fs.chmod(f"{home}/open", 0o777)
    fs.mkdirs(f"{home}/secret", 0o700)
    fs.chmod(f"{home}/secret", 0o700)
    code = """
    import sys, hdfs_utils
    from hdfs_utils.errors import PermissionDenied
    fs = hdfs_utils.connect(user="stranger")
    fs.write_atomic(sys.argv[1] + "/open/mine", b"x")
    for call in (lambda: fs.list(sys.argv[1] + "/secret"),
                 lambda: fs.write_bytes(sys.argv[1] + "/a", b""),
                 lambda: fs.chmod(sys.argv[1], 0o777)):
        try:
            call()
        except PermissionDenied as error:
            print("denied", "stranger" in str(error))
    """
    env = {k: v for k, v in cluster_env.items() if k != "HADOOP_USER_NAME"}
    with python(code, env, home) as process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        assert process.wait(10) == 0
    assert lines[:2] == ["denied True", "denied True"]
    assert lines[2].startswith("denied")
    assert fs.stat(f"{home}/open/mine").owner == "stranger"


def test_quotas(fs: FileSystem, home: str, cluster_env: dict[str, str]) -> None:
    fs.mkdirs(f"{home}/small")
    quota = ["hdfs", "dfsadmin", "-setQuota", "3", f"{home}/small"]
    subprocess.run(quota, env=cluster_env, check=True, capture_output=True)
    fs.write_bytes(f"{home}/small/1", b"")
    fs.write_bytes(f"{home}/small/2", b"")
    with pytest.raises(QuotaExceeded) as caught:
        fs.write_atomic(f"{home}/small/3", b"")
    assert not caught.value.retriable


def test_kill_9_while_saving_never_leaves_a_torn_newest_checkpoint(
    fs: FileSystem, home: str, cluster_env: dict[str, str]
) -> None:
    code = """
    import sys, hdfs_utils
    from hdfs_utils import checkpoints
    fs = hdfs_utils.connect()
    step = int(sys.argv[2])
    while True:
        step += 1
        files = {f"part-{n}": b"%d " % step * 50_000 for n in range(3)}
        checkpoints.save(sys.argv[1], step, files, keep=2, fs=fs)
        print(step, flush=True)
    """
    last = 0
    for _ in range(3):
        with python(code, cluster_env, home, str(last)) as process:
            saved = [int(line) for line in lines_until(process, random.uniform(0.1, 2.0))]
        found = checkpoints.load_latest(home, fs=fs, report=lambda _skipped: None)
        assert found is not None
        checkpoint, files = found
        last = checkpoint.step
        assert last - saved[-1] in (0, 1)
        assert set(files.values()) == {b"%d " % last * 50_000}


def test_kill_9_while_sending_a_tree_leaves_nothing_at_its_name(
    fs: FileSystem, home: str, cluster_env: dict[str, str], tmp_path: Path
) -> None:
    for number in range(40):
        (tmp_path / f"{number}").write_bytes(os.urandom(200_000))
    code = """
    import sys, hdfs_utils
    from hdfs_utils import transfer
    fs = hdfs_utils.connect()
    print("begin", flush=True)
    transfer.put_tree(fs, sys.argv[2], sys.argv[1] + "/tree", threads=4)
    """
    with python(code, cluster_env, home, str(tmp_path)) as process:
        lines_until(process, 0.3)
    with pytest.raises(NotFound):
        fs.stat(f"{home}/tree")
    assert all(is_temporary(status.path) for status in fs.list(home))
    sent = transfer.put_tree(fs, tmp_path, f"{home}/tree")
    assert (sent.files, sent.size) == (40, 40 * 200_000)
    transfer.get_tree(fs, f"{home}/tree", tmp_path.parent / "back")
    assert transfer.sha256_tree(tmp_path.parent / "back") == transfer.sha256_tree(tmp_path)


def test_two_openers_at_once_one_journal(fs: FileSystem, home: str) -> None:
    with AppendLog.open(fs, home, epoch=1) as first:
        first.append([b"one"])
        with pytest.raises(Fenced):
            AppendLog.open(fs, home, epoch=1)
        first.append([b"two"])
    assert read_journal(fs, home).records == (b"one", b"two")
