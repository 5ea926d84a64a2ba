"""Small files by HTTP and a rename: what an error leaves."""

from __future__ import annotations

import pytest

from hdfs_utils.errors import AlreadyExists, HdfsError, QuotaExceeded, Unavailable
from tests.fakes.files import MemoryFiles, fail_on
from yarnam.adapters.hdfs.small_files import SmallFiles


class HalfWritten(MemoryFiles):
    """Over HTTP: the file is there before its first block finds no room."""

    def __init__(self, files: MemoryFiles, error: HdfsError) -> None:
        super().__init__()
        self._files, self._error = files, error

    def write_bytes(self, path: str, data: object, overwrite: bool = False) -> None:
        self._files.write_bytes(path, b"", overwrite=overwrite)
        raise self._error


def test_a_file_without_room_for_its_block_is_taken_away_again() -> None:
    files = MemoryFiles()
    full = HalfWritten(files, QuotaExceeded("The DiskSpace quota is exceeded"))
    with pytest.raises(QuotaExceeded):
        SmallFiles(files, lambda: full).put("/a/file", b"content")
    assert files.list("/a") == []


def test_where_http_does_not_get_through_the_native_client_writes() -> None:
    files = MemoryFiles()
    small = SmallFiles(files, lambda: HalfWritten(files, Unavailable("no route to the DataNode")))
    small.put("/a/file", b"content", overwrite=False)
    assert [status.path for status in files.list("/a")] == ["/a/file"]
    with pytest.raises(AlreadyExists):
        small.put("/a/file", b"other", overwrite=False)
    assert files.read_bytes("/a/file") == b"content"


def test_without_overwriting_the_file_that_is_there_stays() -> None:
    files = MemoryFiles()
    small = SmallFiles(files, lambda: files)
    small.put("/a/file", b"content", overwrite=False)
    with pytest.raises(AlreadyExists):
        small.put("/a/file", b"other", overwrite=False)
    assert files.read_bytes("/a/file") == b"content"
    assert [status.path for status in files.list("/a")] == ["/a/file"]
    small.put("/a/file", b"newer")
    assert files.read_bytes("/a/file") == b"newer"


def test_an_error_of_the_native_client_is_the_callers() -> None:
    files = MemoryFiles()
    files.fail = fail_on("write", Unavailable("the NameNode is away"), times=99)
    with pytest.raises(Unavailable):
        SmallFiles(files).put("/a/file", b"content")
