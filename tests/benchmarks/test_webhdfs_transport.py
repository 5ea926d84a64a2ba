"""Our WebHDFS transport beside the ``hdfs`` package (hdfscli), on the same daemons in turns.

Why ours stays: docs/adr/0024-webhdfs-transport.md. The ratio is the package's time by ours: above 1
ours is faster. Other work on the machine slows both sides, so they take turns.

    pip install hdfs && pytest -m benchmark -s tests/benchmarks/test_webhdfs_transport.py
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import hdfs_utils
from hdfs_utils import FileSystem

pytestmark = [pytest.mark.hdfs, pytest.mark.benchmark, pytest.mark.timeout(1200)]
hdfs = pytest.importorskip("hdfs", reason="the benchmark compares with the package hdfs")

ROUNDS = int(os.environ.get("YARNAM_BENCHMARK_ROUNDS", "3"))
FILES, SIZE = 300, 100 << 10
LARGE = 256 << 20
THREADS = 8
PIECE = 1 << 20

START = {
    "hdfs": "import hdfs; c = hdfs.InsecureClient(sys.argv[1], user='x'); c.status('/')",
    "ours": "import hdfs_utils; hdfs_utils.connect(sys.argv[1].replace('http', 'webhdfs', 1),"
    " conf={}).stat('/')",
}


@pytest.fixture(scope="module")
def fs(cluster_env: dict[str, str]) -> FileSystem:
    return hdfs_utils.connect(conf_dir=cluster_env["HADOOP_CONF_DIR"], backend="webhdfs")


@pytest.fixture(scope="module")
def address(cluster_env: dict[str, str]) -> str:
    from hdfs_utils.config import configuration

    conf = configuration.load(cluster_env["HADOOP_CONF_DIR"])
    return f"http://{conf['dfs.namenode.http-address']}"


@pytest.fixture(scope="module")
def package(address: str, fs: FileSystem) -> Any:
    session = hdfs.client.rq.Session()
    session.trust_env = False  # no proxy between the two
    return hdfs.InsecureClient(address, user=fs.stat("/").owner, session=session, timeout=30)


@pytest.fixture
def home(fs: FileSystem, unique_name: Callable[[str], str]) -> Iterator[str]:
    directory = f"/tmp/{unique_name('webhdfs-benchmark')}"
    fs.mkdirs(directory)
    fs.chmod(directory, 0o777)
    yield directory
    fs.delete(directory, recursive=True)


def at_once(call: Callable[[int], object], count: int) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(call, range(count)))


def read_package(package: Any, path: str) -> int:
    with package.read(path) as reader:
        return sum(len(piece) for piece in iter(lambda: reader.read(PIECE), b""))


def read_ours(fs: FileSystem, path: str) -> int:
    with fs.open_reader(path) as reader:
        return sum(len(piece) for piece in iter(lambda: reader.read(8 * PIECE), b""))


def write_ours(fs: FileSystem, path: str, pieces: list[bytes]) -> None:
    with fs.open_writer(path, overwrite=True) as writer:
        for piece in pieces:
            writer.write(piece)


def test_beside_the_package(fs: FileSystem, package: Any, home: str, address: str) -> None:
    data = os.urandom(SIZE)
    large = [os.urandom(PIECE)] * (LARGE // PIECE)
    work: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        f"{FILES} files of 100 KiB written": (
            lambda: at_once(
                lambda n: package.write(f"{home}/p{n}", data=data, overwrite=True), FILES
            ),
            lambda: at_once(lambda n: write_ours(fs, f"{home}/o{n}", [data]), FILES),
        ),
        f"{FILES} files of 100 KiB read": (
            lambda: at_once(lambda n: read_package(package, f"{home}/p{n}"), FILES),
            lambda: at_once(lambda n: read_ours(fs, f"{home}/o{n}"), FILES),
        ),
        f"{FILES} questions, one after the other": (
            lambda: [package.status(f"{home}/p{n}") for n in range(FILES)],
            lambda: [fs.stat(f"{home}/o{n}") for n in range(FILES)],
        ),
        "256 MiB written": (
            lambda: package.write(f"{home}/large", data=iter(large), overwrite=True),
            lambda: write_ours(fs, f"{home}/large", large),
        ),
        "256 MiB read": (
            lambda: read_package(package, f"{home}/large"),
            lambda: read_ours(fs, f"{home}/large"),
        ),
    }
    print()
    for name, sides in work.items():
        took: tuple[list[float], list[float]] = ([], [])
        for turn in range(2 * ROUNDS):
            which = turn % 2
            began = time.monotonic()
            sides[which]()
            took[which].append(time.monotonic() - began)
        report(name, *(statistics.median(each) for each in took))
    for measure in ("cpu_s", "mb"):
        report(
            f"a process that asks once, {measure}", *(started(w, address)[measure] for w in START)
        )


def started(which: str, address: str) -> dict[str, float]:
    script = f"""
        import json, resource, sys
        {START[which]}
        used = resource.getrusage(resource.RUSAGE_SELF)
        peak = [l for l in open("/proc/self/status") if l.startswith("VmHWM")][0].split()[1]
        print(json.dumps({{"cpu_s": used.ru_utime + used.ru_stime, "mb": int(peak) / 1024}}))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), address]
    environ = {name: text for name, text in os.environ.items() if "proxy" not in name.lower()}
    rows = [
        json.loads(subprocess.run(command, env=environ, capture_output=True, check=True).stdout)
        for _ in range(ROUNDS)
    ]
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def report(name: str, theirs: float, ours: float) -> None:
    print(f"{name}: hdfs {theirs:.2f}, ours {ours:.2f}: ratio {theirs / ours:.2f}")
