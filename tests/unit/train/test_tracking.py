"""What is reported goes to a tracker once, however the tracker behaves."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress

import pytest

from yarnam import train
from yarnam.train._reports import reporting
from yarnam.train._tracking import tracking
from yarnam.train._tracking.metric_point import Point
from yarnam.train._tracking.tracking import FINISHED, MAX_KEPT, _Feed


class FakeTracker:
    """Keeps what it gets. ``failures``: how many writes fail before one succeeds."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.points: list[Point] = []
        self.ended: list[str] = []
        self.release = threading.Event()
        self.release.set()

    def write(self, points: Sequence[Point]) -> None:
        self.release.wait(10)
        if self.failures:
            self.failures -= 1
            raise ConnectionError("away")
        self.points += points

    def close(self, end: str) -> None:
        self.ended.append(end)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "SEND_S", 0.02)
    monkeypatch.setattr(tracking, "KEEP_S", 1e-9)
    for name in (tracking.MLFLOW_VARIABLE, tracking.TENSORBOARD_VARIABLE, "YARNAM_RANK"):
        monkeypatch.delenv(name, raising=False)


def ended(feed: _Feed, within_s: float = 10.0) -> None:
    feed.end(FINISHED)
    feed.join(time.monotonic() + within_s)


def test_every_value_arrives_once_in_order_and_the_run_is_closed() -> None:
    tracker = FakeTracker()
    feed = _Feed("it", lambda: tracker)
    for step in range(50):
        feed.add(step, {"loss": 1 / (step + 1)})
        time.sleep(0.001)
    ended(feed)
    assert [point.step for point in tracker.points] == list(range(50))
    assert tracker.ended == [FINISHED]


def test_a_tracker_that_was_away_gets_what_came_meanwhile(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tracker = FakeTracker(failures=3)
    feed = _Feed("it", lambda: tracker)
    feed.add(1, {"loss": 0.5})
    deadline = time.monotonic() + 10
    while not tracker.points and time.monotonic() < deadline:
        time.sleep(0.01)
    feed.add(None, {"accuracy": 0.9})
    ended(feed)
    assert [(one.name, one.step) for one in tracker.points] == [("loss", 1), ("accuracy", 1)]
    assert capsys.readouterr().err.count("yarnam: it: ConnectionError: away") == 1


def test_of_an_interval_the_newest_value_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "KEEP_S", 3600.0)
    monkeypatch.setattr(tracking.time, "time", lambda: 7200.5)
    tracker = FakeTracker()
    tracker.release.clear()
    feed = _Feed("it", lambda: tracker)
    for step in range(5):
        feed.add(step, {"loss": float(step)})
    tracker.release.set()
    ended(feed)
    assert tracker.points[-1] == Point("loss", 4.0, 4, 7200.5)


def test_what_waits_is_bounded() -> None:
    def away() -> FakeTracker:
        raise ConnectionError("away")

    feed = _Feed("it", away)
    feed.add(0, {f"m{n}": 0.0 for n in range(MAX_KEPT + 100)})
    assert len(feed._kept) == MAX_KEPT
    ended(feed)


def test_the_end_waits_for_a_dead_tracker_for_so_long(capsys: pytest.CaptureFixture[str]) -> None:
    tracker = FakeTracker()
    tracker.release.clear()
    feed = _Feed("it", lambda: tracker)
    feed.add(1, {"loss": 0.5})
    ended(feed, within_s=0.3)
    assert "the end of the run is not sent" in capsys.readouterr().err
    tracker.release.set()


@pytest.mark.parametrize("rank", ["0", "1"])
def test_only_rank_0_sends_and_only_in_the_block(
    rank: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YARNAM_RANK", rank)
    tracker = FakeTracker()
    monkeypatch.setattr(tracking, "_feeds", lambda _: [_Feed("it", lambda: tracker)])
    train.report(step=0, loss=9.0)
    with suppress(KeyError), train.tracking({"lr": 0.1}):
        train.report(step=1, loss=0.5, note="no number")
        raise KeyError
    train.report(step=2, loss=9.0)
    assert reporting.observers == []
    if rank == "0":
        assert [(one.name, one.value, one.step) for one in tracker.points] == [("loss", 0.5, 1)]
        assert tracker.ended == ["FAILED"]
    else:
        assert tracker.ended == []


def test_without_the_variables_it_does_nothing() -> None:
    before = threading.active_count()
    with train.tracking({"lr": 0.1}):
        train.report(step=1, loss=0.5)
        assert threading.active_count() == before


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tracking.MLFLOW_VARIABLE, "http://127.0.0.1:1")
    monkeypatch.setattr(tracking, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match="pip install 'mlflow-skinny'"), train.tracking():
        pass
