"""The pyarrow back-end over pyarrow's own local file system.

It stands in for ``HadoopFileSystem``, which needs the site's libhdfs: only our side is tried here.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.fs
import pytest

import hdfs_utils
from hdfs_utils import TimeLimits
from hdfs_utils.backends import libhdfs
from hdfs_utils.backends.libhdfs import ArrowFileSystem
from hdfs_utils.errors import (
    AlreadyExists,
    DirectoryNotEmpty,
    IsADirectory,
    NotADirectory,
    NotFound,
    NotSupported,
)


@pytest.fixture
def fs() -> ArrowFileSystem:
    return ArrowFileSystem(pyarrow.fs.LocalFileSystem(), "hdfs://arrow", TimeLimits())


def test_files_and_directories(fs: ArrowFileSystem, tmp_path: Path) -> None:
    home = f"{tmp_path}/home"
    fs.write_bytes(f"{home}/d/a", b"0123456789")
    with pytest.raises(AlreadyExists):
        fs.write_bytes(f"{home}/d/a", b"")
    with fs.open_appender(f"{home}/d/a") as writer:
        writer.write(b"ab")
        writer.sync()
    with fs.open_reader(f"{home}/d/a") as reader:
        assert reader.size == 12
        assert reader.seek(-2, 2) == 10
        assert reader.read() == b"ab"
    assert [s.path for s in fs.walk(home)] == [f"{home}/d", f"{home}/d/a"]
    fs.rename(f"{home}/d/a", f"{home}/b")
    assert fs.stat(f"{home}/b").length == 12
    fs.write_bytes(f"{home}/c", b"")
    with pytest.raises(NotSupported, match="replace"):
        fs.rename(f"{home}/b", f"{home}/c", overwrite=True)
    with pytest.raises(DirectoryNotEmpty):
        fs.delete(home)
    assert fs.delete(home, recursive=True)
    assert fs.delete(home) is False


def test_what_is_wrong_is_told(fs: ArrowFileSystem, tmp_path: Path) -> None:
    fs.write_bytes(f"{tmp_path}/a", b"x")
    with pytest.raises(NotFound):
        fs.stat(f"{tmp_path}/missing")
    with pytest.raises(NotADirectory):
        fs.list(f"{tmp_path}/a")
    with pytest.raises(IsADirectory):
        fs.open_reader(str(tmp_path))
    with pytest.raises(IsADirectory):
        fs.open_writer(str(tmp_path))
    for call in (lambda: fs.crc32c([f"{tmp_path}/a"]), lambda: fs.recover_lease(f"{tmp_path}/a")):
        with pytest.raises(NotSupported):
            call()


def test_an_aborted_file_is_gone(fs: ArrowFileSystem, tmp_path: Path) -> None:
    writer = fs.open_writer(f"{tmp_path}/a")
    writer.write(b"half")
    writer.abort()
    assert not fs.exists(f"{tmp_path}/a")


def test_without_libhdfs_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HADOOP_HOME", libhdfs.LIBRARY_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    conf = {"fs.defaultFS": "hdfs://one:8020"}
    with pytest.raises(NotSupported, match=r"libhdfs\.so"):
        hdfs_utils.connect(conf=conf, backend="arrow")
    with pytest.raises(NotSupported, match="unknown back-end"):
        hdfs_utils.connect(conf=conf, backend="what")
    (tmp_path / "libhdfs.so").touch()
    assert libhdfs.why_unavailable({libhdfs.LIBRARY_VARIABLE: str(tmp_path)}) == ""
