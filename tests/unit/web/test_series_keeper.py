"""The series of a job's page outlive the ApplicationMaster that has sampled them."""

from __future__ import annotations

import time

from tests.fakes.state_store import FakeStore, StoreDisk
from tests.unit.web.test_training_series import report
from yarnam.web.training_series import SERIES_FILE, SeriesKeeper, TrainingSeries


def trained(keeper_of: TrainingSeries, first: int, count: int = 5) -> None:
    for number in range(first, first + count):
        keeper_of.sample([report(0, 10.0 * number, number, loss=float(number))])


def losses(series: TrainingSeries) -> list[float]:
    return [value for one in series.series() if one.name == "loss" for _, value in one.points]


def test_the_next_attempt_goes_on_with_them() -> None:
    disk, first, second = StoreDisk(), TrainingSeries(), TrainingSeries()
    trained(first, 0)
    keeper = SeriesKeeper(first, FakeStore(disk, 1))
    assert keeper.keep()
    trained(second, 10)
    assert SeriesKeeper(second, FakeStore(disk, 2)).keep()
    assert losses(second) == [0.0, 1.0, 2.0, 3.0, 4.0, 10.0, 11.0, 12.0, 13.0, 14.0]
    trained(first, 5)
    assert not keeper.keep(), "the newer attempt owns the record"
    third = TrainingSeries()
    SeriesKeeper(third, FakeStore(disk, 3)).keep()
    assert losses(third) == losses(second)


def test_what_was_not_read_is_not_overwritten() -> None:
    disk, first, second = StoreDisk(), TrainingSeries(), TrainingSeries()
    trained(first, 0)
    SeriesKeeper(first, FakeStore(disk, 1)).keep()
    trained(second, 10)
    keeper = SeriesKeeper(second, FakeStore(disk, 2))
    disk.outages = 1
    assert keeper.keep()
    assert losses(second) == [10.0, 11.0, 12.0, 13.0, 14.0]
    assert keeper.keep()
    assert losses(second)[0] == 0.0


def test_a_damaged_record_is_replaced_and_nothing_new_is_not_written() -> None:
    disk, series = StoreDisk(), TrainingSeries()
    disk.records[SERIES_FILE] = b"{"
    keeper = SeriesKeeper(series, FakeStore(disk, 1))
    trained(series, 0)
    assert keeper.keep()
    written = disk.records[SERIES_FILE]
    assert b"loss" in written
    assert keeper.keep()
    assert disk.records[SERIES_FILE] is written


def test_it_runs_by_itself_until_it_is_closed() -> None:
    disk, series = StoreDisk(), TrainingSeries()
    trained(series, 0)
    keeper = SeriesKeeper(series, FakeStore(disk, 1), period_s=0.01)
    keeper.start()
    deadline_s = time.monotonic() + 30.0
    while SERIES_FILE not in disk.records and time.monotonic() < deadline_s:
        time.sleep(0.01)
    keeper.close()
    assert SERIES_FILE in disk.records
