"""Downloads: resumed, verified, never half-written under their name."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tests.unit.cluster.file_server import FileServer, corrupt, status, truncate
from yarnam.cluster.software.download import Download, download_all
from yarnam.errors import Unavailable

CONTENT = os.urandom(700_000)


class Counter:
    """A progress that adds up."""

    def __init__(self) -> None:
        self.files = self.total = self.done = 0
        self.finished = False

    def begin(self, files: int, total_bytes: int) -> None:
        self.files, self.total = files, total_bytes

    def advance(self, count: int) -> None:
        self.done += count

    def finish(self) -> None:
        self.finished = True


@pytest.fixture
def download(tmp_path: Path, file_server: FileServer) -> Download:
    file_server.files["/a.jar"] = CONTENT
    return Download(
        url=f"{file_server.url}/a.jar",
        target=tmp_path / "a.jar",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


def fetch(download: Download) -> Counter:
    counter = Counter()
    download_all([download], counter, tries=3, pause_s=0.01)
    return counter


def test_a_file_arrives_whole(download: Download) -> None:
    counter = fetch(download)
    assert download.target.read_bytes() == CONTENT
    assert not download.part.exists()
    assert (counter.files, counter.total, counter.done) == (1, len(CONTENT), len(CONTENT))
    assert counter.finished


def test_it_goes_on_where_an_earlier_try_stopped(
    download: Download, file_server: FileServer
) -> None:
    download.part.write_bytes(CONTENT[:300_000])
    counter = fetch(download)
    assert download.target.read_bytes() == CONTENT
    assert file_server.requests == [("/a.jar", "bytes=300000-")]
    assert counter.done == len(CONTENT)


def test_a_connection_that_breaks_is_taken_up_again(
    download: Download, file_server: FileServer
) -> None:
    file_server.faults["/a.jar"] = [truncate(after=200_000)]
    counter = fetch(download)
    assert download.target.read_bytes() == CONTENT
    assert [wanted for _, wanted in file_server.requests] == [None, "bytes=200000-"]
    assert counter.done == len(CONTENT)


def test_a_server_without_ranges_sends_all_of_it_again(
    download: Download, file_server: FileServer
) -> None:
    file_server.honours_ranges = False
    download.part.write_bytes(CONTENT[:300_000])
    counter = fetch(download)
    assert download.target.read_bytes() == CONTENT
    assert counter.done == len(CONTENT)


def test_a_complete_part_needs_no_request(download: Download, file_server: FileServer) -> None:
    download.part.write_bytes(CONTENT)
    fetch(download)
    assert download.target.read_bytes() == CONTENT
    assert file_server.requests == []


@pytest.mark.parametrize("left", [bytes(len(CONTENT)), CONTENT + b"more", bytes(300_000)])
def test_a_rotten_part_is_thrown_away(download: Download, left: bytes) -> None:
    download.part.write_bytes(left)
    counter = fetch(download)
    assert download.target.read_bytes() == CONTENT
    assert counter.done == len(CONTENT)


def test_corrupt_bytes_are_fetched_again(download: Download, file_server: FileServer) -> None:
    file_server.faults["/a.jar"] = [corrupt]
    fetch(download)
    assert download.target.read_bytes() == CONTENT


def test_bytes_that_stay_corrupt_never_get_the_name(
    download: Download, file_server: FileServer
) -> None:
    file_server.faults["/a.jar"] = [corrupt] * 3
    with pytest.raises(Unavailable, match="SHA-256"):
        fetch(download)
    assert not download.target.exists()


def test_a_file_longer_than_the_lock_says_is_refused(
    download: Download, file_server: FileServer
) -> None:
    file_server.files["/a.jar"] = CONTENT + bytes(1_000_000)
    with pytest.raises(Unavailable, match="more bytes"):
        fetch(download)
    assert not download.target.exists()


def test_what_is_not_there_is_said_at_once(download: Download, file_server: FileServer) -> None:
    del file_server.files["/a.jar"]
    with pytest.raises(Unavailable) as failure:
        fetch(download)
    assert "404" in failure.value.message
    assert download.url in failure.value.message
    assert "YARNAM_MAVEN_REPOSITORY" in failure.value.hint
    assert len(file_server.requests) == 1


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_server_in_trouble_is_asked_again(
    download: Download, file_server: FileServer, code: int
) -> None:
    file_server.faults["/a.jar"] = [status(code), status(code)]
    fetch(download)
    assert download.target.read_bytes() == CONTENT


def test_nobody_listening_is_unavailable(download: Download, tmp_path: Path) -> None:
    nowhere = Download("http://127.0.0.1:1/a.jar", tmp_path / "b.jar", 1, "0" * 64)
    with pytest.raises(Unavailable, match="Connection refused"):
        fetch(nowhere)


def test_one_failure_ends_the_whole_fetch_and_keeps_what_came(
    download: Download, file_server: FileServer, tmp_path: Path
) -> None:
    gone = Download(f"{file_server.url}/gone.jar", tmp_path / "gone.jar", 9, "0" * 64)
    with pytest.raises(Unavailable):
        download_all([download, gone], Counter(), tries=1, threads=1)
    # The larger file goes first, so it is whole by the time the other fails.
    assert download.target.read_bytes() == CONTENT
