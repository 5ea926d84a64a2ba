"""How far the bringing is, and how long it will take."""

from __future__ import annotations

import pytest

from hdfs_utils.node_cache import FetchProgress


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_left_follows_what_came_last() -> None:
    clock = Clock()
    progress = FetchProgress(clock)
    progress.begin(3, 1000)
    assert progress.snapshot().left_s is None
    progress.found(200)
    for _ in range(4):
        clock.now += 1
        progress.add(100)
    snapshot = progress.snapshot()
    assert (snapshot.done, snapshot.cached, snapshot.fetched) == (600, 200, 400)
    # 400 bytes in 3 s between the first and the last.
    assert snapshot.left_s == pytest.approx(400 / (400 / 3))
    clock.now += 60
    assert progress.snapshot().left_s is None  # nothing came for long: nobody knows


def test_nothing_left_once_all_files_are_done() -> None:
    progress = FetchProgress()
    progress.begin(1, 10)
    progress.add(10)
    assert progress.snapshot().left_s is None  # being verified
    progress.file_done()
    assert progress.snapshot().left_s == 0.0


def test_bytes_that_are_read_again_are_not_done_twice() -> None:
    progress = FetchProgress()
    progress.begin(1, 10)
    progress.add(10)
    progress.add(-10)
    progress.add(10)
    assert (progress.snapshot().done, progress.snapshot().fetched) == (10, 20)


def test_trouble_is_told_until_it_is_over() -> None:
    progress = FetchProgress()
    progress.set_trouble("HDFS is in safe mode")
    assert progress.snapshot().trouble == "HDFS is in safe mode"
    progress.set_trouble("")
    assert progress.snapshot().trouble == ""
