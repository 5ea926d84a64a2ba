"""What fsspec's door costs: the rate of a large file through it, as a share of our own API's.

In turns, each way ``YARNAM_BENCH_ROUNDS`` times (5) over ``YARNAM_BENCH_MIB`` (256); the medians'
ratio counts. The bar: 0.9.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pytest

import hdfs_utils
from hdfs_utils import FileSystem

pytestmark = [pytest.mark.benchmark, pytest.mark.hdfs, pytest.mark.timeout(900)]

MIB = int(os.environ.get("YARNAM_BENCH_MIB", "256"))
ROUNDS = int(os.environ.get("YARNAM_BENCH_ROUNDS", "5"))
PIECE = 8 << 20
BAR = 0.9


@pytest.fixture
def fs(cluster_env: dict[str, str]) -> FileSystem:
    return hdfs_utils.connect(conf_dir=cluster_env["HADOOP_CONF_DIR"])


@pytest.fixture
def home(fs: FileSystem, unique_name: Callable[[str], str]) -> Iterator[str]:
    directory = f"/tmp/{unique_name('rate')}"
    fs.mkdirs(directory)
    yield directory
    fs.delete(directory, recursive=True)


def test_a_large_file_through_fsspec(
    fs: FileSystem, home: str, cluster_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", cluster_env["HADOOP_CONF_DIR"])
    data = os.urandom(PIECE)
    path = f"{home}/a"

    def write(sink: Any) -> None:
        with sink:
            for _ in range(MIB // 8):
                sink.write(data)

    def read(source: Any) -> None:
        with source:
            size = 0
            while piece := source.read(PIECE):
                size += len(piece)
        assert size == MIB // 8 * PIECE

    ways: dict[str, Callable[[], None]] = {
        "write": lambda: write(fs.open_writer(path, overwrite=True)),
        "write by fsspec": lambda: write(fsspec.open(f"{fs.uri}{path}", "wb").open()),
        "read": lambda: read(fs.open_reader(path)),
        "read by fsspec": lambda: read(fsspec.open(f"{fs.uri}{path}", "rb").open()),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.monotonic()
            way()
            took[name].append(time.monotonic() - began)
    rates = {name: MIB / statistics.median(times) for name, times in took.items()}
    print(f"\nload {os.getloadavg()[0]:.1f}, {MIB} MiB, {ROUNDS} rounds")
    for name, rate in rates.items():
        print(f"  {name:16} {rate:7.0f} MiB/s")
    for name in ("read", "write"):
        share = rates[f"{name} by fsspec"] / rates[name]
        print(f"  {name}: {share:.2f} of our own; bar {BAR}: {'met' if share >= BAR else 'missed'}")
