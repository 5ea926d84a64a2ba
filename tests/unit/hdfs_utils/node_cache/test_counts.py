"""How far the bringing is, and how long it will take."""

from __future__ import annotations

import pytest

from hdfs_utils.node_cache import Counts


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_left_follows_what_came_last() -> None:
    clock = Clock()
    counts = Counts(clock)
    counts.begin(3, 1000)
    assert counts.standing().left_s is None
    counts.found(200)
    for _ in range(4):
        clock.now += 1
        counts.add(100)
    standing = counts.standing()
    assert (standing.done, standing.cached, standing.fetched) == (600, 200, 400)
    # 400 bytes in 3 s between the first and the last.
    assert standing.left_s == pytest.approx(400 / (400 / 3))
    clock.now += 60
    assert counts.standing().left_s is None  # nothing came for long: nobody knows


def test_nothing_left_once_all_files_are_done() -> None:
    counts = Counts()
    counts.begin(1, 10)
    counts.add(10)
    assert counts.standing().left_s is None  # being verified
    counts.file_done()
    assert counts.standing().left_s == 0.0


def test_bytes_that_are_read_again_are_not_done_twice() -> None:
    counts = Counts()
    counts.begin(1, 10)
    counts.add(10)
    counts.add(-10)
    counts.add(10)
    assert (counts.standing().done, counts.standing().fetched) == (10, 20)


def test_trouble_is_told_until_it_is_over() -> None:
    counts = Counts()
    counts.trouble("HDFS is in safe mode")
    assert counts.standing().trouble == "HDFS is in safe mode"
    counts.trouble("")
    assert counts.standing().trouble == ""
