"""What checkpoints cost: the slow-down of a step loop, and restoring against reading.

``YARNAM_BENCH_MIB`` sets the size (1024), ``YARNAM_BENCH_EVERY_S`` the interval of saves (30) and
``YARNAM_BENCH_ROUNDS`` their number (2). On a busy machine take a smaller size and interval and
more rounds: the figures are ratios of what is measured in turns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import hdfs_utils
from hdfs_utils import FileSystem
from hdfs_utils.checkpoints import Checkpointer, open_checkpoint
from hdfs_utils.checkpoints.format.reader import RUN

pytestmark = [pytest.mark.benchmark, pytest.mark.hdfs, pytest.mark.slow, pytest.mark.timeout(900)]

MIB = int(os.environ.get("YARNAM_BENCH_MIB", "1024"))
EVERY_S = float(os.environ.get("YARNAM_BENCH_EVERY_S", "30"))
ROUNDS = os.environ.get("YARNAM_BENCH_ROUNDS", "2")
SLOWEST_LOOP = 0.05
SLOWEST_RESTORE = 0.7

# One thread of compute, as a process that drives a GPU has; the rest of the machine is free.
LOOP = """
    import json, os, sys, time
    import numpy as np
    import hdfs_utils
    from hdfs_utils.checkpoints import Checkpointer, Retention

    home, mib, every_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    rounds = int(sys.argv[4])
    made = [np.random.default_rng(n).random(mib << 14) for n in range(8)]
    state = {f"w{n}": array.reshape(-1, 1024) for n, array in enumerate(made)}
    a = np.random.default_rng(0).random((300, 300))

    def steps(seconds):
        global a
        count, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            for _ in range(5):
                a = np.tanh(a @ a * 0.01)
            count += 1
        return count

    one = Checkpointer(home, background=True, retention=Retention(1))
    one.save(0, state)  # the copy's memory is made once
    one.wait()
    plain, saving, blocked_s = 0, 0, []
    for number in range(rounds):
        plain += steps(every_s / 2)
        began = time.perf_counter()
        one.save(number + 1, state)
        blocked_s.append(time.perf_counter() - began)
        saving += steps(every_s - blocked_s[-1])
        one.wait()
        plain += steps(every_s / 2)
    one.close()
    print(json.dumps({"plain": plain, "saving": saving, "blocked_s": blocked_s}))
"""


@pytest.fixture(scope="module")
def fs(cluster_env: dict[str, str]) -> FileSystem:
    return hdfs_utils.connect(conf_dir=cluster_env["HADOOP_CONF_DIR"])


@pytest.fixture
def home(fs: FileSystem, unique_name: Callable[[str], str]) -> Iterator[str]:
    directory = f"/tmp/{unique_name('bench')}"
    yield directory
    fs.delete(directory, recursive=True)


def test_a_save_in_the_background_hardly_slows_a_step_loop(
    home: str, cluster_env: dict[str, str]
) -> None:
    import json

    command = [sys.executable, "-c", textwrap.dedent(LOOP), home, str(MIB), str(EVERY_S), ROUNDS]
    env = {**cluster_env, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    slower = 1 - found["saving"] / found["plain"]
    print(
        f"\n{MIB} MiB every {EVERY_S:.0f} s: {slower:.1%} fewer steps ({found['saving']} against "
        f"{found['plain']}), blocked {max(found['blocked_s']):.2f} s, load {os.getloadavg()[0]:.1f}"
    )
    print(f"of which blocked: {sum(found['blocked_s']) / (EVERY_S * int(ROUNDS)):.1%}")
    assert slower <= SLOWEST_LOOP


def test_restoring_is_nearly_as_fast_as_reading(fs: FileSystem, home: str) -> None:
    arrays = {f"w{n}": np.random.default_rng(n).random(MIB << 14) for n in range(8)}
    saved = Checkpointer(home, fs=fs).save(1, arrays)
    assert saved
    path = f"{saved.path}/{saved.shards[0].file}"

    def read(start: int) -> int:
        with fs.open_reader(path) as reader:
            reader.seek(start)
            return len(reader.read(RUN))

    ratios = []
    for _ in range(3):
        began = time.perf_counter()
        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(read, range(0, saved.size, RUN))) == saved.size
        read_s = time.perf_counter() - began
        began = time.perf_counter()
        found = open_checkpoint(saved, fs=fs).arrays()
        restore_s = time.perf_counter() - began
        assert all(np.array_equal(found[name], arrays[name]) for name in arrays)
        ratios.append(read_s / restore_s)
        print(
            f"\n{MIB} MiB: read {MIB / read_s:.0f} MiB/s, restored {MIB / restore_s:.0f} MiB/s, "
            f"ratio {ratios[-1]:.2f}, load {os.getloadavg()[0]:.1f}"
        )
    assert max(ratios) >= SLOWEST_RESTORE
