"""pandas and pyarrow on a real HDFS through hdfs_utils."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests import abstract

import hdfs_utils
from hdfs_utils import FileSystem, to_fsspec, to_pyarrow
from tests.integration.framework_venvs import beside_ours

pytestmark = pytest.mark.hdfs


@pytest.fixture(params=["native", "webhdfs"])
def fs(request: pytest.FixtureRequest, cluster_env: dict[str, str]) -> FileSystem:
    return hdfs_utils.connect(conf_dir=cluster_env["HADOOP_CONF_DIR"], backend=request.param)


@pytest.fixture
def home(fs: FileSystem, unique_name: Callable[[str], str]) -> Iterator[str]:
    directory = f"/tmp/{unique_name('fsspec')}"
    fs.mkdirs(directory)
    yield directory
    fs.delete(directory, recursive=True)


def test_pandas_reads_and_writes(fs: FileSystem, home: str) -> None:
    frame = pd.DataFrame({"a": range(1000), "b": [f"row {n}" for n in range(1000)]})
    handed = to_fsspec(fs)
    frame.to_parquet(f"{home}/a.parquet", filesystem=handed)
    assert pd.read_parquet(f"{home}/a.parquet", filesystem=handed).equals(frame)
    with handed.open(f"{home}/a.csv", "w") as sink:
        frame.to_csv(sink, index=False)
    with handed.open(f"{home}/a.csv", "r") as source:
        assert pd.read_csv(source).equals(frame)
    assert [s.path for s in fs.list(home)] == [f"{home}/a.csv", f"{home}/a.parquet"]


def test_pyarrow_datasets(fs: FileSystem, home: str) -> None:
    table = pa.table({"year": [2024, 2024, 2025], "x": [1.0, 2.0, 3.0]})
    handed = to_pyarrow(fs)
    part = ds.partitioning(pa.schema([("year", pa.int64())]), flavor="hive")
    ds.write_dataset(table, f"{home}/t", format="parquet", partitioning=part, filesystem=handed)
    found = ds.dataset(f"{home}/t", format="parquet", partitioning=part, filesystem=handed)
    assert found.count_rows() == 3
    assert found.to_table(filter=ds.field("year") == 2025)["x"].to_pylist() == [3.0]


def test_an_fsspec_file_is_whole_or_not_there(fs: FileSystem, home: str) -> None:
    handed = to_fsspec(fs)

    def half() -> None:
        with handed.open(f"{home}/a", "wb") as sink:
            sink.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert fs.list(home) == []
    with pytest.raises(FileNotFoundError):
        handed.info(f"{home}/a")
    handed.pipe_file(f"{home}/d/a", b"0123456789")
    assert handed.cat_file(f"{home}/d/a", start=2, end=5) == b"234"
    assert handed.find(home) == [f"{home}/d/a"]
    assert handed.glob(f"{home}/*/a") == [f"{home}/d/a"]
    handed.mv(f"{home}/d/a", f"{home}/b")
    handed.rm(f"{home}/b")
    assert handed.ls(home, detail=False) == [f"{home}/d"]


def test_urls_are_opened_without_a_jvm(
    fs: FileSystem, home: str, cluster_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", cluster_env["HADOOP_CONF_DIR"])
    monkeypatch.setenv("HDFS_UTILS_BACKEND", fs.backend)
    frame = pd.DataFrame({"a": range(10)})
    url = f"{fs.uri}{home}/a.parquet"
    # Without options pandas asks pyarrow for Parquet first, which wants libhdfs and a JVM.
    frame.to_parquet(url, storage_options={})
    assert pd.read_parquet(url, storage_options={}).equals(frame)
    assert pd.read_parquet(f"hdfs://{home}/a.parquet", storage_options={}).equals(frame)
    frame.to_csv(f"{fs.uri}{home}/a.csv", index=False)
    assert pd.read_csv(f"{fs.uri}{home}/a.csv").equals(frame)
    handed, path = fsspec.url_to_fs(url)
    assert path == f"{home}/a.parquet"
    assert fsspec.url_to_fs(url)[0] is handed, "one client for each file system"
    assert pickle.loads(pickle.dumps(handed)).size(path) == fs.stat(path).length
    assert ds.dataset(f"{home}/a.parquet", filesystem=handed).count_rows() == 10


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask's, of pandas 3.1
def test_dask_and_datasets_by_url(
    fs: FileSystem, home: str, cluster_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import dask.dataframe as dd
    import datasets

    options = {"conf_dir": cluster_env["HADOOP_CONF_DIR"], "backend": fs.backend}
    frame = pd.DataFrame({"a": range(100), "b": [str(n) for n in range(100)]})
    parts = dd.from_pandas(frame, npartitions=3)
    parts.to_parquet(f"hdfs://{home}/parts", storage_options=options)
    again = dd.read_parquet(f"hdfs://{home}/parts", storage_options=options)
    assert int(again["a"].sum().compute()) == 4950
    made = datasets.Dataset.from_pandas(frame)
    made.save_to_disk(f"hdfs://{home}/set", storage_options=options)
    loaded = datasets.load_from_disk(f"hdfs://{home}/set", storage_options=options)
    assert loaded["b"][99] == "99"


DCP = """
import sys
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FsspecReader, FsspecWriter

place = sys.argv[1]
state = {"w": torch.arange(1000.0).reshape(10, 100), "step": 7}
dcp.save(state, storage_writer=FsspecWriter(place))
into = {"w": torch.zeros(10, 100), "step": 0}
dcp.load(into, storage_reader=FsspecReader(place))
assert torch.equal(into["w"], state["w"]) and into["step"] == 7
print("the same again")
"""


@pytest.mark.frameworks
@pytest.mark.timeout(1800)
def test_torchs_own_checkpoints_by_url(
    fs: FileSystem, home: str, cluster_env: dict[str, str]
) -> None:
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": beside_ours("torch"),
        "HADOOP_CONF_DIR": cluster_env["HADOOP_CONF_DIR"],
        "HDFS_UTILS_BACKEND": fs.backend,
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DCP, f"hdfs://{home}/step-7"],
        env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the same again" in done.stdout
    assert f"{home}/step-7/.metadata" in [one.path for one in fs.list(f"{home}/step-7")]


@pytest.mark.long
class TestConformance(
    abstract.AbstractCopyTests,
    abstract.AbstractGetTests,
    abstract.AbstractPutTests,
    abstract.AbstractPipeTests,
    abstract.AbstractOpenTests,
    abstract.AbstractFixtures,
):
    """fsspec's own tests, which a unit test runs on a local disk."""

    @pytest.fixture
    def fs(self, cluster_env: dict[str, str]) -> Any:
        conf_dir = cluster_env["HADOOP_CONF_DIR"]
        return fsspec.filesystem("hdfs", conf_dir=conf_dir, backend="webhdfs")

    @pytest.fixture
    def local_fs(self) -> Any:
        return LocalFileSystem(auto_mkdir=True)

    @pytest.fixture
    def fs_path(self, fs: Any, unique_name: Callable[[str], str]) -> Iterator[str]:
        directory = f"/tmp/{unique_name('conformance')}"
        fs.mkdir(directory)
        yield directory
        fs.rm(directory, recursive=True)
