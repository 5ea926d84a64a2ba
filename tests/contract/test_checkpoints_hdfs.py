"""Checkpoints on a real HDFS: zombies, groups of processes, damage on disk, rewritten files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import hdfs_utils
from hdfs_utils import FileSystem, checkpoints
from hdfs_utils.checkpoints import Checkpointer, Limits, SkippedCheckpoint, Token, catalog

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = pytest.mark.hdfs

LIMIT_S = 60.0
JOB = "application_1700000000000_0001"


@pytest.fixture(scope="module")
def fs(cluster_env: dict[str, str]) -> FileSystem:
    return hdfs_utils.connect(conf_dir=cluster_env["HADOOP_CONF_DIR"])


@pytest.fixture
def home(fs: FileSystem, unique_name: Callable[[str], str]) -> Iterator[str]:
    directory = f"/tmp/{unique_name('checkpoints')}"
    yield directory
    fs.delete(directory, recursive=True)


def start(code: str, env: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def attempt(fs: FileSystem, home: str, number: int, **options: object) -> Checkpointer:
    options = {"limits": Limits(patience_s=3.0, commit_s=30.0, agree_s=30.0), **options}
    return Checkpointer(home, token=Token(JOB, (number,)), fs=fs, **options)  # type: ignore[arg-type]


ZOMBIE = """
    import signal, sys, threading, hdfs_utils
    from hdfs_utils.checkpoints import Checkpointer, Token
    from hdfs_utils.backends.native import NativeFileSystem

    home, when = sys.argv[1:]
    fs = hdfs_utils.connect()
    one = Checkpointer(home, token=Token("application_1700000000000_0001", (1,)), fs=fs)
    one.save(1, {"w": b"first"})
    rename = NativeFileSystem.rename

    def sleep_first(self, source, target, overwrite=False):
        if when == "before" and target.endswith("manifest.json"):
            # This very thread: where another one stops first, this one goes on to rename.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        return rename(self, source, target, overwrite)

    NativeFileSystem.rename = sleep_first
    print("saving", flush=True)
    try:
        one.save(2, {"w": b"zombie"})
    except hdfs_utils.HdfsError as error:
        print(type(error).__name__, error, flush=True)
    else:
        print("saved", flush=True)
"""


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_zombie_stopped_before_its_rename_cannot_win_later(
    fs: FileSystem, home: str, cluster_env: dict[str, str]
) -> None:
    with start(ZOMBIE, cluster_env, home, "before") as zombie:
        try:
            assert zombie.stdout
            assert zombie.stdout.readline() == "saving\n"
            deadline = time.monotonic() + LIMIT_S
            while not is_stopped(zombie.pid):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            successor = attempt(fs, home, 2, report=lambda _skipped: None)
            found = successor.load()
            assert found is not None
            assert found[0].step == 1
            saved = successor.save(2, {"w": b"successor"})
            os.kill(zombie.pid, signal.SIGCONT)
            said = zombie.stdout.read()
            assert said.startswith("Fenced ")
            assert f"{JOB}:2" in said
        finally:
            zombie.kill()
    assert checkpoints.latest(home, fs=fs) == saved
    whole = [found.path for found in catalog.list_checkpoints(fs, home) if found.checkpoint]
    assert len(whole) == 2
    assert not any("-e000001-" in path for path in whole[:1])


RANK = """
    import sys, json, numpy as np, hdfs_utils
    from hdfs_utils.checkpoints import Checkpointer, Part, Region, Token

    home, rank, size, number, step = sys.argv[1], *map(int, sys.argv[2:])
    one = Checkpointer(
        home, rank=rank, world_size=size,
        token=Token("application_1700000000000_0001", (number,)), fs=hdfs_utils.connect(),
    )
    bounds = [1000 * n // size for n in range(size + 1)]
    first, stop = bounds[rank], bounds[rank + 1]
    found = one.restore(lambda opened: opened.array("w", Region((first, 0), (stop - first, 64))))
    before = None if found is None else (found[0].step, float(found[1].sum()))
    array = np.arange(1000 * 64.0).reshape(1000, 64) * step
    one.save(step, {"w": Part(array[first:stop], array.shape, (first, 0))})
    print(json.dumps([before, float(array[first:stop].sum())]))
"""


def test_a_group_of_processes_and_one_of_another_size(
    fs: FileSystem, home: str, cluster_env: dict[str, str]
) -> None:
    import json

    results = []
    for number, size in ((1, 3), (2, 2)):
        arguments = [(home, str(rank), str(size), str(number), str(number)) for rank in range(size)]
        ranks = [start(RANK, cluster_env, *given) for given in arguments]
        outputs = [process.communicate(timeout=LIMIT_S) for process in ranks]
        assert all(process.returncode == 0 for process in ranks), outputs
        results.append([json.loads(out) for out, _ in outputs])
    assert [before for before, _ in results[0]] == [None] * 3
    assert [before[0] for before, _ in results[1]] == [1, 1]
    total = sum(after for _, after in results[0])
    assert sum(before[1] for before, _ in results[1]) == pytest.approx(total)
    found = checkpoints.latest(home, fs=fs)
    assert found is not None
    assert (found.step, found.world_size) == (2, 2)
    if not fs.capabilities.stores_crc32c:
        return  # with Kerberos
    # HDFS's own checksum is the second witness.
    paths = [f"{found.path}/{shard.file}" for shard in found.shards]
    assert fs.crc32c(paths) == tuple(shard.crc32c for shard in found.shards)


def test_a_rewritten_file_is_reported_and_set_aside(fs: FileSystem, home: str) -> None:
    one = attempt(fs, home, 1)
    first, second = (one.save(step, {"w": np.full(1000, step)}) for step in (1, 2))
    assert first
    assert second
    path = f"{second.path}/{second.shards[0].file}"
    data = bytearray(fs.read_bytes(path))
    data[100] ^= 1
    fs.write_bytes(path, bytes(data), overwrite=True)
    # Already without reading it: HDFS's checksum is another one, where HDFS tells it.
    newest = "torn" if fs.capabilities.stores_crc32c else "whole"
    assert [found.state.value for found in catalog.list_checkpoints(fs, home)] == [newest, "whole"]
    skipped: list[SkippedCheckpoint] = []
    found = attempt(fs, home, 2, report=skipped.append).load()
    assert found is not None
    assert found[0] == first
    [one_skipped] = skipped
    assert one_skipped.was == second.path
    why = "checksum" if newest == "torn" else "not those that were saved"
    assert why in one_skipped.reason


def block_file(cluster: EmbeddedCluster, size: int) -> Path:
    """The one block of this length on the DataNodes' disks."""
    root = cluster.paths.root
    found = [
        path
        for path in root.rglob("blk_*")
        if path.suffix != ".meta" and path.is_file() and path.stat().st_size == size
    ]
    assert len(found) == 1, found
    return found[0]


def test_a_flipped_bit_on_a_data_nodes_disk_is_reported_and_the_one_before_is_taken(
    fs: FileSystem, home: str, cluster: EmbeddedCluster
) -> None:
    one = attempt(fs, home, 1)
    first = one.save(1, {"w": np.full(1000, 1)})
    # A length that no other block has.
    second = one.save(2, {"w": np.random.default_rng().bytes(123_000 + os.getpid() % 7919)})
    assert first
    assert second
    path = block_file(cluster, second.shards[0].length)
    with path.open("r+b") as block:
        block.seek(5000)
        byte = block.read(1)[0]
        block.seek(5000)
        block.write(bytes([byte ^ 4]))
    skipped: list[SkippedCheckpoint] = []
    found = attempt(fs, home, 2, report=skipped.append).load()
    assert found is not None
    assert found[0] == first
    assert skipped[0].path.startswith((f"{home}/corrupt-", f"{home}/step-"))
    assert str(second.path) in (skipped[0].was, skipped[0].path)
