"""One suite for claims on every file system: one job gets a directory, and only its own goes."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import hdfs_utils
from hdfs_utils import FileSystem
from hdfs_utils.uri import MAX_NAME_BYTES
from tests.fakes.files import MemoryFiles
from yarnam.adapters.hdfs.claim_files import ClaimFile
from yarnam.adapters.hdfs.small_files import SmallFiles
from yarnam.wire.shared.path_claim import ClaimedPath, PathClaim

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

HDFS = [pytest.mark.hdfs]
RIVALS = 6


@pytest.fixture(
    params=[
        "memory",
        pytest.param("native", marks=HDFS),
        pytest.param("webhdfs", marks=HDFS),
        pytest.param("small files by HTTP", marks=HDFS),
    ]
)
def file(request: pytest.FixtureRequest) -> Iterator[ClaimFile]:
    """A claim that nobody has made."""
    home = f"/tmp/claims-{uuid.uuid4().hex}"
    target = ClaimedPath("checkpoint.directory", home)
    if request.param == "memory":
        yield ClaimFile(MemoryFiles(), home, target)
        return
    cluster: EmbeddedCluster = request.getfixturevalue("cluster")
    conf = str(cluster.conf_dir)

    def connect(backend: str) -> FileSystem:
        return hdfs_utils.connect(conf_dir=conf, backend=backend)

    files = connect("webhdfs" if request.param == "webhdfs" else "native")
    small = None
    if request.param == "small files by HTTP":
        small = SmallFiles(files, lambda: connect("webhdfs"))
    yield ClaimFile(files, home, target, small)
    files.delete(home, recursive=True)


def claim(number: int) -> PathClaim:
    return PathClaim(f"20260101-000000-{number:06x}", "me", f"job-{number}", "http://rm:8088")


def test_the_first_claim_stands(file: ClaimFile) -> None:
    assert file.read() is None
    assert file.create(claim(1))
    assert not file.create(claim(2))
    found = file.read()
    assert found is not None
    assert found.claim == claim(1)
    assert found.owner
    assert [status.path for status in file.files.list(file.directory)] == [file.path]


def test_of_several_at_one_instant_one_gets_it(file: ClaimFile) -> None:
    barrier = threading.Barrier(RIVALS)

    def create(number: int) -> bool:
        barrier.wait()
        return file.create(claim(number))

    with ThreadPoolExecutor(RIVALS) as pool:
        got = list(pool.map(create, range(RIVALS)))
    assert got.count(True) == 1
    found = file.read()
    assert found is not None
    assert found.claim == claim(got.index(True))
    assert [status.path for status in file.files.list(file.directory)] == [file.path]


def test_only_the_jobs_own_claim_is_released(file: ClaimFile) -> None:
    file.create(claim(1))
    file.release(claim(2).key)
    assert file.read() is not None
    file.release(claim(1).key)
    assert file.read() is None
    file.release(claim(1).key)


def test_only_the_claim_that_was_judged_is_removed(file: ClaimFile) -> None:
    file.create(claim(1))
    judged = file.read()
    assert judged is not None
    file.release(claim(1).key)
    file.remove(judged)  # its job was faster
    file.create(claim(2))
    file.remove(judged)
    found = file.read()
    assert found is not None
    assert found.claim == claim(2), "a newer claim was removed"
    file.remove(found)
    assert file.read() is None
    assert file.files.list(file.directory) == []


def test_the_longest_name_of_an_output_has_a_claim(file: ClaimFile) -> None:
    path = f"{file.directory}/{'x' * MAX_NAME_BYTES}"
    target = ClaimedPath("data.outputs", path, is_output=True)
    long = ClaimFile(file.files, path, target, file._small_files)
    assert long.create(claim(1))
    found = long.read()
    assert found is not None
    assert found.claim == claim(1)
    long.remove(found)
    assert file.files.list(file.directory) == []


@pytest.mark.parametrize("content", [b"", b"garbage", b"[" * 100_000])
def test_what_is_not_a_claim_is_reported_as_such_and_can_be_removed(
    file: ClaimFile, content: bytes
) -> None:
    file.files.write_bytes(file.path, content)
    found = file.read()
    assert found is not None
    assert found.claim is None
    file.release(claim(1).key)
    file.remove(found)
    assert file.files.list(file.directory) == []
